//! What an operator watches.

use std::time::Duration;

use service::Condition;
use service::health::{Check, Health};

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
