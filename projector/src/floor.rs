//! Noting in the database how far it has come, and watching over consumer, stream and database while at it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use schemas::timestamp::cut_to_microseconds;
use service::Stop;
use stream::consume::{Found, Progress, Steward};
use tokio::sync::oneshot;

use crate::claim::{Claim, ClaimError, is_behind};
use crate::remembered::{raise, recall};
use crate::session::{Session, complain};
use database::Database;

/// How long the last note may take when the process stops.
const LAST_NOTE: Duration = Duration::from_secs(2);

/// The loop's state.
#[derive(Debug)]
pub struct Floor {
    session: Arc<Session>,
    interval: Duration,
    /// Most messages in a batch.
    batch: usize,
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
    /// Notes the floor every `interval`. `batch` is how many messages are fetched at a time.
    pub fn new(session: Arc<Session>, interval: Duration, batch: usize) -> Self {
        Self {
            session,
            interval,
            batch,
            known: 0,
            claim_text: String::new(),
        }
    }

    /// Runs until stopping is requested, then waits for the last acknowledgment, and notes the floor once more.
    ///
    /// # Errors
    /// Never.
    pub async fn run(mut self, last: oneshot::Receiver<()>, stop: Stop) -> Result<(), Infallible> {
        loop {
            match stop.unless_requested(self.look()).await {
                None => break,
                Some(Ok(Look::Fine)) => {}
                Some(Ok(Look::Broken)) => {
                    if let Some(claim) = self.session.recover(&stop).await {
                        // The consumer begins after this one: an older state put back is dealt with.
                        self.known = claim.floor;
                    }
                }
                Some(Err(error)) => complain(&self.session.conditions, &error),
            }
            if stop
                .unless_requested(tokio::time::sleep(self.interval))
                .await
                .is_none()
            {
                break;
            }
        }
        // Fails only when the task that acknowledges has died, and then there is nothing to wait for.
        let _ = last.await;
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
        self.unhinder(&consumer).await?;
        if claim.stream_mismatch.is_some() {
            // No floor of this stream can be noted; somebody may have put it right meanwhile.
            return session.renew().await.map(|_| Look::Fine);
        }
        if is_behind(&consumer.progress, self.known) {
            return Ok(Look::Broken);
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

    /// Puts right what somebody did to the consumer so that it delivers less than there is. Said until the next look finds it
    /// gone.
    async fn unhinder(&self, consumer: &Found) -> Result<(), ClaimError> {
        let Session {
            steward, conditions, ..
        } = &*self.session;
        let hindrances = steward.hindrances(consumer, self.batch);
        if hindrances.is_empty() {
            conditions.consumer.ok();
            return Ok(());
        }
        let what = hindrances.join(", ");
        conditions.consumer.failing(&format!(
            "the consumer does not deliver as it should: {what}; correcting it"
        ));
        Ok(steward.correct(consumer).await?)
    }

    fn measure(&self, progress: &Progress) {
        let lag = i64::try_from(progress.pending + progress.unacknowledged as u64).unwrap_or(i64::MAX);
        self.session.metrics.lag.set(lag);
    }
}

/// What raising the floor found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Raised {
    /// The floor is this now.
    To(u64),
    /// The row says less than it did before, or is gone: somebody put an older state of it back. The consumer is
    /// deleted, so that a new claim starts it after what the row says now.
    WentBack,
    /// The database is in another life, so the acknowledgments are not of it.
    OtherLife,
}

/// Notes in the database that it holds everything up to `floor`, the consumer's acknowledgment floor under `claim`, read after
/// the claim was made. `before` is the greatest floor that this process knows to have been in the row.
async fn raise_floor(
    database: &Database,
    steward: &Steward,
    claim: &Claim,
    before: u64,
    floor: u64,
) -> Result<Raised, ClaimError> {
    let msg_id = if floor > before {
        steward.message_id(floor).await?
    } else {
        None
    };
    database
        .transaction(async |client, life| {
            if *life != claim.life {
                return Ok(Raised::OtherLife);
            }
            let row = recall(client, steward.stream()).await?;
            let created = cut_to_microseconds(claim.stream_created);
            let Some(row) = row.filter(|row| row.stream_created == created && row.floor >= before) else {
                steward.delete().await?;
                return Ok(Raised::WentBack);
            };
            if row.floor >= floor {
                return Ok(Raised::To(row.floor));
            }
            raise(client, steward.stream(), floor, msg_id.as_deref()).await?;
            Ok(Raised::To(floor))
        })
        .await
}
