//! What is counted and measured.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::gate::Why;
use crate::provider::Queue;
use crate::submissions::Counts;

/// What the provider answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReplyLabel {
    /// See [`crate::provider::Reply::as_str`].
    pub reply: &'static str,
}

/// A kind of something.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Reason {
    /// Its name.
    pub reason: &'static str,
}

/// What became of an append.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Outcome {
    /// `stored`, `duplicate` or `divergent`; else the error.
    pub outcome: &'static str,
}

/// A state of submissions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct State {
    /// In small letters.
    pub state: &'static str,
}

/// The metrics of a reconciler. Counters are of this process; the gauges of submissions are of the database.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Calls to the provider about a task, by reply.
    pub calls: Family<ReplyLabel, Counter>,
    /// Answers that could not be used.
    pub unusable: Family<Reason, Counter>,
    /// Answers of tasks that have not ended.
    pub open: Counter,
    /// Results given to the stream.
    pub appends: Family<Outcome, Counter>,
    /// Submissions settled.
    pub settled: Counter,
    /// Of these, those whose row came by a reconciler.
    pub recovered: Counter,
    /// Task ids that became known.
    pub filled: Counter,
    /// Times that the provider asked to be left alone.
    pub pauses: Counter,
    /// Seconds of a call.
    pub call_seconds: Histogram,
    submissions: Family<State, Gauge>,
    unknown: Gauge,
    outstanding: Gauge,
    appended: Gauge,
    critical: Gauge,
    unusable_submissions: Gauge,
    closed: Family<Reason, Gauge>,
    /// 1 while the projection is so far behind that nothing is asked for.
    pub waiting: Gauge,
    /// Messages that the projection is behind.
    pub lag: Gauge,
    queued: Gauge,
    processing: Gauge,
}

impl Metrics {
    /// Metrics that `registry` shows.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            calls: Family::default(),
            unusable: Family::default(),
            open: Counter::default(),
            appends: Family::default(),
            settled: Counter::default(),
            recovered: Counter::default(),
            filled: Counter::default(),
            pauses: Counter::default(),
            call_seconds: Histogram::new(exponential_buckets(0.005, 2.0, 14)),
            submissions: Family::default(),
            unknown: Gauge::default(),
            outstanding: Gauge::default(),
            appended: Gauge::default(),
            critical: Gauge::default(),
            unusable_submissions: Gauge::default(),
            closed: Family::default(),
            waiting: Gauge::default(),
            lag: Gauge::default(),
            queued: Gauge::default(),
            processing: Gauge::default(),
        };
        let own = registry.sub_registry_with_prefix("reconciler");
        let m = &metrics;
        own.register(
            "calls",
            "Calls to the provider about a task, by reply",
            m.calls.clone(),
        );
        own.register_with_unit(
            "call",
            "Time of a call to the provider",
            Unit::Seconds,
            m.call_seconds.clone(),
        );
        own.register(
            "unusable_answers",
            "Answers that could not be used, by reason",
            m.unusable.clone(),
        );
        own.register(
            "open_answers",
            "Answers of tasks that have not ended",
            m.open.clone(),
        );
        own.register(
            "appends",
            "Results given to the stream, by outcome",
            m.appends.clone(),
        );
        own.register("settled", "Submissions settled", m.settled.clone());
        own.register(
            "recovered",
            "Submissions settled by a row that came by a reconciler",
            m.recovered.clone(),
        );
        own.register("task_ids_found", "Task ids that became known", m.filled.clone());
        own.register(
            "pauses",
            "Times that the provider asked to be left alone",
            m.pauses.clone(),
        );
        own.register(
            "submissions",
            "Submissions that are not settled, by state",
            m.submissions.clone(),
        );
        own.register(
            "submissions_without_id",
            "Submissions without a task id",
            m.unknown.clone(),
        );
        own.register(
            "submissions_outstanding",
            "Submissions past their first check, neither settled nor given up",
            m.outstanding.clone(),
        );
        own.register(
            "submissions_appended",
            "Submissions whose result is on the stream and not yet a row",
            m.appended.clone(),
        );
        own.register(
            "submissions_critical",
            "Submissions that wait for far too long",
            m.critical.clone(),
        );
        own.register(
            "submissions_unusable",
            "Submissions with several answers in a row that could not be used",
            m.unusable_submissions.clone(),
        );
        own.register(
            "closed",
            "1 while the provider is not asked, by reason",
            m.closed.clone(),
        );
        own.register(
            "waiting_for_projection",
            "1 while the projection is too far behind to ask",
            m.waiting.clone(),
        );
        own.register(
            "lag_messages",
            "Messages that the projection is behind",
            m.lag.clone(),
        );
        own.register(
            "provider_queued_tasks",
            "Tasks of the whole account that wait for their start, when last asked",
            m.queued.clone(),
        );
        own.register(
            "provider_processing_tasks",
            "Tasks of the whole account that run, when last asked",
            m.processing.clone(),
        );
        metrics
    }

    /// What is not settled.
    pub fn count(&self, counts: &Counts) {
        for (state, count) in [
            ("open", counts.open),
            ("overdue", counts.overdue),
            ("gone", counts.gone),
            ("lost", counts.lost),
            ("too_large", counts.too_large),
        ] {
            self.submissions.get_or_create(&State { state }).set(gauge(count));
        }
        self.unknown.set(gauge(counts.unknown));
        self.outstanding.set(gauge(counts.outstanding));
        self.appended.set(gauge(counts.appended));
        self.critical.set(gauge(counts.critical));
        self.unusable_submissions.set(gauge(counts.unusable));
    }

    /// Why the provider is not asked, if it is not.
    pub fn closed(&self, why: Option<Why>) {
        for reason in Why::ALL {
            let closed = i64::from(why == Some(reason));
            let reason = reason.as_str();
            self.closed.get_or_create(&Reason { reason }).set(closed);
        }
    }

    /// What the account has left to do.
    pub fn queue(&self, queue: Queue) {
        self.queued.set(gauge(queue.queued_tasks));
        self.processing.set(gauge(queue.processing_tasks));
    }

    /// A call to the provider took so long and gave this.
    pub fn called(&self, reply: &'static str, took: Duration) {
        self.calls.get_or_create(&ReplyLabel { reply }).inc();
        self.call_seconds.observe(took.as_secs_f64());
    }
}

fn gauge(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
