//! Watching over a durable consumer: for a program that decides by itself when it exists and where it begins.

use std::time::Duration;

use async_nats::jetstream::consumer::Config;
use schemas::event::header;

use super::api::Api;
use super::spec::Differences;
use super::{ApiError, AttachError, Consumer, ConsumerSpec, Progress, Start, StreamState};
use crate::connect::Connection;
use crate::declare::{Declared, HEADER_ALLOWANCE};

/// What acknowledgments to a consumer are worth is known to the program that gives them. It can leave a word about that
/// with the consumer, under this key.
pub(crate) const CLAIM_KEY: &str = "answerlog.claim";

/// Looks after one durable consumer, and never makes or changes it unasked. Clones look after the same one.
#[derive(Clone, Debug)]
pub struct Steward {
    api: Api,
    spec: ConsumerSpec,
    filter: String,
    connection: Connection,
    least_bytes: usize,
}

/// A consumer that is there.
#[derive(Clone, Debug)]
pub struct Found {
    /// How far it is.
    pub progress: Progress,
    /// The claim that it was created with.
    pub claim: Option<String>,
    /// Fields because of which events may have been passed over, or counted as done that were not.
    pub skipping: Vec<&'static str>,
    /// Fields that are not as the settings say, and can be changed as it runs.
    pub changeable: Vec<&'static str>,
    /// How long somebody has paused it for yet.
    pub paused: Option<Duration>,
    config: Config,
}

impl Steward {
    /// For the durable consumer of `spec`, on all subjects of the stream. Asks nothing of the broker.
    pub fn new(connection: &Connection, declared: &Declared, spec: &ConsumerSpec) -> Self {
        Self {
            api: Api {
                jetstream: connection.jetstream.clone(),
                stream: declared.name().to_owned(),
                durable: spec.durable.clone(),
            },
            spec: spec.clone(),
            filter: declared.subjects.all().to_owned(),
            connection: connection.clone(),
            least_bytes: declared.max_message + HEADER_ALLOWANCE,
        }
    }

    /// The stream's name.
    pub fn stream(&self) -> &str {
        &self.api.stream
    }

    /// The consumer's name.
    pub fn durable(&self) -> &str {
        &self.api.durable
    }

    /// The consumer as it is; None when there is none.
    pub async fn find(&self) -> Result<Option<Found>, ApiError> {
        let Some(info) = self.api.info().await? else {
            return Ok(None);
        };
        let mut config = info.config.clone();
        let claim = config.metadata.get(CLAIM_KEY).cloned();
        if claim.is_some() {
            // Its place was chosen with the claim, so there is nothing wrong with it.
            config.deliver_policy = async_nats::jetstream::consumer::DeliverPolicy::All;
        }
        let Differences {
            skipping,
            mut changeable,
        } = self.spec.differences(&config, &self.filter);
        let paused = info.paused.then(|| info.pause_remaining.unwrap_or_default());
        changeable.extend(paused.map(|_| "pause_until"));
        Ok(Some(Found {
            progress: Progress::of(&info),
            claim,
            skipping,
            changeable,
            paused,
            config: info.config,
        }))
    }

    /// Creates the consumer with a claim; false when there is one already.
    pub async fn create(&self, start: Start, claim: &str) -> Result<bool, ApiError> {
        let mut config = self.spec.config(&self.filter, start);
        config.metadata.insert(CLAIM_KEY.to_owned(), claim.to_owned());
        Ok(self.api.create(&config).await?.is_some())
    }

    /// What of a consumer keeps a fetch of `batch` events from getting them, in words for an operator.
    pub fn hindrances(&self, found: &Found, batch: usize) -> Vec<String> {
        let paused = found
            .paused
            .map(|left| format!("it is paused for another {} s", left.as_secs()));
        paused
            .into_iter()
            .chain(self.spec.hindrances(&found.config, batch))
            .collect()
    }

    /// Changes what can be changed as it runs to what the settings say, and ends a pause.
    pub async fn correct(&self, found: &Found) -> Result<(), ApiError> {
        let config = self.spec.corrected(&found.config);
        self.api.update(&config).await?;
        match found.paused {
            Some(_) => self.api.resume().await,
            None => Ok(()),
        }
    }

    /// Deletes the consumer; it may be gone already.
    pub async fn delete(&self) -> Result<(), ApiError> {
        self.api.delete().await
    }

    /// What the stream holds; None when there is no stream.
    pub async fn stream_state(&self) -> Result<Option<StreamState>, ApiError> {
        match self.api.stream_info().await {
            Ok(info) => Ok(Some(StreamState::of(&info))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The message id of the event under a sequence, without NULs; None when there is no event, or it has no id that can be
    /// read.
    pub async fn message_id(&self, seq: u64) -> Result<Option<String>, ApiError> {
        let stored = self.api.message(seq).await?;
        // Whoever keeps it may have no text for a NUL.
        Ok(stored.and_then(|stored| Some(stored.header(header::MSG_ID)?.replace('\0', "\u{FFFD}"))))
    }

    /// Starts pulling from the consumer, whether it is there already or not: a fetch says when it is not.
    pub async fn attach(&self) -> Result<Consumer, AttachError> {
        Ok(Consumer::subscribe(self.api.clone(), &self.connection, self.least_bytes).await?)
    }
}
