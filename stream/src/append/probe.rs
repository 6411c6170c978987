//! Would an append succeed? For readiness.

use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::stream::Info;
use thiserror::Error;

use crate::connect::Connection;

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
    /// In a cluster: nobody leads the stream.
    #[error("the stream has no leader")]
    NoLeader,
    /// The stream has no room for another event.
    #[error("the stream is full")]
    Full,
}

pub(super) async fn probe(connection: &Connection, stream: &str, limit: Duration) -> Result<(), ProbeError> {
    if !connection.is_connected() {
        return Err(ProbeError::Disconnected);
    }
    let request = tokio::time::timeout(limit, connection.jetstream.get_stream(stream));
    let info = match request.await {
        Err(_) => return Err(ProbeError::TimedOut),
        Ok(Err(error)) => return Err(refused(stream, error)),
        Ok(Ok(stream)) => stream.cached_info().clone(),
    };
    judge(&info)
}

fn refused(stream: &str, error: GetStreamError) -> ProbeError {
    match error.kind() {
        GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
            ProbeError::NoStream(stream.to_owned())
        }
        _ => ProbeError::Get(error),
    }
}

fn judge(info: &Info) -> Result<(), ProbeError> {
    let Info {
        config,
        state,
        cluster,
        ..
    } = info;
    if config.sealed {
        return Err(ProbeError::Sealed);
    }
    if cluster
        .as_ref()
        .is_some_and(|cluster| config.num_replicas > 1 && cluster.leader.is_none())
    {
        return Err(ProbeError::NoLeader);
    }
    // Full is a stream that has no room for the next event, not only one whose last byte is taken.
    let largest = u64::try_from(config.max_message_size).unwrap_or_default();
    let is_full = |most: i64, next: u64, has: u64| {
        u64::try_from(most).is_ok_and(|most| most > 0 && has + next.min(most / 16) >= most)
    };
    if is_full(config.max_bytes, largest, state.bytes) || is_full(config.max_messages, 0, state.messages) {
        return Err(ProbeError::Full);
    }
    Ok(())
}
