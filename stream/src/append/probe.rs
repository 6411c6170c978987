//! Would an append succeed? For readiness.

use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::stream::Info;
use thiserror::Error;

use super::outcome::AppendError;
use crate::connect::Connection;
use crate::declare::{self, Difference, StreamSpec};

/// Why an append would not succeed.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// There is no connection.
    #[error("there is no connection to the broker")]
    Disconnected,
    /// The broker did not answer in time.
    #[error("the broker does not answer")]
    TimedOut,
    /// The stream is not there.
    #[error("there is no stream {0}")]
    NoStream(String),
    /// The broker cannot say anything about the stream.
    #[error("asking for the stream")]
    Get(#[source] GetStreamError),
    /// The stream takes no events any more.
    #[error("the stream is sealed")]
    Sealed,
    /// The stream was changed, and is none that appending would begin with.
    #[error("the stream cannot be used: {}", declare::joined(.0))]
    Unfit(Vec<Difference>),
    /// In a cluster: nobody leads the stream.
    #[error("the stream has no leader")]
    NoLeader,
    /// The stream has no room for another event.
    #[error("the stream is full")]
    Full,
    /// The stream looks as it should, and the last events were not stored all the same.
    #[error("the last events were not stored")]
    NotStored(#[source] AppendError),
    /// A message on this subject does not get to the stream.
    #[error("the stream takes nothing on {subject}: {reason}")]
    NotTaken {
        /// The subject.
        subject: String,
        /// What the broker says.
        reason: String,
    },
}

/// What every event is larger than by its headers alone, in bytes.
const LEAST_BYTES: i64 = 256;

/// What is remembered of the stream is true for as long as these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// When the stream was made, in nanoseconds since 1970.
    pub(super) created: i128,
    /// The first sequence that it still holds.
    pub(super) first_seq: u64,
    /// Whether it has no room for another event.
    pub(super) full: bool,
}

/// Asks the broker for the stream as it is now.
pub(super) async fn look(connection: &Connection, stream: &str, limit: Duration) -> Result<Info, ProbeError> {
    if !connection.is_connected() {
        return Err(ProbeError::Disconnected);
    }
    let request = tokio::time::timeout(limit, connection.jetstream.get_stream(stream));
    match request.await {
        Err(_) => Err(ProbeError::TimedOut),
        Ok(Err(error)) => Err(refused(stream, error)),
        Ok(Ok(stream)) => Ok(stream.cached_info().clone()),
    }
}

impl From<&Info> for Look {
    fn from(info: &Info) -> Self {
        Self {
            created: info.created.unix_timestamp_nanos(),
            first_seq: info.state.first_sequence,
            full: is_full(info),
        }
    }
}

fn refused(stream: &str, error: GetStreamError) -> ProbeError {
    match error.kind() {
        GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
            ProbeError::NoStream(stream.to_owned())
        }
        _ => ProbeError::Get(error),
    }
}

pub(super) fn judge(info: &Info, spec: &StreamSpec, max_payload: usize) -> Result<(), ProbeError> {
    let Info { config, cluster, .. } = info;
    if config.sealed {
        return Err(ProbeError::Sealed);
    }
    let unfit = declare::unfit(config, spec, max_payload);
    if !unfit.is_empty() {
        return Err(ProbeError::Unfit(unfit));
    }
    if cluster
        .as_ref()
        .is_some_and(|cluster| config.num_replicas > 1 && cluster.leader.is_none())
    {
        return Err(ProbeError::NoLeader);
    }
    if is_full(info) {
        return Err(ProbeError::Full);
    }
    Ok(())
}

/// Full is a stream that has no room for the next event, not only one whose last byte is taken.
fn is_full(info: &Info) -> bool {
    let Info { config, state, .. } = info;
    let largest = u64::try_from(config.max_message_size).unwrap_or_default();
    let too_small = (1..LEAST_BYTES).contains(&config.max_bytes);
    let reaches = |most: i64, next: u64, has: u64| {
        u64::try_from(most).is_ok_and(|most| most > 0 && has + next.min(most / 16) >= most)
    };
    too_small
        || reaches(config.max_bytes, largest, state.bytes)
        || reaches(config.max_messages, 0, state.messages)
}
