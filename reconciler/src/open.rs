//! From settings to a checker: finds the database and the stream, waiting for them as long as it takes.

use std::time::Duration;

use database::{Database, FitError, Unfit};
use prometheus_client::registry::Registry;
use service::health::Health;
use service::{Backoff, Chain, Condition, Stop};
use stream::append::{self, Worker};
use thiserror::Error;

use crate::check::{Checker, Conditions, Sweeping};
use crate::config::WorkConfig;
use crate::log::{Log, LogError, LogSettings};
use crate::metrics::Metrics;
use crate::provider::{ClientError, Provider};
use crate::standing::{Standing, StandingParts};
use crate::submissions::Submissions;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What this program is to the database.
pub const APPLICATION: &str = "reconciler";

/// Why reconciling cannot begin.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The provider cannot be asked.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The database cannot be used.
    #[error("reconciling with this database")]
    Unfit(#[from] Unfit),
    /// The stream cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// What an operator sees of it.
#[derive(Debug)]
pub struct Watched {
    own: Metrics,
    append: append::Metrics,
    provider: Condition,
    conditions: Conditions,
}

impl Watched {
    /// Shown by `registry` and `health`. The loop may be silent for so long.
    pub fn register(registry: &mut Registry, health: &Health, silence: Duration) -> Self {
        Self {
            own: Metrics::register(registry),
            append: append::Metrics::register(registry),
            provider: Condition::register(health, "provider"),
            conditions: Conditions::register(health, silence),
        }
    }
}

/// A checker, and the worker that has to run for anything to be appended. `thorough`: see [`Checker`].
///
/// # Errors
/// When something is wrong that waiting does not put right.
pub async fn open(
    config: WorkConfig,
    watched: Watched,
    thorough: bool,
    stop: Stop,
) -> Result<(Checker, Worker), OpenError> {
    let provider = Provider::new(config.provider, config.pace.max_in_flight)?;
    let database::Target {
        config: target,
        connector,
        ..
    } = config.database;
    let database = Database::new(target, connector, APPLICATION, config.pool_size, config.limits);
    let submissions = Submissions::new(database, provider.base());
    let conditions = watched.conditions;
    wait_for(&submissions, &conditions).await?;
    conditions
        .stream
        .awaiting("looking for the broker and its stream");
    let (log, worker) = Log::open(LogSettings {
        nats: &config.nats,
        stream: &config.stream,
        append: &config.append,
        consumer: &config.pace.consumer,
        body_limit: config.body_limit,
        metrics: watched.append,
    })
    .await?;
    let standing = StandingParts {
        provider,
        submissions: submissions.clone(),
        metrics: watched.own.clone(),
        condition: watched.provider,
        body_limit: log.body_limit,
    };
    let checker = Checker {
        submissions,
        standing: Standing::new(standing, &config.pace, stop.clone()),
        log,
        pace: config.pace,
        source: config.source,
        metrics: watched.own,
        conditions,
        stop,
        thorough,
        sweeping: Sweeping::default(),
    };
    Ok((checker, worker))
}

async fn wait_for(submissions: &Submissions, conditions: &Conditions) -> Result<(), Unfit> {
    let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        match submissions.check().await {
            Ok(()) => {
                conditions.database.ok();
                return Ok(());
            }
            Err(FitError::Unfit(unfit)) => return Err(unfit),
            Err(FitError::Database(error)) => conditions.database.failing(&Chain(&error).to_string()),
        }
        tokio::time::sleep(pauses.pause(rand::random())).await;
    }
}
