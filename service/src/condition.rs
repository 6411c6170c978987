//! A readiness check that logs when it changes, and only then.

use std::sync::atomic::{AtomicBool, Ordering};

use tracing::{info, warn};

use crate::health::{Check, Health};

/// Something that a program needs. Failing again for whatever reason, while it fails, is not logged: however long an outage lasts
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

    /// It is waited for at the start, which is no news and is not logged.
    pub fn awaiting(&self, reason: &str) {
        self.check.failing(reason);
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
