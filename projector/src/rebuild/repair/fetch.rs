//! Events read once more, because they are to be written: a few out of many.

use std::collections::VecDeque;
use std::pin::pin;

use futures_util::{StreamExt, TryStreamExt};
use tokio_postgres::Client;

use super::{MOST_KEYS, Repair};
use crate::decode::{Decoded, Message};
use crate::rebuild::RebuildError;
use crate::rebuild::found::{self, Due, Span};
use crate::rebuild::replay::replay;
use crate::rebuild::report::Finding;
use database::DatabaseError;

/// Events read one by one, at once. For each the broker may have to load a block of its file, and others use it as well.
const AT_ONCE: usize = 4;
/// Of so many sequences one must be due for it to be better to go through all of them: the broker reads them one behind the other
/// then.
const ONE_OF: u64 = 1_000;
/// So few are read one by one, however close they are.
const FEW: u64 = 16;

impl Repair<'_> {
    /// Hands out what is due, by sequence, as far as the stream still holds it. The stream is gone through once, or not at all.
    pub(super) async fn fetch(
        &self,
        findings: &[Finding],
        each: impl AsyncFnMut(Due, Decoded) -> Result<(), RebuildError>,
    ) -> Result<(), RebuildError> {
        let client = self.intake.to.session.client();
        let Some(span) = found::span(client, findings).await? else {
            return Ok(());
        };
        let dues = Dues::new(client, findings);
        if goes_through(span) {
            self.fetch_among(span, dues, each).await
        } else {
            self.fetch_each(dues, each).await
        }
    }

    async fn fetch_among(
        &self,
        span: Span,
        mut dues: Dues<'_>,
        mut each: impl AsyncFnMut(Due, Decoded) -> Result<(), RebuildError>,
    ) -> Result<(), RebuildError> {
        let mut due = dues.next().await?;
        let mut stretches = pin!(replay(
            self.intake.log,
            self.decoder,
            span.first,
            span.last,
            |_| ()
        ));
        while let Some((stretch, ())) = stretches.try_next().await? {
            for decoded in stretch.events {
                let seq = decoded.seq();
                while due.is_some_and(|due| due.event_seq < seq) {
                    due = dues.next().await?;
                }
                if let Some(found) = due.filter(|due| due.event_seq == seq) {
                    each(found, decoded).await?;
                }
            }
        }
        Ok(())
    }

    async fn fetch_each(
        &self,
        mut dues: Dues<'_>,
        mut each: impl AsyncFnMut(Due, Decoded) -> Result<(), RebuildError>,
    ) -> Result<(), RebuildError> {
        while let Some(page) = dues.page().await? {
            let mut read = pin!(
                futures_util::stream::iter(page)
                    .map(async |due| {
                        let event = self.intake.log.reader.event(due.event_seq).await?;
                        Ok::<_, RebuildError>(event.map(|event| (due, event)))
                    })
                    .buffered(AT_ONCE)
            );
            while let Some(read) = read.try_next().await? {
                if let Some((due, event)) = read {
                    each(due, self.decoder.decode(Message::from(event))).await?;
                }
            }
        }
        Ok(())
    }
}

fn goes_through(span: Span) -> bool {
    span.count > FEW && span.count.saturating_mul(ONE_OF) > span.last - span.first
}

/// What is due, by sequence, a page in memory.
struct Dues<'d> {
    client: &'d Client,
    findings: &'d [Finding],
    page: VecDeque<Due>,
    after: u64,
}

impl<'d> Dues<'d> {
    fn new(client: &'d Client, findings: &'d [Finding]) -> Self {
        Self {
            client,
            findings,
            page: VecDeque::new(),
            after: 0,
        }
    }

    async fn next(&mut self) -> Result<Option<Due>, DatabaseError> {
        if self.page.is_empty() {
            self.page = self.page().await?.unwrap_or_default().into();
        }
        Ok(self.page.pop_front())
    }

    async fn page(&mut self) -> Result<Option<Vec<Due>>, DatabaseError> {
        let page = found::due(self.client, self.findings, self.after, MOST_KEYS).await?;
        let Some(last) = page.last() else { return Ok(None) };
        self.after = last.event_seq;
        Ok(Some(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_gone_through_when_one_of_a_thousand_is_due() {
        let span = |count, last| Span {
            count,
            first: 1,
            last,
        };
        assert!(goes_through(span(100, 50_000)));
        assert!(!goes_through(span(100, 1_000_000)));
        assert!(!goes_through(span(3, 10)));
    }
}
