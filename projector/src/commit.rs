//! Bringing batches into the database, and finding the message that cannot be stored among those that can.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use schemas::timestamp::cut_to_microseconds;
use service::{Backoff, Chain, Stop};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::warn;

use crate::acknowledge::{Committed, Settled};
use crate::batch::{Batch, Item, Messages};
use crate::claim::Claim;
use crate::keep::Keeper;
use crate::metrics::Cause;
use crate::outcome::Outcome;
use crate::park::poison;
use crate::rows::{Folded, ParkedRow};
use crate::session::{Session, pauses};
use crate::statements::{self, Changed};
use database::{DatabaseError, Trouble};

/// Deadlocks and the like are over as soon as one side gives way.
const MOST_CONTENTIONS: u32 = 5;
/// So often a batch may be too slow, with a database that answers, before it is cut in halves.
const MOST_TIMEOUTS: u32 = 3;
/// How often the loop shows that it is alive when there is nothing to do.
const BEAT: Duration = Duration::from_secs(1);

/// The loop that commits.
#[derive(Debug)]
pub struct Committer {
    /// The database and its claim.
    pub session: Arc<Session>,
    /// Keeps messages in hand.
    pub keeper: Arc<Keeper>,
    /// When a message that the database cannot cope with now is delivered again.
    pub comes_back: Duration,
    /// How long what is in hand may take when stopping is requested. A database that is mute, or locked, takes longer.
    pub finish: Duration,
}

/// Messages to be committed together.
#[derive(Debug)]
struct Part {
    messages: Messages,
    /// In place of the only message's own row: why it cannot be stored.
    poison: Option<ParkedRow>,
    timeouts: u32,
}

/// What became of a part.
#[derive(Debug)]
enum Placed {
    /// It is committed, under this claim.
    Committed(Changed, Claim),
    /// Some value in it cannot be stored.
    Refused(DatabaseError),
    /// It was too slow too often, though the database answers.
    TooSlow,
    /// Stopping was requested while the database was away.
    Stopped,
}

#[derive(Debug, Error)]
enum AttemptError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("the database is not the one that the consumer's acknowledgments stand for")]
    OtherLife,
    #[error("the rows are made under other rules now")]
    OtherRules,
}

