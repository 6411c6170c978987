//! What is counted and measured.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Why a message was parked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Reason {
    /// As in the column `parked.reason`.
    pub reason: &'static str,
}

/// Why something was tried again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Cause {
    /// `contention`, `timeout`, `outage` or `data`.
    pub cause: &'static str,
}

/// The metrics of a projector. Counters are of this process; `lag` is of the consumer that all share.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Rows of `answers` inserted or replaced.
    pub applied: Counter,
    /// Rows of `winners` inserted or replaced.
    pub winners: Counter,
    /// Result events that changed nothing: copies and older states.
    pub unchanged: Counter,
    /// Messages parked, by reason.
    pub parked: Family<Reason, Counter>,
    /// Events of tasks that have not ended.
    pub nonfinal: Counter,
    /// Messages that came again.
    pub redelivered: Counter,
    /// Transactions that were tried again.
    pub retries: Family<Cause, Counter>,
    /// Messages in a batch.
    pub batch_messages: Histogram,
    /// Seconds from a batch being ready to its commit.
    pub batch_seconds: Histogram,
    /// Messages not yet projected by anybody.
    pub lag: Gauge,
    /// The last event up to which the database is known to hold everything.
    pub floor: Gauge,
    /// How often the consumer was started anew after the floor of the database.
    pub rewinds: Counter,
}

impl Metrics {
    /// Metrics that `registry` shows.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            applied: Counter::default(),
            winners: Counter::default(),
            unchanged: Counter::default(),
            parked: Family::default(),
            nonfinal: Counter::default(),
            redelivered: Counter::default(),
            retries: Family::default(),
            batch_messages: Histogram::new(exponential_buckets(1.0, 4.0, 8)),
            batch_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
            lag: Gauge::default(),
            floor: Gauge::default(),
            rewinds: Counter::default(),
        };
        let own = registry.sub_registry_with_prefix("projector");
        own.register(
            "rows_applied",
            "Rows of answers inserted or replaced",
            metrics.applied.clone(),
        );
        own.register(
            "winners_changed",
            "Rows of winners inserted or replaced",
            metrics.winners.clone(),
        );
        own.register(
            "events_unchanged",
            "Result events that changed no row: copies and older states",
            metrics.unchanged.clone(),
        );
        own.register(
            "events_parked",
            "Messages set aside, by reason",
            metrics.parked.clone(),
        );
        own.register(
            "events_nonfinal",
            "Events of tasks that have not ended",
            metrics.nonfinal.clone(),
        );
        own.register(
            "messages_redelivered",
            "Messages that came again",
            metrics.redelivered.clone(),
        );
        own.register(
            "transaction_retries",
            "Transactions tried again, by cause",
            metrics.retries.clone(),
        );
        own.register(
            "batch_messages",
            "Messages in a batch",
            metrics.batch_messages.clone(),
        );
        own.register_with_unit(
            "batch",
            "From a batch being ready to its commit",
            Unit::Seconds,
            metrics.batch_seconds.clone(),
        );
        own.register(
            "lag_messages",
            "Messages on the stream not yet acknowledged",
            metrics.lag.clone(),
        );
        own.register(
            "floor",
            "Sequence up to which the database holds everything",
            metrics.floor.clone(),
        );
        own.register(
            "consumer_rewinds",
            "How often the consumer was started anew after the floor",
            metrics.rewinds.clone(),
        );
        metrics
    }
}
