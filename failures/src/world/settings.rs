//! What a world is made of.

use std::path::PathBuf;
use std::time::Duration;

use sandbox::faults::FaultPlan;
use sandbox::provider::life::Life;
use sandbox::seed::Seed;
use sandbox::servers::{NatsOptions, PostgresOptions};

use super::member::{Kind, Who};

/// What a world is made of. The default is one process of each program, settings as shipped but for times that are
/// shortened, and nothing that goes wrong by itself.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Where all randomness comes from.
    pub seed: Seed,
    /// Processes of ingress, at least one.
    pub ingresses: usize,
    /// Processes of projector.
    pub projectors: usize,
    /// Processes of reconciler. None by default: what is recorded then is fetched by nobody.
    pub reconcilers: usize,
    /// How many times faster than the real one the provider's retry schedule is. At 100 it lasts 13 to 26 seconds.
    pub speed: f64,
    /// How long one attempt of the provider may take.
    pub attempt_limit: Duration,
    /// Deliveries that the provider has under way at the same time.
    pub concurrency: usize,
    /// The limits of a task's life; the real ones by default.
    pub life: Life,
    /// What goes wrong with deliveries on their way.
    pub faults: FaultPlan,
    /// The broker.
    pub nats: NatsOptions,
    /// The database server: `None` for a database on the server that all tests share, which no operation may stop.
    pub postgres: Option<PostgresOptions>,
    /// Settings of programs, over those of `variables`.
    pub variables: Vec<(Kind, &'static str, String)>,
    /// Where the programs are; by default where cargo puts them.
    pub binaries: PathBuf,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            seed: Seed(7),
            ingresses: 1,
            projectors: 1,
            reconcilers: 0,
            speed: 100.0,
            attempt_limit: Duration::from_secs(8),
            concurrency: 16,
            life: Life::default(),
            faults: FaultPlan::none(),
            nats: as_shipped(),
            postgres: None,
            variables: Vec::new(),
            binaries: beside_this_program(),
        }
    }
}

impl Setup {
    /// With another setting of every program of a kind.
    #[must_use]
    pub fn set(mut self, kind: Kind, name: &'static str, value: impl ToString) -> Self {
        self.variables.push((kind, name, value.to_string()));
        self
    }

    pub(super) fn who(&self) -> impl Iterator<Item = Who> {
        let ingresses = (0..self.ingresses).map(Who::Ingress);
        let projectors = (0..self.projectors).map(Who::Projector);
        let reconcilers = (0..self.reconcilers).map(Who::Reconciler);
        ingresses.chain(projectors).chain(reconcilers)
    }
}

/// What `deploy/nats.conf` says of durability and limits: synced before each acknowledgment, 8 MB messages.
fn as_shipped() -> NatsOptions {
    NatsOptions {
        extra: "write_deadline: \"10s\"".to_owned(),
        ..NatsOptions::default()
    }
}

/// The settings of every program of a kind: times short enough for a test, and what a world's size asks for.
pub(super) fn variables(kind: Kind) -> Vec<(&'static str, &'static str)> {
    let mut variables = vec![
        ("NATS_PING_INTERVAL", "500ms"),
        ("NATS_REQUEST_TIMEOUT", "2s"),
        ("NATS_CONNECT_TIMEOUT", "2s"),
        ("STREAM_MAX_BYTES", "64MiB"),
        ("LOG_FORMAT", "text"),
    ];
    variables.extend(match kind {
        Kind::Ingress => [("PUBLISH_TIMEOUT", "2s"), ("STOP_GRACE", "4s")].as_slice(),
        // A projector that was killed leaves its messages for as long as the ack wait.
        Kind::Projector => &[
            ("DATABASE_CONNECT_TIMEOUT", "1s"),
            ("STATEMENT_TIMEOUT", "2s"),
            ("ACK_WAIT", "6s"),
            ("FLOOR_INTERVAL", "100ms"),
        ],
        // One that was killed leaves what it had in hand for as long as the lease.
        Kind::Reconciler => &[
            ("REQUEST_TIMEOUT", "1s"),
            ("PUBLISH_TIMEOUT", "2s"),
            ("DATABASE_CONNECT_TIMEOUT", "1s"),
            ("STATEMENT_TIMEOUT", "2s"),
            ("LEASE", "8s"),
            ("SWEEP_INTERVAL", "100ms"),
            ("CHECK_INTERVAL", "200ms"),
            ("MAX_CHECK_INTERVAL", "2s"),
            ("DENIED_PROBE_INTERVAL", "500ms"),
            ("STOP_GRACE", "8s"),
        ],
    });
    variables
}

/// Where cargo puts the programs: tests are one directory further down.
fn beside_this_program() -> PathBuf {
    let program = std::env::current_exe().expect("the system knows where this program is");
    let directory = program.parent().expect("a program lies in a directory");
    match directory.file_name() {
        Some(name) if name == "deps" => directory.parent().expect("cargo's directory has a parent"),
        _ => directory,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both the deployment's file and the options of a world, so that neither drifts away from the other.
    #[test]
    fn the_broker_of_a_world_has_the_limits_of_the_deployment() {
        let shipped = include_str!("../../../deploy/nats.conf");
        let lines: Vec<&str> = shipped.lines().map(str::trim).collect();
        let options = as_shipped();
        assert!(lines.contains(&"sync_interval: always") && options.sync_always);
        assert!(lines.contains(&"max_payload: 8MB") && options.max_payload == 8 << 20);
        assert!(lines.contains(&options.extra.as_str()));
    }
}
