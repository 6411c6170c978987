//! Going through the stream from one sequence to another.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use thiserror::Error;
use tokio::time::sleep;
use tracing::debug;

use super::bulk::{EVENTS, Served};
use super::source::{Source, Ways};
use super::{ReadEvent, Reader};
use crate::connect::Settings;
use crate::consume::ApiError;

/// So often in a row nothing may come before the scan is given up.
const ATTEMPTS: u32 = 12;
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(500);
/// Events read one by one, at once. As many of the largest size are in memory together.
const AT_ONCE: usize = 8;
/// After each break in a row twice as many are read one by one, up to this power of two: this user may have no right to read
/// many, and each attempt takes a while.
const MOST_DOUBLINGS: u32 = 10;

/// Goes through a range of sequences once, from its beginning to its end. Sequences that hold nothing are passed over.
///
/// It reads many at a time. Where that breaks, over an event that the client cannot read or because this user may not, it reads
/// one by one, which no event can break and which is an order of magnitude slower.
#[derive(Debug)]
pub struct Scan {
    reader: Reader,
    settings: Settings,
    /// The first sequence that was not seen yet.
    next: u64,
    last: u64,
    source: Option<Source>,
    ways: Ways,
    /// Up to here events are read one by one.
    careful_until: u64,
    /// Breaks in a row, without an event of many in between.
    breaks: u32,
}

/// Why a scan did not come to its end.
#[derive(Debug, Error)]
pub enum ScanError {
    /// The broker refuses.
    #[error("the broker does not give the events from sequence {seq} on: {answer}")]
    Refused {
        /// Where it was.
        seq: u64,
        /// What the broker says.
        answer: String,
    },
    /// The broker shows less than it holds, for longer than a replica may lag.
    #[error("the broker does not give the events from sequence {seq} on, and does not say why")]
    Silent {
        /// Where it was.
        seq: u64,
    },
    /// The broker cannot be asked.
    #[error("at sequence {seq}")]
    Api {
        /// Where it was.
        seq: u64,
        /// What went wrong.
        source: ApiError,
    },
}

impl Scan {
    pub(super) fn new(reader: &Reader, settings: &Settings, first: u64, last: u64) -> Self {
        Self {
            reader: reader.clone(),
            settings: settings.clone(),
            next: first.max(1),
            last,
            source: None,
            ways: Ways::default(),
            careful_until: 0,
            breaks: 0,
        }
    }

    /// How far it is: every event with a lesser sequence was handed out, or is not there.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// The next events, in order; None at the end. The ones behind them are asked for before these are handed out, so that the
    /// broker reads while the caller works.
    pub async fn next(&mut self) -> Result<Option<Vec<ReadEvent>>, ScanError> {
        let mut attempts = 0;
        while self.next <= self.last {
            let read = if self.next <= self.careful_until {
                self.one_by_one().await
            } else {
                self.many().await
            };
            let error = match read {
                Ok(Some(events)) if events.is_empty() => continue,
                Ok(Some(events)) => return Ok(Some(events)),
                Ok(None) => ScanError::Silent { seq: self.next },
                Err(error @ ScanError::Refused { .. }) => return Err(error),
                Err(error) => error,
            };
            attempts += 1;
            if attempts == ATTEMPTS {
                return Err(error);
            }
            debug!(%error, "trying on");
            sleep(PAUSE).await;
        }
        if let Some(source) = self.source.take() {
            source.close().await;
        }
        Ok(None)
    }

    /// Some of many. Nothing in it means that it is settled where to go on; None, that it is not, and may be in a moment.
    async fn many(&mut self) -> Result<Option<Vec<ReadEvent>>, ScanError> {
        self.choose().await;
        let Some(source) = &mut self.source else {
            self.broke(false).await;
            return Ok(Some(Vec::new()));
        };
        let mut events = Vec::new();
        let served = source.receive(self.next, self.last, &mut events).await;
        events.retain(|event| (self.next..=self.last).contains(&event.seq));
        if let Some(event) = events.last() {
            self.next = event.seq + 1;
            self.breaks = 0;
            if self.next <= self.last && !matches!(served, Served::Broken) {
                source.look_ahead(self.next, self.last).await;
            }
        }
        match served {
            Served::Whole | Served::Nothing if events.is_empty() => {
                // A replica may know less than the leader.
                let (first, last) = (self.next, self.last);
                if self.held_from(first).await?.is_some() {
                    return Ok(None);
                }
                self.next = last.saturating_add(1);
            }
            Served::Whole | Served::Nothing => {}
            Served::Broken => self.broke(!events.is_empty()).await,
            Served::Refused(answer) if events.is_empty() => {
                return Err(ScanError::Refused {
                    seq: self.next,
                    answer,
                });
            }
            Served::Refused(_) => {}
        }
        Ok(Some(events))
    }

    async fn choose(&mut self) {
        let (reader, settings) = (&self.reader, &self.settings);
        match &self.source {
            None => self.source = self.ways.open(reader, settings, self.next, self.last).await,
            Some(Source::Direct(_)) => {
                if let Some(delivery) = self.ways.delivery(reader, settings, self.next, self.last).await {
                    self.source = Some(Source::Delivery(delivery));
                }
            }
            Some(Source::Delivery(_)) => {}
        }
    }

    async fn broke(&mut self, with_events: bool) {
        let careful = EVENTS << self.breaks.min(MOST_DOUBLINGS);
        self.careful_until = self.next.saturating_add(careful - 1);
        self.breaks += 1;
        if let Some(source) = self.source.take() {
            if matches!(source, Source::Delivery(_)) {
                self.ways.broke(with_events);
            }
            source.close().await;
        }
    }

    /// The first sequence from `first` to the end that holds an event.
    async fn held_from(&self, first: u64) -> Result<Option<u64>, ScanError> {
        let held = self.reader.first_from(first).await;
        let held = held.map_err(|source| ScanError::Api { seq: first, source })?;
        Ok(held.filter(|seq| *seq <= self.last))
    }

    /// A few. Where there are none, as at the head of a stream that lost it, it goes on with the next one that there is.
    async fn one_by_one(&mut self) -> Result<Option<Vec<ReadEvent>>, ScanError> {
        let (first, last) = (
            self.next,
            self.last.min(self.next.saturating_add(EVENTS / 10 - 1)),
        );
        let reader = &self.reader;
        let read = stream::iter(first..=last)
            .map(async |seq| {
                let event = reader.event(seq).await;
                event.map_err(|source| ScanError::Api { seq, source })
            })
            .buffered(AT_ONCE);
        let events: Vec<Option<ReadEvent>> = read.try_collect().await?;
        let events: Vec<ReadEvent> = events.into_iter().flatten().collect();
        self.next = match events.is_empty() && last < self.last {
            true => self
                .held_from(last + 1)
                .await?
                .unwrap_or(self.last.saturating_add(1)),
            false => last + 1,
        };
        Ok(Some(events))
    }
}
