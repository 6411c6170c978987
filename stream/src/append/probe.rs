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

/// How full the stream is: what it holds against what it may hold. It has a limit in bytes and may have one in events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// Bytes that its events take, by the broker's count: uncompressed, headers and framing included.
    pub bytes: u64,
    /// Most bytes that they may take; None where there is no such limit.
    pub most_bytes: Option<u64>,
    /// How many events it holds.
    pub events: u64,
    /// How many it may hold; None where there is no such limit.
    pub most_events: Option<u64>,
}

impl Fill {
    /// The part of the nearest limit that is taken: 0 when empty or without any limit, 1 when full.
    pub fn ratio(&self) -> f64 {
        let part = |has: u64, most: Option<u64>| most.map_or(0.0, |most| has as f64 / most as f64);
        part(self.bytes, self.most_bytes).max(part(self.events, self.most_events))
    }
}

impl From<&Info> for Fill {
    fn from(info: &Info) -> Self {
        let limit = |most: i64| u64::try_from(most).ok().filter(|most| *most > 0);
        Self {
            bytes: info.state.bytes,
            most_bytes: limit(info.config.max_bytes),
            events: info.state.messages,
            most_events: limit(info.config.max_messages),
        }
    }
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

pub(super) fn judge(info: &Info, spec: &StreamSpec, max_payload: usize) -> Result<Fill, ProbeError> {
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
    Ok(Fill::from(info))
}

/// Full is a stream that has no room for the next event, not only one whose last byte is taken.
fn is_full(info: &Info) -> bool {
    let largest = u64::try_from(info.config.max_message_size).unwrap_or_default();
    let too_small = (1..LEAST_BYTES).contains(&info.config.max_bytes);
    let reaches =
        |most: Option<u64>, next: u64, has: u64| most.is_some_and(|most| has + next.min(most / 16) >= most);
    let fill = Fill::from(info);
    too_small || reaches(fill.most_bytes, largest, fill.bytes) || reaches(fill.most_events, 0, fill.events)
}
