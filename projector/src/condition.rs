//! Conditions that an operator watches: a readiness check that logs when it changes, and only then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use service::health::{Check, Health};
use tracing::{info, warn};

/// Something that the projector needs. Failing again for whatever reason, while it fails, is not logged: however long an outage lasts
/// and however often it is tried, there are two lines about it.
#[derive(Debug)]
pub struct Condition {
    name: &'static str,
    check: Check,
    failing: AtomicBool,
}

impl Condition {
    /// Fails with the reason `starting` until it is set.
    pub fn register(health: &Health, name: &'static str) -> Self {
        Self {
            name,
            check: health.register(name),
            failing: AtomicBool::new(false),
        }
    }

    /// All is right.
    pub fn ok(&self) {
        self.check.ok();
        if self.failing.swap(false, Ordering::Relaxed) {
            info!(condition = self.name, "{} is well again", self.name);
        }
    }

    /// Something is wrong.
    pub fn failing(&self, reason: &str) {
        self.check.failing(reason);
        if !self.failing.swap(true, Ordering::Relaxed) {
            warn!(
                condition = self.name,
                reason, "{} is not well; trying on", self.name
            );
        }
    }
}

/// All of them.
#[derive(Debug)]
pub struct Conditions {
    /// The database answers.
    pub database: Condition,
    /// Batches are committed.
    pub batches: Condition,
    /// Requests to the broker are answered.
    pub broker: Condition,
    /// The durable consumer is there, and its acknowledgments stand for this database.
    pub consumer: Condition,
    /// The stream is the one that the rows came from.
    pub stream: Condition,
    /// The loop that commits is alive.
    pub progress: Check,
}

impl Conditions {
    /// All of them fail with the reason `starting` at first. An attempt at a transaction may take up to `attempt`.
    pub fn register(health: &Health, attempt: Duration) -> Self {
        Self {
            database: Condition::register(health, "database"),
            batches: Condition::register(health, "batches"),
            broker: Condition::register(health, "broker"),
            consumer: Condition::register(health, "consumer"),
            stream: Condition::register(health, "stream"),
            progress: health
                .register("loop")
                .alive_within(attempt * 2 + Duration::from_secs(10)),
        }
    }
}
