//! Noting in the database how far it has come, and watching over consumer, stream and database while at it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use service::Stop;
use stream::consume::Progress;
use tokio::sync::oneshot;

use crate::claim::{ClaimError, Raised, raise_floor};
use crate::session::{Session, complain};

/// How long the last note may take when the process stops.
const LAST_NOTE: Duration = Duration::from_secs(2);

/// The loop's state.
#[derive(Debug)]
pub struct Floor {
    session: Arc<Session>,
    interval: Duration,
    known: u64,
    claim_text: String,
}

/// What one look found.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Fine,
    /// The claim does not hold any more.
    Broken,
}

impl Floor {
    /// Notes the floor every `interval`.
    pub fn new(session: Arc<Session>, interval: Duration) -> Self {
        Self {
            session,
            interval,
            known: 0,
            claim_text: String::new(),
        }
    }

    /// Runs until stopping is requested, then waits for the last commit, and notes the floor once more.
    ///
    /// # Errors
    /// Never.
    pub async fn run(mut self, last_commit: oneshot::Receiver<()>, stop: Stop) -> Result<(), Infallible> {
        loop {
            match self.look().await {
                Ok(Look::Fine) => {}
                Ok(Look::Broken) => {
                    self.session.recover(&stop).await;
                }
                Err(error) => complain(&self.session.conditions, &error),
            }
            if stop
                .unless_requested(tokio::time::sleep(self.interval))
                .await
                .is_none()
            {
                break;
            }
        }
        // Fails only when the task that commits has died, and then there is nothing to wait for.
        let _ = last_commit.await;
        let _ = tokio::time::timeout(LAST_NOTE, self.look()).await;
        Ok(())
    }

    async fn look(&mut self) -> Result<Look, ClaimError> {
        let session = Arc::clone(&self.session);
        let claim = session.claim();
        if claim.text != self.claim_text {
            self.claim_text.clone_from(&claim.text);
            self.known = claim.floor;
        }
        let Some(consumer) = session.steward.find().await? else {
            session.conditions.consumer.failing("the consumer was deleted");
            return Ok(Look::Broken);
        };
        session.conditions.broker.ok();
        self.measure(&consumer.progress);
        if consumer.claim.as_ref() != Some(&claim.text) || !consumer.skipping.is_empty() {
            return Ok(Look::Broken);
        }
        if claim.stream_mismatch.is_some() {
            // No floor of this stream can be noted; somebody may have put it right meanwhile.
            return session.renew().await.map(|_| Look::Fine);
        }
        let raised = raise_floor(
            &session.database,
            &session.steward,
            &claim,
            self.known,
            consumer.progress.ack_floor,
        )
        .await?;
        session.conditions.database.ok();
        Ok(match raised {
            Raised::To(floor) => {
                self.known = floor;
                session
                    .metrics
                    .floor
                    .set(i64::try_from(floor).unwrap_or(i64::MAX));
                Look::Fine
            }
            Raised::WentBack | Raised::OtherLife => Look::Broken,
        })
    }

    fn measure(&self, progress: &Progress) {
        let lag = i64::try_from(progress.pending + progress.unacknowledged as u64).unwrap_or(i64::MAX);
        self.session.metrics.lag.set(lag);
    }
}
