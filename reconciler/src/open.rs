//! From settings to a checker: finds the database and the stream, waiting for them as long as it takes.

use std::sync::Arc;
use std::time::Duration;

use database::{Database, FitError, Unfit};
use service::{Backoff, Chain, Stop};
use stream::append::{self, Worker};
use thiserror::Error;

use crate::check::{Checker, Conditions, Parts};
use crate::config::WorkConfig;
use crate::log::{Log, LogError, LogSettings};
use crate::metrics::Metrics;
use crate::provider::{ClientError, Provider};
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

/// What is counted.
#[derive(Debug)]
pub struct Counters {
    /// By us.
    pub own: Metrics,
    /// By the appender.
    pub append: append::Metrics,
}

/// A checker, and the worker that has to run for anything to be appended. `thorough`: see [`Parts`].
///
/// # Errors
/// When something is wrong that waiting does not put right.
pub async fn open(
    config: WorkConfig,
    counters: Counters,
    conditions: Conditions,
    thorough: bool,
    stop: Stop,
) -> Result<(Arc<Checker>, Worker), OpenError> {
    let provider = Provider::new(config.provider, config.pace.max_in_flight)?;
    let database::Target {
        config: target,
        connector,
        ..
    } = config.database;
    let database = Database::new(target, connector, APPLICATION, config.pool_size, config.limits);
    let submissions = Submissions::new(database, provider.base());
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
        metrics: counters.append,
    })
    .await?;
    let parts = Parts {
        submissions,
        provider,
        log,
        pace: config.pace,
        source: config.source,
        metrics: counters.own,
        conditions,
        thorough,
    };
    Ok((Arc::new(Checker::new(parts, stop)), worker))
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
