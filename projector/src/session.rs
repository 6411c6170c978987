//! The claim in force, shared by the loops: whoever finds it broken makes it anew.

use std::sync::Arc;
use std::time::Duration;

use schemas::job_key::Rules;
use service::{Backoff, Chain, Stop};
use stream::consume::Steward;
use tokio::sync::{Mutex, watch};
use tokio_postgres::Client;
use tracing::info;

use crate::claim::{Claim, ClaimError, Claimed, Settings, claim};
use crate::condition::Conditions;
use crate::fit::Unfit;
use crate::metrics::Metrics;
use crate::remembered::rules_stand;
use database::{Database, DatabaseError};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Pauses between attempts at anything outside this process.
pub fn pauses() -> Backoff {
    Backoff::new(FIRST_PAUSE, LONGEST_PAUSE)
}

/// What the loops share.
#[derive(Debug)]
pub struct Session {
    /// The database.
    pub database: Database,
    /// The consumer.
    pub steward: Steward,
    /// What an operator watches.
    pub conditions: Arc<Conditions>,
    /// What is counted.
    pub metrics: Metrics,
    rules: Rules,
    claim: watch::Sender<Claim>,
    claiming: Mutex<()>,
}

/// What a session is made of.
#[derive(Debug)]
pub struct Parts {
    /// The database.
    pub database: Database,
    /// The consumer.
    pub steward: Steward,
    /// What an operator watches.
    pub conditions: Arc<Conditions>,
    /// What is counted.
    pub metrics: Metrics,
    /// Rules of the job key.
    pub rules: Rules,
}

impl Session {
    /// Makes the first claim, waiting as long as it takes for broker and database to be there.
    ///
    /// # Errors
    /// When the database is there and cannot be used.
    pub async fn open(parts: Parts) -> Result<Self, Unfit> {
        let Parts {
            database,
            steward,
            conditions,
            metrics,
            rules,
        } = parts;
        let mut pauses = pauses();
        let first = loop {
            match claim(&database, &steward, rules, Settings::Ours).await {
                Ok((first, claimed)) => {
                    note(&conditions, &metrics, &first, claimed);
                    break first;
                }
                Err(ClaimError::Unfit(unfit)) => return Err(unfit),
                Err(error) => complain(&conditions, &error),
            }
            tokio::time::sleep(pauses.pause(rand::random())).await;
        };
        info!(
            floor = first.floor,
            stream = steward.stream(),
            consumer = steward.durable(),
            "projecting"
        );
        Ok(Self {
            database,
            steward,
            conditions,
            metrics,
            rules,
            claim: watch::Sender::new(first),
            claiming: Mutex::new(()),
        })
    }

    /// The claim in force. It may be broken already, which shows when it is used.
    pub fn claim(&self) -> Claim {
        self.claim.borrow().clone()
    }

    /// Whether what was written in this transaction was made under rules that are in force.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rules_stand(&self, client: &Client) -> Result<bool, DatabaseError> {
        rules_stand(client, self.steward.stream(), self.rules).await
    }

    /// Looks once whether the claim still holds, and makes it anew when it does not.
    ///
    /// # Errors
    /// See [`ClaimError`].
    pub async fn renew(&self) -> Result<Claim, ClaimError> {
        let _one_at_a_time = self.claiming.lock().await;
        let renewed = claim(&self.database, &self.steward, self.rules, Settings::Any).await;
        match renewed {
            Ok((new, claimed)) => {
                note(&self.conditions, &self.metrics, &new, claimed);
                self.claim.send_replace(new.clone());
                Ok(new)
            }
            Err(error) => {
                complain(&self.conditions, &error);
                Err(error)
            }
        }
    }

    /// Whether the consumer carries this claim. Asked between commit and acknowledgment: where projectors of two databases meet
    /// at one consumer (a primary that does not know yet that it is none, a change of the database one process after the
    /// other), an acknowledgment of either would stand for the other's database, which does not hold the row.
    ///
    /// Asked for as long as the broker does not answer; nothing stands when stopping is requested meanwhile.
    pub async fn stands(&self, claim: &Claim, stop: &Stop) -> bool {
        let mut pauses = pauses();
        loop {
            match self.steward.find().await {
                Ok(found) => {
                    let carried = found.and_then(|consumer| consumer.claim);
                    return carried.as_ref() == Some(&claim.text);
                }
                Err(error) => complain(&self.conditions, &error.into()),
            }
            let pause = tokio::time::sleep(pauses.pause(rand::random()));
            if stop.unless_requested(pause).await.is_none() {
                return false;
            }
        }
    }

    /// Makes the claim anew, however long that takes; `None` when stopping is requested before.
    pub async fn recover(&self, stop: &Stop) -> Option<Claim> {
        let mut pauses = pauses();
        loop {
            if let Ok(claim) = stop.unless_requested(self.renew()).await? {
                return Some(claim);
            }
            stop.unless_requested(tokio::time::sleep(pauses.pause(rand::random())))
                .await?;
        }
    }
}

fn note(conditions: &Conditions, metrics: &Metrics, claim: &Claim, claimed: Claimed) {
    conditions.database.ok();
    conditions.broker.ok();
    conditions.consumer.ok();
    match &claim.stream_mismatch {
        None => conditions.stream.ok(),
        Some(reason) => conditions.stream.failing(&format!(
            "{reason}; projecting it from its first message. To accept it, delete its row from `projection`"
        )),
    }
    if claimed == Claimed::Started {
        metrics.rewinds.inc();
    }
}

/// Says what fails.
pub fn complain(conditions: &Conditions, error: &ClaimError) {
    let reason = Chain(error).to_string();
    match error {
        ClaimError::Unfit(_) | ClaimError::Database(_) => conditions.database.failing(&reason),
        ClaimError::Broker(_) | ClaimError::NoStream(_) | ClaimError::Contested(_) => {
            conditions.broker.failing(&reason)
        }
    }
}
