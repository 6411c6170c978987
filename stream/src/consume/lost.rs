//! What was delivered and reached nobody.
//!
//! A connection that breaks takes with it what the broker has sent into it. That comes again by itself, after the ack
//! wait. But a message whose headers the client cannot read breaks the connection each time it comes, and everything
//! behind it is lost with it once more. So what was delivered over a lost connection and is not acknowledged is read from
//! the stream, in a way that no message can break, and handed out like any delivery. The one that broke the connection
//! is among it.
//!
//! Others who pull from the same consumer may have some of it in hand, and it is handed out a second time then.

use std::ops::Range;

use async_nats::jetstream::context::RequestErrorKind;
use futures_util::{StreamExt, stream};
use service::Chain;
use tracing::info;

use super::{ApiError, Consumer, FetchError, StoredEvent};

/// Most sequences looked through after one loss. The first of them is not acknowledged, so each time there is something to
/// gain; what lies beyond is found after the next.
const MOST: u64 = 20_000;

/// Messages read at once. As many of the largest size are in memory together.
const AT_ONCE: usize = 8;

/// What is to be read from the stream.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Connections made by the time of the last look; 0 before the first.
    connects: u64,
    left: Range<u64>,
}

impl Consumer {
    /// Takes what was lost with a connection, if one was lost since the last call.
    ///
    /// Nothing is lost when the returned future is dropped.
    pub(super) async fn recover(&mut self, max_events: usize, max_bytes: usize) -> Result<(), FetchError> {
        let connection = self.connection.clone();
        let connects = connection.connects();
        if connects == self.lost.connects && self.lost.left.is_empty() {
            return Ok(());
        }
        // What is asked for over a connection that breaks meanwhile is not answered.
        tokio::select! {
            recovered = self.recover_over(connects, max_events, max_bytes) => recovered,
            () = connection.made_after(connects) => Ok(()),
        }
    }

    async fn recover_over(
        &mut self,
        connects: u64,
        max_events: usize,
        max_bytes: usize,
    ) -> Result<(), FetchError> {
        if connects != self.lost.connects {
            self.lost.left = self.find_lost().await?;
            self.lost.connects = connects;
        }
        if self.lost.left.is_empty() {
            return Ok(());
        }
        self.read_lost(max_events, max_bytes).await
    }

    async fn find_lost(&self) -> Result<Range<u64>, FetchError> {
        let info = match self.api.info().await {
            Ok(Some(info)) => info,
            Ok(None) => return Err(FetchError::Gone),
            Err(error) => return Err(error.into()),
        };
        // Of a process that begins nothing was lost. What others have in hand is theirs, unless it came to them before:
        // the client itself may have ended over it.
        let begins = self.lost.connects == 0;
        if info.num_ack_pending == 0 || (begins && info.num_redelivered == 0) {
            return Ok(0..0);
        }
        let first = info.ack_floor.stream_sequence + 1;
        let end = (info.delivered.stream_sequence + 1).min(first.saturating_add(MOST));
        info!(
            first,
            last = end - 1,
            unacknowledged = info.num_ack_pending,
            "reading from the stream what was delivered over a lost connection and is not acknowledged"
        );
        Ok(first..end)
    }

    /// Reads the next of what was lost, as much as one fetch may give.
    async fn read_lost(&mut self, max_events: usize, max_bytes: usize) -> Result<(), FetchError> {
        let api = &self.api;
        let left = self.lost.left.clone();
        let mut read =
            stream::iter(left.clone().map(async |seq| (seq, api.message(seq).await))).buffered(AT_ONCE);
        let (mut events, mut bytes, mut next) = (Vec::new(), 0, left.start);
        while events.len() < max_events.max(1) && bytes < max_bytes.max(1) {
            match read.next().await {
                Some((seq, Ok(stored))) => {
                    next = seq + 1;
                    if let Some(stored) = stored {
                        bytes += stored.body.len();
                        events.push(StoredEvent::recovered(stored, api, &self.connection.client));
                    }
                }
                Some((_, Err(error))) if events.is_empty() => return Err(error.into()),
                Some((_, Err(_))) | None => break,
            }
        }
        drop(read);
        self.lost.left.start = next;
        self.arrived.extend(events);
        Ok(())
    }
}

impl From<ApiError> for FetchError {
    fn from(error: ApiError) -> Self {
        match &error {
            ApiError::Request { source, .. } if source.kind() == RequestErrorKind::TimedOut => Self::Silent,
            ApiError::Request { .. } | ApiError::Refused { .. } | ApiError::Answer { .. } => {
                Self::Unavailable(Chain(&error).to_string())
            }
        }
    }
}
