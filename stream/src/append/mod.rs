//! Appending events, one receipt each.
//!
//! An [`Appender`] takes events from any number of tasks; a [`Worker`] owns everything there is to know about them
//! and talks to the broker. Between the two runs one channel, so no lock is held anywhere. What is decided, the
//! worker's engine decides without I/O.

mod engine;
mod metrics;
mod outcome;
mod pace;
mod probe;
mod recent;
mod rights;
mod settings;
#[cfg(test)]
mod simulation;
mod standing;
mod verdict;
mod wire;
mod worker;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::SubscribeError;
use schemas::event::{Event, Kind, Subjects};
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout_at;

use crate::connect::Connection;
use crate::declare::{Declared, StreamSpec};
use engine::Request;
pub use metrics::Metrics;
pub use outcome::{AppendError, Appended};
use probe::Look;
pub use probe::{Fill, ProbeError};
pub use settings::{AppendSettings, Mode};
use standing::NotStored;
pub use worker::Worker;

/// Events on their way to the worker; when it is full, callers wait.
const CHANNEL: usize = 1024;

/// Appends events to the stream. Clones share one worker.
#[derive(Clone, Debug)]
pub struct Appender {
    requests: mpsc::Sender<Request>,
    connection: Connection,
    stream: Arc<str>,
    spec: Arc<StreamSpec>,
    subjects: Arc<Subjects>,
    looks: Arc<watch::Sender<Option<Look>>>,
    not_stored: watch::Receiver<Option<NotStored>>,
    limit: Duration,
}

/// Why appending cannot begin.
#[derive(Debug, Error)]
#[error("subscribing to the answers of the broker")]
pub struct StartError(#[from] SubscribeError);

impl Appender {
    /// An appender, and the worker that has to run for it to do anything. The worker ends once all clones of the
    /// appender are gone and what they appended is settled.
    pub async fn start(
        connection: &Connection,
        declared: &Declared,
        settings: &AppendSettings,
        metrics: Metrics,
    ) -> Result<(Self, Worker), StartError> {
        let (sender, receiver) = mpsc::channel(CHANNEL);
        let (looks, looked) = watch::channel(Some(Look::from(&declared.info)));
        let (tell, not_stored) = watch::channel(None);
        let worker = Worker::new(
            connection.clone(),
            declared,
            settings,
            metrics,
            (receiver, looked, tell),
        )
        .await?;
        let appender = Self {
            requests: sender,
            connection: connection.clone(),
            stream: declared.name().into(),
            spec: Arc::new(declared.spec.clone()),
            subjects: Arc::new(declared.subjects.clone()),
            looks: Arc::new(looks),
            not_stored,
            limit: settings.publish_timeout,
        };
        Ok((appender, worker))
    }

    /// Appends an event and says what became of it, within the publish limit. `Ok` means that the stream has it.
    ///
    /// The event is appended also when the returned future is dropped; appending it again is always safe.
    pub async fn append(&self, event: Event) -> Result<Appended, AppendError> {
        let deadline = now() + self.limit;
        let (caller, answer) = oneshot::channel();
        let request = Request {
            headers: wire::headers(&event, &self.stream),
            fingerprint: Sha256::digest(&event.body).into(),
            size: wire::size(&event, &self.stream),
            event,
            deadline,
            caller,
        };
        match self.requests.try_send(request) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(AppendError::Stopped),
            Err(mpsc::error::TrySendError::Full(request)) => {
                match timeout_at(deadline.into(), self.requests.send(request)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return Err(AppendError::Stopped),
                    Err(_) => return Err(AppendError::Overloaded),
                }
            }
        }
        answer.await.unwrap_or(Err(AppendError::Stopped))
    }

    /// Whether appending events of these kinds would succeed now, and how much room there is: asks the broker for the
    /// stream, looks at what became of the last events, and tries the subjects without storing anything. Takes twice the
    /// publish limit at most.
    ///
    /// A look that finds another stream, or one that lost events, also makes the worker forget what it remembered of
    /// them; so this is to be called every few seconds.
    pub async fn probe(&self, kinds: &[Kind]) -> Result<Fill, ProbeError> {
        let found = probe::look(&self.connection, &self.stream, self.limit).await;
        let before = *self.looks.borrow();
        match &found {
            Ok(info) => self.saw(Some(Look::from(info))),
            Err(ProbeError::NoStream(_)) => self.saw(None),
            Err(_) => {}
        }
        let fill = probe::judge(&found?, &self.spec, self.connection.max_payload())?;
        // A stream that was full has told why events were not stored, and is so no longer.
        let explained = before.is_some_and(|look| look.full);
        let last = self.not_stored.borrow().clone();
        if let Some(last) = last.filter(|last| !explained && last.counts(now())) {
            return Err(ProbeError::NotStored(last.error));
        }
        let subjects: Vec<_> = kinds.iter().map(|kind| self.subjects.of(*kind)).collect();
        rights::ask(&self.connection, &self.stream, &subjects, self.limit).await?;
        Ok(fill)
    }

    fn saw(&self, look: Option<Look>) {
        self.looks.send_if_modified(|last| {
            let changed = *last != look;
            *last = look;
            changed
        });
    }
}

/// The clock of the runtime, so that tests can stop it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
