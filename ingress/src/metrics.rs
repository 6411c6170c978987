//! What ingress counts. The counters of the hot path are looked up once, at the start.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use schemas::event::Kind;
use stream::append::Appended;

/// All metrics of ingress, registered under `ingress_`.
#[derive(Debug)]
pub(crate) struct Metrics {
    stored: [Outcomes; 4],
    /// Verified test deliveries, which nothing stores.
    pub(crate) tests: Counter,
    refusals: Family<Reason, Counter>,
    verified_by_key: Vec<Counter>,
    quarantined: Family<Reason, Counter>,
    /// Refused signatures that look like those of another scheme.
    pub(crate) wrong_scheme_suspected: Counter,
    /// Seconds from the signed timestamp to the arrival, of verified deliveries.
    skew: Histogram,
    duration: Histogram,
    append_duration: Histogram,
    body_bytes: Counter,
    /// Requests being worked on.
    pub(crate) in_flight: Gauge,
    /// Bytes charged to the budget.
    pub(crate) budget_bytes: Gauge,
    /// Open connections.
    pub(crate) connections: Gauge,
    /// Connections accepted.
    pub(crate) accepted: Counter,
    /// The part of the stream's room that is taken.
    pub(crate) stream_used: Gauge<f64, AtomicU64>,
}

#[derive(Debug)]
struct Outcomes {
    stored: Counter,
    duplicate: Counter,
    divergent: Counter,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Delivered {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Key {
    key: u64,
}

impl Metrics {
    /// Registers everything; `keys` is the number of secrets in use.
    pub(crate) fn new(registry: &mut Registry, keys: usize) -> Self {
        let registry = registry.sub_registry_with_prefix("ingress");
        let deliveries = Family::<Delivered, Counter>::default();
        let by_key = Family::<Key, Counter>::default();
        let metrics = Self {
            stored: Kind::ALL.map(|kind| Outcomes::of(&deliveries, kind.as_str())),
            tests: deliveries.get_or_create_owned(&Delivered {
                kind: "test",
                outcome: "acknowledged",
            }),
            refusals: Family::default(),
            verified_by_key: (0..keys as u64)
                .map(|key| by_key.get_or_create_owned(&Key { key }))
                .collect(),
            quarantined: Family::default(),
            wrong_scheme_suspected: Counter::default(),
            skew: Histogram::new([-300.0, -60.0, -10.0, -2.0, 0.0, 2.0, 10.0, 60.0, 300.0]),
            duration: Histogram::new(DURATIONS),
            append_duration: Histogram::new(DURATIONS),
            body_bytes: Counter::default(),
            in_flight: Gauge::default(),
            budget_bytes: Gauge::default(),
            connections: Gauge::default(),
            accepted: Counter::default(),
            stream_used: Gauge::default(),
        };
        metrics.register(registry, deliveries, by_key);
        metrics
    }

    fn register(
        &self,
        registry: &mut Registry,
        deliveries: Family<Delivered, Counter>,
        by_key: Family<Key, Counter>,
    ) {
        registry.register("deliveries", "Verified deliveries that got a 2xx", deliveries);
        registry.register("refusals", "Requests that got no 2xx", self.refusals.clone());
        registry.register(
            "verified_by_key",
            "Verified deliveries by the place of the secret, from 0: an old one may go when its count stands still",
            by_key,
        );
        registry.register(
            "quarantined",
            "Verified bodies that no task could be read from",
            self.quarantined.clone(),
        );
        registry.register(
            "wrong_scheme_suspected",
            "Refused signatures that look like those of another scheme",
            self.wrong_scheme_suspected.clone(),
        );
        registry.register_with_unit(
            "timestamp_skew",
            "From the signed timestamp to the arrival, of verified deliveries",
            Unit::Seconds,
            self.skew.clone(),
        );
        registry.register_with_unit(
            "request_duration",
            "From the head of an accepted delivery to its answer",
            Unit::Seconds,
            self.duration.clone(),
        );
        registry.register_with_unit(
            "append_duration",
            "From a verified delivery to the stream's acknowledgment",
            Unit::Seconds,
            self.append_duration.clone(),
        );
        registry.register_with_unit(
            "body",
            "Size of verified bodies",
            Unit::Bytes,
            self.body_bytes.clone(),
        );
        registry.register("in_flight", "Requests being worked on", self.in_flight.clone());
        registry.register_with_unit(
            "budget",
            "Body bytes held beyond the free ones of each request",
            Unit::Bytes,
            self.budget_bytes.clone(),
        );
        registry.register("connections", "Open connections", self.connections.clone());
        registry.register(
            "connections_accepted",
            "Connections accepted",
            self.accepted.clone(),
        );
        registry.register(
            "stream_used_ratio",
            "The part of the stream's room that is taken; at 1 it refuses deliveries",
            self.stream_used.clone(),
        );
    }

    pub(crate) fn verified(&self, key: usize, skew_seconds: i64, bytes: usize) {
        if let Some(counter) = self.verified_by_key.get(key) {
            counter.inc();
        }
        // At most a day, so exact.
        self.skew.observe(skew_seconds as f64);
        self.body_bytes.inc_by(bytes as u64);
    }

    pub(crate) fn appended(&self, kind: Kind, appended: Appended, took: Duration) {
        let outcomes = &self.stored[kind.index()];
        match appended {
            Appended::Stored { .. } => outcomes.stored.inc(),
            Appended::Duplicate { .. } => outcomes.duplicate.inc(),
            Appended::Divergent { .. } => outcomes.divergent.inc(),
        };
        self.append_duration.observe(took.as_secs_f64());
    }

    pub(crate) fn quarantined(&self, reason: &'static str) {
        self.quarantined.get_or_create(&Reason { reason }).inc();
    }

    pub(crate) fn refused(&self, reason: &'static str) {
        self.refusals.get_or_create(&Reason { reason }).inc();
    }

    pub(crate) fn answered(&self, took: Duration) {
        self.duration.observe(took.as_secs_f64());
    }
}

const DURATIONS: [f64; 12] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 10.0,
];

impl Outcomes {
    fn of(deliveries: &Family<Delivered, Counter>, kind: &'static str) -> Self {
        let counter = |outcome| deliveries.get_or_create_owned(&Delivered { kind, outcome });
        Self {
            stored: counter("stored"),
            duplicate: counter("duplicate"),
            divergent: counter("divergent"),
        }
    }
}
