//! From a signed request to an event on the stream.
//!
//! One delivery: a connection is accepted (`server`), its request let in (`admit`), its signature header looked at, its body
//! read (`body`) and verified, classified and appended (`receive`); only when the stream has it, it is answered 204
//! (`answer`). Nothing here knows a database.

mod admit;
mod answer;
mod body;
mod broker;
mod config;
mod descriptors;
mod diagnose;
mod linger;
mod metrics;
mod patience;
mod receive;
mod room;
mod server;
mod stream_command;
mod throttle;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::registry::Registry;
use schemas::signature::UnixSeconds;
use service::health::Health;
use service::{Stop, TaskFailed, Tasks, admin};
use tracing::info;

pub use broker::BrokerError;
pub use config::{Command, Config, Limits, StreamAction, StreamArgs, command};
pub use stream_command::stream_command;

use admit::Gate;
use broker::BrokerSettings;
use metrics::Metrics;
use receive::Hook;
use room::Room;
use server::Server;
use throttle::Throttle;

/// What the rest of the process may take to end after the public port has closed.
const END: Duration = Duration::from_secs(2);

/// Why receiving ended other than by a request to stop.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The admin port cannot be listened on.
    #[error(transparent)]
    Admin(#[from] admin::BindError),
    /// The public port cannot be listened on.
    #[error("listening on {address} for deliveries")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// A part of the process ended or failed.
    #[error(transparent)]
    Task(#[from] TaskFailed),
}

/// Receives deliveries until `stop` is requested. `now` gives the time against which signatures are checked.
///
/// Both ports are open at once, whether or not the broker is there.
///
/// # Errors
/// When a port cannot be listened on, or the stream cannot be used as it is.
pub async fn serve(mut config: Config, now: fn() -> UnixSeconds, stop: Stop) -> Result<(), ServeError> {
    config.limits.connections = descriptors::raise_limit(config.limits.connections);
    let address = config.listen;
    let admin_listener = admin::bind(&config.admin).await?;
    let listener = server::listen(address).map_err(|source| ServeError::Listen { address, source })?;
    info!(
        listen = listener.local_addr().ok().map(tracing::field::display),
        admin = admin_listener.local_addr().ok().map(tracing::field::display),
        tls = config.tls.is_some(),
        secrets = config.keys,
        "listening"
    );

    let mut registry = Registry::default();
    let metrics = Metrics::new(&mut registry, config.keys);
    let health = Health::new();
    let check = health
        .register("stream")
        .alive_within(broker::sign_of_life(config.append.publish_timeout));
    let room = Room::new(health.warning("stream"), metrics.stream_used.clone());
    let grace = config.limits.stop_grace;
    let settings = BrokerSettings {
        nats: config.nats,
        stream: config.stream,
        append: config.append,
        metrics: stream::append::Metrics::register(&mut registry),
    };
    let hook = Arc::new(Hook {
        path: config.path,
        scheme: config.scheme,
        verifier: config.verifier,
        source: config.source,
        gate: Gate::new(
            (config.limits.in_flight, metrics.in_flight.clone()),
            (config.limits.body_budget, metrics.budget_bytes.clone()),
        ),
        limits: config.limits,
        now,
        metrics,
        stop: stop.clone(),
        log: OnceLock::new(),
        alerts: Throttle::default(),
    });

    let mut tasks = Tasks::new(stop.clone());
    tasks.spawn_background("admin port", admin::serve(admin_listener, registry, health, stop));
    tasks.spawn("stream", broker::watch(Arc::clone(&hook), settings, check, room));
    tasks.spawn("public port", Server::new(hook, config.tls).run(listener));
    Ok(tasks.run(grace + END).await?)
}