impl Committer {
    /// Commits batch after batch until `batches` ends, and hands on what is to be acknowledged.
    ///
    /// # Errors
    /// Never.
    pub async fn run(
        self,
        mut batches: mpsc::Receiver<Batch>,
        settled: mpsc::Sender<Settled>,
        stop: Stop,
    ) -> Result<(), Infallible> {
        self.session.conditions.batches.ok();
        let mut too_late = std::pin::pin!(async {
            stop.requested().await;
            tokio::time::sleep(self.finish).await;
        });
        loop {
            self.session.conditions.progress.ok();
            match tokio::time::timeout(BEAT, batches.recv()).await {
                Ok(Some(batch)) => {
                    let begun = Instant::now();
                    let metrics = &self.session.metrics;
                    metrics.batch_messages.observe(batch.items().len() as f64);
                    tokio::select! {
                        () = self.settle(&batch, &settled, &stop) => {}
                        () = &mut too_late => break, // the broker delivers again what has no acknowledgment
                    }
                    metrics.batch_seconds.observe(begun.elapsed().as_secs_f64());
                    self.hand_on(&settled, Settled::Whole(batch)).await;
                }
                Ok(None) => break,
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Sees every message of a batch to its outcome. What is in hand when stopping is requested during an outage is left to
    /// the broker, which delivers it again.
    async fn settle(&self, batch: &Batch, settled: &mpsc::Sender<Settled>, stop: &Stop) {
        let mut parts = vec![Part {
            messages: batch.messages(),
            poison: None,
            timeouts: 0,
        }];
        while let Some(part) = parts.pop() {
            match self.place(&part, stop).await {
                Placed::Committed(changed, claim) => {
                    let committed = Committed {
                        messages: part.messages,
                        poison: part.poison,
                        changed,
                        claim,
                    };
                    self.hand_on(settled, Settled::Part(Box::new(committed))).await;
                }
                Placed::Stopped => return,
                Placed::Refused(error) => self.retry_smaller(part, Some(error), &mut parts).await,
                Placed::TooSlow => self.retry_smaller(part, None, &mut parts).await,
            }
        }
    }

    /// Waits while acknowledging is behind. Nobody takes it once the other task has died, and then the process ends anyway.
    async fn hand_on(&self, settled: &mpsc::Sender<Settled>, what: Settled) {
        let _ = self.alive_while(settled.send(what)).await;
    }

    /// Cuts a part in halves. One message alone is parked when its data was refused, else put off.
    async fn retry_smaller(&self, part: Part, refused: Option<DatabaseError>, parts: &mut Vec<Part>) {
        let cause = if refused.is_some() { "data" } else { "timeout" };
        self.session.metrics.retries.get_or_create(&Cause { cause }).inc();
        match (part.messages.items(), refused) {
            ([item], Some(error)) if part.poison.is_none() => parts.push(Part {
                poison: Some(poison(item, &error)),
                messages: part.messages,
                timeouts: 0,
            }),
            ([item], _) => {
                warn!(
                    stream.seq = item.event.seq,
                    "the database cannot take this message now; it comes back later"
                );
                item.acknowledge(Outcome::Retry {
                    after: self.comes_back,
                })
                .await;
            }
            _ => {
                let (first, second) = part.messages.halves();
                // Halves of what was too slow are given up sooner: each try costs a whole statement timeout.
                let timeouts = part.timeouts.min(MOST_TIMEOUTS - 1);
                for messages in [second, first] {
                    parts.push(Part {
                        messages,
                        poison: None,
                        timeouts,
                    });
                }
            }
        }
    }

    /// Tries until something is known: committed, refused, or too slow. While the database is away that may take for ever.
    async fn place(&self, part: &Part, stop: &Stop) -> Placed {
        let mut contentions = 0;
        let mut timeouts = part.timeouts;
        let mut pauses = pauses();
        loop {
            let error = match self.attempt(part).await {
                Ok((changed, claim)) => {
                    self.keeper.set_working(true);
                    self.session.conditions.batches.ok();
                    return Placed::Committed(changed, claim);
                }
                Err(error) => error,
            };
            self.session.conditions.progress.beat();
            let trouble = match &error {
                AttemptError::Database(error) => error.trouble(),
                AttemptError::OtherLife | AttemptError::OtherRules => Trouble::Outage,
            };
            match (trouble, error) {
                (Trouble::Data, AttemptError::Database(error)) => return Placed::Refused(error),
                (Trouble::Contention, _) if contentions < MOST_CONTENTIONS => {
                    contentions += 1;
                    self.retry("contention");
                    tokio::time::sleep(
                        Duration::from_millis(20).mul_f64(rand::random::<f64>() * f64::from(contentions)),
                    )
                    .await;
                }
                (Trouble::Timeout, error) if self.answers().await => {
                    timeouts += 1;
                    self.session.conditions.batches.failing(&format!(
                        "a batch of {} messages is not committed in time: {}",
                        part.messages.items().len(),
                        Chain(&error)
                    ));
                    if timeouts >= MOST_TIMEOUTS {
                        return Placed::TooSlow;
                    }
                    self.retry("timeout");
                }
                (_, error) => {
                    if self.wait_out(&error, &mut pauses, stop).await.is_none() {
                        return Placed::Stopped;
                    }
                }
            }
        }
    }

    async fn attempt(&self, part: &Part) -> Result<(Changed, Claim), AttemptError> {
        let claim = self.session.claim();
        let folded = match &part.poison {
            Some(row) => Folded::of(std::iter::empty(), std::iter::once(row)),
            None => Folded::of(
                part.messages.items().iter().filter_map(Item::result),
                part.messages.items().iter().filter_map(Item::parked),
            ),
        };
        if folded.is_empty() {
            return Ok((Changed::default(), claim));
        }
        let committed = self.session.database.transaction(async |client, life| {
            if *life != claim.life {
                return Err(AttemptError::OtherLife);
            }
            let created = cut_to_microseconds(claim.stream_created);
            let changed = statements::apply(client, created, &folded).await?;
            if !self.session.rules_stand(client).await? {
                return Err(AttemptError::OtherRules);
            }
            Ok(changed)
        });
        let changed = committed.await?;
        Ok((changed, claim))
    }

    /// Whether the database does anything at all.
    async fn answers(&self) -> bool {
        let nothing = self
            .session
            .database
            .transaction(async |_, _| Ok::<_, DatabaseError>(()));
        nothing.await.is_ok()
    }

    /// Waits until the database is there again, and the claim on it is made.
    async fn wait_out(&self, error: &AttemptError, pauses: &mut Backoff, stop: &Stop) -> Option<()> {
        self.retry("outage");
        // To be in another life is found out in order, and put right at once.
        if !matches!(error, AttemptError::OtherLife) {
            self.keeper.set_working(false);
            self.session.conditions.batches.failing(&Chain(error).to_string());
            stop.unless_requested(tokio::time::sleep(pauses.pause(rand::random())))
                .await?;
        }
        self.alive_while(self.session.recover(stop)).await?;
        Some(())
    }

    /// Shows signs of life while something is waited for that is bounded, or known to fail.
    async fn alive_while<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout(BEAT, &mut work).await {
                Ok(done) => return done,
                Err(_) => self.session.conditions.progress.beat(),
            }
        }
    }

    fn retry(&self, cause: &'static str) {
        self.session.metrics.retries.get_or_create(&Cause { cause }).inc();
    }
}
