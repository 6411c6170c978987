//! Whether a projector may have an event in hand: one that it has fetched and not committed, and that would bring the row back
//! after everything else is erased.
//!
//! The broker knows, but only until the event is erased: it then counts it as done, whoever still holds it. So the question is
//! asked before, and once more after, in case a projector has fetched one of them in between.

use std::time::Duration;

use stream::consume::Progress;
use tokio::time::{Instant, sleep};
use tracing::info;

use super::EraseError;
use crate::config::EraseConfig;
use crate::reach::Log;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// The hands of the projectors of one consumer.
#[derive(Debug)]
pub(super) struct Hands<'c> {
    log: &'c Log,
    config: &'c EraseConfig,
}

impl<'c> Hands<'c> {
    pub(super) fn new(log: &'c Log, config: &'c EraseConfig) -> Self {
        Self { log, config }
    }

    /// Waits until none of these is in anybody's hand, and says how far the consumer was then; None when that takes too long.
    pub(super) async fn empty(&self, seqs: &[u64]) -> Result<Option<Option<Progress>>, EraseError> {
        let end = Instant::now() + self.config.wait;
        let mut said = false;
        loop {
            let progress = self.progress().await?;
            if self.config.projectors_stopped || seqs.iter().all(|seq| !may_be_in_hand(progress, *seq)) {
                return Ok(Some(progress));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            if !std::mem::replace(&mut said, true) {
                info!("waiting for the projectors, which may have an event of the task in hand");
            }
            sleep(PAUSE).await;
        }
    }

    /// Whether that stayed so until they were erased.
    pub(super) async fn stayed_empty(
        &self,
        before: Option<Progress>,
        seqs: &[u64],
    ) -> Result<bool, EraseError> {
        let after = self.progress().await?;
        let never = |seq: &u64| !may_have_been_fetched(before, after, *seq);
        Ok(self.config.projectors_stopped || seqs.iter().all(never))
    }

    async fn progress(&self) -> Result<Option<Progress>, EraseError> {
        let progress = self.log.reader.progress(&self.config.consumer).await;
        progress.map_err(EraseError::Consumer)
    }
}

/// Whether it was delivered and is not acknowledged, for all that is known.
fn may_be_in_hand(progress: Option<Progress>, seq: u64) -> bool {
    progress.is_some_and(|now| now.ack_floor < seq && seq <= now.delivered && now.unacknowledged > 0)
}

/// Whether it was delivered between these two looks, or a second time to a consumer that was made anew.
fn may_have_been_fetched(before: Option<Progress>, after: Option<Progress>, seq: u64) -> bool {
    let Some(after) = after else { return false };
    let done = match before {
        // Acknowledged before, and never delivered again.
        Some(before) if before.created == after.created => before.ack_floor,
        Some(_) | None => 0,
    };
    let seen_before = before.is_some_and(|before| before.created == after.created && seq <= before.delivered);
    seq > done && seq <= after.delivered && !seen_before
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;

    fn progress(created: i64, ack_floor: u64, delivered: u64, unacknowledged: usize) -> Option<Progress> {
        Some(Progress {
            ack_floor,
            delivered,
            pending: 0,
            unacknowledged,
            redelivered: 0,
            created: OffsetDateTime::from_unix_timestamp(created).unwrap(),
        })
    }

    #[test]
    fn only_what_is_delivered_and_not_acknowledged_is_in_hand() {
        assert!(!may_be_in_hand(None, 5));
        assert!(!may_be_in_hand(progress(1, 5, 9, 4), 5));
        assert!(may_be_in_hand(progress(1, 4, 9, 4), 5));
        assert!(!may_be_in_hand(progress(1, 4, 9, 0), 5));
        assert!(!may_be_in_hand(progress(1, 2, 4, 2), 5));
    }

    #[test]
    fn what_was_fetched_between_two_looks_is_noticed() {
        let before = progress(1, 4, 4, 0);
        assert!(!may_have_been_fetched(before, progress(1, 4, 4, 0), 5));
        assert!(may_have_been_fetched(before, progress(1, 4, 6, 1), 5));
        assert!(!may_have_been_fetched(
            progress(1, 5, 5, 0),
            progress(1, 9, 9, 0),
            5
        ));
        // Not in hand before although it had been delivered: it was acknowledged, out of order.
        assert!(!may_have_been_fetched(
            progress(1, 4, 6, 0),
            progress(1, 6, 6, 0),
            5
        ));
        // Another consumer of the name begins after a lower floor.
        assert!(may_have_been_fetched(
            progress(1, 9, 9, 0),
            progress(2, 4, 9, 3),
            5
        ));
        assert!(!may_have_been_fetched(
            progress(1, 9, 9, 0),
            progress(2, 4, 4, 0),
            5
        ));
        assert!(!may_have_been_fetched(before, None, 5));
    }
}
