//! Taking messages from the broker, one batch ahead of the one that is being committed.

use std::sync::Arc;
use std::time::Duration;

use service::{Chain, Stop};
use stream::Consumer;
use stream::consume::FetchError;
use tokio::sync::mpsc;

use crate::batch::Batch;
use crate::decode::Decoder;
use crate::keep::Keeper;
use crate::session::{Session, pauses};

/// How long one request waits for a first message. Short, so that the loop shows signs of life.
const WAIT: Duration = Duration::from_secs(2);
/// How long a request under way when stopping is requested may take to deliver what it has begun to: an event delivered to
/// nobody comes again only after the ack wait.
const LAST_WAIT: Duration = Duration::from_millis(200);

/// What the loop needs.
#[derive(Debug)]
pub struct Puller {
    /// The consumer and its claim.
    pub session: Arc<Session>,
    /// Reads messages.
    pub decoder: Arc<Decoder>,
    /// Keeps them in hand.
    pub keeper: Arc<Keeper>,
    /// Pulls.
    pub consumer: Consumer,
    /// Most messages in a batch.
    pub max_messages: usize,
    /// Most bytes in a batch; one event of any size always fits.
    pub max_bytes: usize,
}

impl Puller {
    /// Fills `batches` until stopping is requested. Room comes first: while the database is away nothing is pulled.
    ///
    /// # Errors
    /// When the client has ended. Everything else is waited out.
    pub async fn run(mut self, batches: mpsc::Sender<Batch>, stop: Stop) -> Result<(), FetchError> {
        let mut pauses = pauses();
        while let Some(Ok(room)) = stop.unless_requested(batches.reserve()).await {
            match self.fetch(&stop).await {
                Ok(None) => pauses.reset(),
                Ok(Some(batch)) => {
                    pauses.reset();
                    self.keeper.hold(&batch);
                    room.send(batch);
                }
                Err(FetchError::Closed) => return Err(FetchError::Closed),
                Err(error) => {
                    drop(room);
                    self.complain(&error, &stop).await;
                    let pause = tokio::time::sleep(pauses.pause(rand::random()));
                    if stop.unless_requested(pause).await.is_none() {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    async fn fetch(&mut self, stop: &Stop) -> Result<Option<Batch>, FetchError> {
        let mut fetching = std::pin::pin!(self.consumer.fetch(self.max_messages, self.max_bytes, WAIT));
        let events = match stop.unless_requested(&mut fetching).await {
            Some(events) => events?,
            None => match tokio::time::timeout(LAST_WAIT, fetching).await {
                Ok(events) => events?,
                Err(_) => return Ok(None),
            },
        };
        self.session.conditions.broker.ok();
        if events.is_empty() {
            return Ok(None);
        }
        let again = events.iter().filter(|event| event.delivered > 1).count();
        self.session.metrics.redelivered.inc_by(again as u64);
        let decoder = Arc::clone(&self.decoder);
        let decoded = tokio::task::spawn_blocking(move || Batch::decode(&decoder, events)).await;
        match decoded {
            Ok(batch) => Ok(Some(batch)),
            // A panic must end the process, and not only lose a batch.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    async fn complain(&self, error: &FetchError, stop: &Stop) {
        let conditions = &self.session.conditions;
        match error {
            FetchError::Gone => {
                conditions.consumer.failing("the consumer was deleted");
                self.session.recover(stop).await;
            }
            FetchError::Silent | FetchError::Unavailable(_) | FetchError::Request(_) | FetchError::Closed => {
                conditions.broker.failing(&Chain(error).to_string());
            }
        }
    }
}
