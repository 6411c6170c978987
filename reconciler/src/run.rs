//! The command `run`: sweep after sweep, until told to stop.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use service::health::Health;
use service::{Chain, Stop, TaskFailed, Tasks, admin};
use thiserror::Error;
use tracing::info;

use crate::check::Checker;
use crate::config::RunConfig;
use crate::open::{OpenError, Watched, open};
use crate::sweep::Swept;

/// How long the last appends may take to leave.
const FLUSH: Duration = Duration::from_secs(2);

/// Why the reconciler ended.
#[derive(Debug, Error)]
pub enum RunError {
    /// The admin port cannot be had.
    #[error(transparent)]
    Admin(#[from] admin::BindError),
    /// It cannot begin.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A part of it died.
    #[error(transparent)]
    Task(#[from] TaskFailed),
}

/// Reconciles until `stop` is requested.
///
/// # Errors
/// When something is wrong that waiting does not put right. Outages are waited out.
pub async fn run(config: RunConfig, stop: Stop) -> Result<(), RunError> {
    let health = Health::new();
    let mut registry = Registry::default();
    // Between two signs of life there is a pause, or a call with its append and the note of it, or a statement.
    let silence = config.work.pace.sweep_interval
        + config.work.provider.request_timeout
        + config.work.append.publish_timeout
        + config.work.limits.transaction() * 2;
    let watched = Watched::register(&mut registry, &health, silence);
    let listener = admin::bind(&config.admin).await?;
    let mut tasks = Tasks::new(stop.clone());
    tasks.spawn_background(
        "admin port",
        admin::serve(listener, registry, health, stop.clone()),
    );

    let opening = open(config.work, watched, false, stop.clone());
    let Some(opened) = stop.unless_requested(opening).await else {
        return Ok(());
    };
    let (checker, worker) = opened?;
    info!(
        provider = checker.standing.provider(),
        stream.name = checker.log.stream,
        "reconciling"
    );
    let connection = checker.log.connection.clone();
    // It works for what is finished while the process stops, so it ends with the runtime.
    tasks.spawn_background("append", async move {
        worker.run().await;
        Ok::<_, Infallible>(())
    });
    tasks.spawn("sweep", sweeps(Arc::new(checker)));
    let ended = tasks.run(config.stop_grace).await;
    // The process ends either way; what does not leave in time is asked for again.
    let _ = tokio::time::timeout(FLUSH, connection.client.flush()).await;
    Ok(ended?)
}

async fn sweeps(checker: Arc<Checker>) -> Result<(), Infallible> {
    let mut outstanding = 0;
    checker.conditions.progress.ok();
    loop {
        let swept = match checker.sweep().await {
            Ok(None) => return Ok(()),
            Ok(Some(swept)) => Some(swept),
            Err(error) => {
                checker.conditions.database.failing(&Chain(&error).to_string());
                None
            }
        };
        if let Some(swept) = &swept {
            let before = std::mem::replace(&mut outstanding, swept.counts.outstanding);
            ask_for_queue(&checker, swept, before).await;
        }
        checker.conditions.progress.beat();
        if !checker.pause(swept.as_ref()).await {
            return Ok(());
        }
    }
}

/// Asks for the provider's queue when a backlog is done; and when the key may not be accepted and there is nothing else to ask, so
/// that an operator knows before the first result is missing.
async fn ask_for_queue(checker: &Checker, swept: &Swept, outstanding_before: u64) {
    let done = outstanding_before > 0 && swept.counts.outstanding == 0;
    let idle = !checker.standing.is_accepted() && swept.asked == 0;
    if !(done || idle) {
        return;
    }
    let queue = checker.standing.queue().await;
    if let (true, Some(queue)) = (done, queue) {
        info!(
            queued = queue.queued_tasks,
            processing = queue.processing_tasks,
            "{}",
            if queue.is_empty() {
                "nothing is outstanding, and the provider has nothing left to do"
            } else {
                "nothing is outstanding here; the provider has tasks left to do"
            }
        );
    }
}
