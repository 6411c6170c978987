//! Putting the parts together.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use service::health::Health;
use service::{Stop, TaskFailed, Tasks, admin};
use stream::connect::ConnectError;
use stream::consume::{AttachError, Steward};
use stream::{Connection, DeclareError};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use crate::acknowledge::Acknowledger;
use crate::commit::Committer;
use crate::condition::Conditions;
use crate::config::RunConfig;
use crate::decode::Decoder;
use crate::fit::Unfit;
use crate::floor::Floor;
use crate::keep::Keeper;
use crate::metrics::Metrics;
use crate::pull::Puller;
use crate::session::{Parts, Session};
use database::{Database, Target};

/// How long the last acknowledgments may take to leave.
const FLUSH: Duration = Duration::from_secs(2);

/// Why the projector ended.
#[derive(Debug, Error)]
pub enum RunError {
    /// The admin port cannot be had.
    #[error(transparent)]
    Admin(#[from] admin::BindError),
    /// The broker cannot be used.
    #[error("connecting to the broker")]
    Connect(#[from] ConnectError),
    /// The stream cannot be used.
    #[error("declaring the stream")]
    Declare(#[from] DeclareError),
    /// The consumer cannot be pulled from.
    #[error("pulling from the stream")]
    Pull(#[from] AttachError),
    /// The database cannot be used.
    #[error("projecting into this database")]
    Unfit(#[from] Unfit),
    /// A part of it died.
    #[error(transparent)]
    Task(#[from] TaskFailed),
}

/// Projects until `stop` is requested.
///
/// # Errors
/// When something is wrong that waiting does not put right. Outages are waited out.
pub async fn run(config: RunConfig, stop: Stop) -> Result<(), RunError> {
    let health = Health::new();
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let conditions = Arc::new(Conditions::register(&health, config.limits.transaction()));
    let listener = admin::bind(&config.admin).await?;
    let mut tasks = Tasks::new(stop.clone());
    tasks.spawn_background(
        "admin port",
        admin::serve(listener, registry, health, stop.clone()),
    );

    let preparing = prepare(&config, metrics, conditions);
    let Some(prepared) = stop.unless_requested(preparing).await else {
        return Ok(());
    };
    let (connection, puller) = prepared?;
    spawn(&mut tasks, puller, &config, &stop);
    let ended = tasks.run(config.stop_grace).await;
    // The process ends either way; what does not leave in time is delivered again.
    let _ = tokio::time::timeout(FLUSH, connection.client.flush()).await;
    Ok(ended?)
}

async fn prepare(
    config: &RunConfig,
    metrics: Metrics,
    conditions: Arc<Conditions>,
) -> Result<(Connection, Puller), RunError> {
    conditions
        .broker
        .awaiting("looking for the broker and its stream");
    let connection = stream::connect::connect(&config.nats, "projector").await?;
    let declared = stream::declare::declare(&connection, &config.stream).await?;
    let steward = Steward::new(&connection, &declared, &config.consumer);
    let consumer = steward.attach().await?;
    let session = Session::open(Parts {
        database: database(config),
        steward,
        conditions,
        metrics,
        rules: config.rules,
    })
    .await?;
    let puller = Puller {
        session: Arc::new(session),
        decoder: Arc::new(Decoder {
            subjects: config.stream.subjects.clone(),
            rules: config.rules,
        }),
        keeper: Arc::new(Keeper::new(config.consumer.ack_wait)),
        consumer,
        max_messages: config.batch_messages,
        max_bytes: config.batch_bytes,
    };
    Ok((connection, puller))
}

fn database(config: &RunConfig) -> Database {
    let Target {
        config: target,
        connector,
        ..
    } = config.database.clone();
    Database::new(target, connector, "projector", config.pool_size, config.limits)
}

fn spawn(tasks: &mut Tasks, puller: Puller, config: &RunConfig, stop: &Stop) {
    let committer = Committer {
        session: Arc::clone(&puller.session),
        keeper: Arc::clone(&puller.keeper),
        comes_back: config.consumer.ack_wait / 2,
        // The rest is for noting the floor, and for the last acknowledgments.
        finish: config.stop_grace / 2,
    };
    let acknowledger = Acknowledger {
        session: Arc::clone(&puller.session),
        keeper: Arc::clone(&puller.keeper),
    };
    let floor = Floor::new(
        Arc::clone(&puller.session),
        config.floor_interval,
        config.batch_messages,
    );
    let keeper = Arc::clone(&puller.keeper);
    // One batch waits while one is committed, and another is acknowledged.
    let (fetched, batches) = mpsc::channel(1);
    let (settle, settled) = mpsc::channel(1);
    let (acknowledged, last) = oneshot::channel();
    tasks.spawn("pull", puller.run(fetched, stop.clone()));
    tasks.spawn("commit", committer.run(batches, settle, stop.clone()));
    tasks.spawn(
        "acknowledge",
        acknowledger.run(settled, acknowledged, stop.clone()),
    );
    tasks.spawn("floor", floor.run(last, stop.clone()));
    tasks.spawn_background("keep", async move {
        keeper.run().await;
        Ok::<_, Infallible>(())
    });
}
