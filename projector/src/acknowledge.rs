//! Telling the broker what became of messages, while the next ones are being committed.
//!
//! Behind each commit the broker is asked whether the consumer still carries our claim, and hears of each message. Meanwhile the
//! database has nothing to wait for.

use std::convert::Infallible;
use std::sync::Arc;

use service::Stop;
use tokio::sync::{mpsc, oneshot};

use crate::batch::{Batch, Messages};
use crate::claim::Claim;
use crate::keep::Keeper;
use crate::metrics::Reason;
use crate::outcome::Outcome;
use crate::park::log_parked;
use crate::rows::ParkedRow;
use crate::session::Session;
use crate::statements::Changed;

/// What the loop that commits hands on.
#[derive(Debug)]
pub enum Settled {
    /// Some messages of a batch are committed.
    Part(Box<Committed>),
    /// All messages of a batch are committed or put off.
    Whole(Batch),
}

/// Messages whose rows are committed.
#[derive(Debug)]
pub struct Committed {
    /// The messages.
    pub messages: Messages,
    /// What was parked in place of the only message's own row.
    pub poison: Option<ParkedRow>,
    /// What the transaction changed.
    pub changed: Changed,
    /// The claim under which it was made.
    pub claim: Claim,
}

/// The loop that acknowledges.
#[derive(Debug)]
pub struct Acknowledger {
    /// The consumer and its claim.
    pub session: Arc<Session>,
    /// Keeps messages in hand until they are acknowledged.
    pub keeper: Arc<Keeper>,
}

impl Acknowledger {
    /// Acknowledges what is committed until `settled` ends, then says so.
    ///
    /// # Errors
    /// Never.
    pub async fn run(
        self,
        mut settled: mpsc::Receiver<Settled>,
        last: oneshot::Sender<()>,
        stop: Stop,
    ) -> Result<(), Infallible> {
        while let Some(settled) = settled.recv().await {
            match settled {
                Settled::Part(committed) => {
                    // Without it the consumer is about to be made anew, and then delivers again what is not acknowledged.
                    let stands = self.session.stands(&committed.claim, &stop).await;
                    self.done(&committed, stands).await;
                }
                Settled::Whole(batch) => self.keeper.release(&batch),
            }
        }
        // Nobody listens once the other task has died, and then the process ends anyway.
        let _ = last.send(());
        Ok(())
    }

    /// After the commit: counts, logs what is parked, and tells the broker, if what it hears stands for this database.
    async fn done(&self, committed: &Committed, stands: bool) {
        let Committed {
            messages,
            poison,
            changed,
            ..
        } = committed;
        let metrics = &self.session.metrics;
        metrics.applied.inc_by(changed.answers);
        metrics.winners.inc_by(changed.winners);
        let mut results = 0_u64;
        for item in messages.items() {
            let outcome = match (poison, item.parked(), item.result()) {
                (Some(row), _, _) | (None, Some(row), _) => {
                    if changed.parked.contains(&row.stream_seq) {
                        metrics.parked.get_or_create(&Reason { reason: row.reason }).inc();
                        log_parked(row);
                    }
                    Outcome::Parked
                }
                (None, None, Some(_)) => {
                    results += 1;
                    Outcome::Projected
                }
                (None, None, None) => {
                    metrics.nonfinal.inc();
                    Outcome::Counted
                }
            };
            if stands {
                item.acknowledge(outcome).await;
            }
        }
        metrics.unchanged.inc_by(results.saturating_sub(changed.answers));
    }
}
