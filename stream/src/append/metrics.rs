//! What the appender counts.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::outcome::{AppendError, Appended};
use super::pace::Way;

/// What the appender counts. Clones share the counts.
#[derive(Clone, Debug)]
pub struct Metrics {
    outcomes: Family<Outcome, Counter>,
    /// Repeats answered from memory.
    pub(super) recent_hits: Counter,
    /// Repeats answered together with the event that was under way.
    pub(super) shared: Counter,
    /// Messages read back to check a duplicate.
    pub(super) reads: Counter,
    /// Batches that the broker rejected.
    pub(super) rejected_batches: Counter,
    /// Events that were published once more, after a reconnect or because the broker could not take them.
    pub(super) republished: Counter,
    /// Events in a batch.
    pub(super) batch_events: Histogram,
    ack_seconds: Family<WayLabel, Histogram>,
    /// 1 while batches are the rule.
    pub(super) batching: Gauge,
    /// Events that wait or are under way.
    pub(super) outstanding: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WayLabel {
    way: Way,
}

impl EncodeLabelValue for Way {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> Result<(), std::fmt::Error> {
        match self {
            Self::Plain => "plain".encode(encoder),
            Self::Batch => "batch".encode(encoder),
        }
    }
}

impl Metrics {
    /// Registers everything, with names that begin with `append`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::unregistered();
        let registry = registry.sub_registry_with_prefix("append");
        registry.register(
            "outcomes",
            "Events by what became of them",
            metrics.outcomes.clone(),
        );
        registry.register(
            "recent_hits",
            "Repeats answered from memory, without the broker",
            metrics.recent_hits.clone(),
        );
        registry.register(
            "shared",
            "Repeats answered together with the event under way",
            metrics.shared.clone(),
        );
        registry.register(
            "duplicate_checks",
            "Messages read back to check a duplicate",
            metrics.reads.clone(),
        );
        registry.register(
            "batches_rejected",
            "Batches that the broker rejected as a whole",
            metrics.rejected_batches.clone(),
        );
        registry.register(
            "republished",
            "Events published again with the same id",
            metrics.republished.clone(),
        );
        registry.register("batch_events", "Events in a batch", metrics.batch_events.clone());
        registry.register_with_unit(
            "ack",
            "Time from publishing to the broker's acknowledgment",
            Unit::Seconds,
            metrics.ack_seconds.clone(),
        );
        registry.register(
            "batching",
            "1 while batches are the rule, 0 while events go out by themselves",
            metrics.batching.clone(),
        );
        registry.register(
            "outstanding",
            "Events that wait for the broker",
            metrics.outstanding.clone(),
        );
        metrics
    }

    /// Counts that nobody reads.
    pub fn unregistered() -> Self {
        Self {
            outcomes: Family::default(),
            recent_hits: Counter::default(),
            shared: Counter::default(),
            reads: Counter::default(),
            rejected_batches: Counter::default(),
            republished: Counter::default(),
            batch_events: Histogram::new([2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 500.0]),
            ack_seconds: Family::new_with_constructor(|| {
                Histogram::new([
                    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0,
                ])
            }),
            batching: Gauge::default(),
            outstanding: Gauge::default(),
        }
    }

    pub(super) fn answered(&self, answer: &Result<Appended, AppendError>) {
        let outcome = match answer {
            Ok(appended) => appended.as_str(),
            Err(error) => error.as_str(),
        };
        self.outcomes.get_or_create(&Outcome { outcome }).inc();
    }

    pub(super) fn acknowledged(&self, way: Way, seconds: f64) {
        self.ack_seconds.get_or_create(&WayLabel { way }).observe(seconds);
    }
}
