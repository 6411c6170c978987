//! Reading what the stream holds, for whoever wants to know rather than to consume: one event by its sequence, or all of
//! them; and taking one off it for good.
//!
//! Nothing is left behind on the broker: who reads much has a consumer for as long as that takes, and who has no right to one,
//! or to direct reads, reads more slowly.

mod bulk;
mod delivered;
mod event;
mod scan;
mod source;

use async_nats::jetstream::consumer::Info;
use serde::Deserialize;
use serde_json::json;

use crate::connect::{Connection, Settings};
use crate::consume::{Api, ApiError, CLAIM_KEY, Progress, StreamState};
pub use event::ReadEvent;
pub use scan::{Scan, ScanError};

/// Reads one stream. Clones read the same one.
#[derive(Clone, Debug)]
pub struct Reader {
    api: Api,
}

#[derive(Deserialize)]
struct Removed {}

impl Reader {
    /// For the stream of this name. Asks nothing of the broker, and makes nothing there.
    pub fn new(connection: &Connection, stream: &str) -> Self {
        Self {
            api: Api {
                jetstream: connection.jetstream.clone(),
                stream: stream.to_owned(),
                durable: String::new(),
            },
        }
    }

    /// The stream's name.
    pub fn stream(&self) -> &str {
        &self.api.stream
    }

    /// What the stream holds; None when there is no stream.
    pub async fn state(&self) -> Result<Option<StreamState>, ApiError> {
        match self.api.stream_info().await {
            Ok(info) => Ok(Some(StreamState::of(&info))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The subjects that the stream takes; none for a mirror, and where there is no stream.
    pub async fn subjects(&self) -> Result<Vec<String>, ApiError> {
        match self.api.stream_info().await {
            Ok(info) => Ok(info.config.subjects),
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The event under a sequence, from the leader; None when there is none, or none any more.
    pub async fn event(&self, seq: u64) -> Result<Option<ReadEvent>, ApiError> {
        Ok(self.api.message(seq).await?.map(ReadEvent::of_stored))
    }

    /// Goes through the events with a sequence from `first` to `last`, in order, over a connection of its own, made with
    /// these settings. Asks nothing of the broker yet.
    pub fn scan(&self, settings: &Settings, first: u64, last: u64) -> Scan {
        Scan::new(self, settings, first, last)
    }

    /// How far a durable consumer is; None when there is none.
    pub async fn progress(&self, durable: &str) -> Result<Option<Progress>, ApiError> {
        let api = Api {
            durable: durable.to_owned(),
            ..self.api.clone()
        };
        Ok(api.info().await?.as_ref().map(Progress::of))
    }

    /// Up to which event everything is acknowledged to a durable consumer, when its acknowledgments stand for what `ours`
    /// recognises as the claim they should stand for.
    pub async fn floor_under(
        &self,
        durable: &str,
        ours: impl Fn(&str) -> bool,
    ) -> Result<Option<u64>, ApiError> {
        let api = Api {
            durable: durable.to_owned(),
            ..self.api.clone()
        };
        let info = api.info().await?;
        let stands = |info: &Info| {
            info.config
                .metadata
                .get(CLAIM_KEY)
                .is_some_and(|claim| ours(claim))
        };
        Ok(info.filter(stands).map(|info| info.ack_floor.stream_sequence))
    }

    /// Takes an event off the stream and overwrites its bytes where they lie; false when there is none, or none any more. It
    /// takes a right that no service has.
    pub async fn erase(&self, seq: u64) -> Result<bool, ApiError> {
        let request = format!("STREAM.MSG.DELETE.{}", self.api.stream);
        match self.api.ask::<Removed>(request, &json!({"seq": seq})).await {
            Ok(Removed {}) => Ok(true),
            Err(error) => match self.api.message(seq).await? {
                None => Ok(false),
                Some(_) => Err(error),
            },
        }
    }

    /// The first sequence from `first` on under which the leader holds an event. A replica that lags does not know.
    async fn first_from(&self, first: u64) -> Result<Option<u64>, ApiError> {
        let next = json!({"seq": first, "next_by_subj": ">"});
        let message = self.api.message_by(&next).await?;
        Ok(message.map(|message| message.seq))
    }
}
