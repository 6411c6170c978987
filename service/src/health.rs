//! What a program knows about itself: named checks, each right or failing for a reason.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// All checks of a process. The process is ready when every one of them is right.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Mutex<Vec<Arc<State>>>>);

/// One check, held by the part of the program that it is about.
///
/// It fails with the reason `starting` until it is set for the first time.
#[derive(Debug)]
pub struct Check(Arc<State>);

/// A check that fails, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failing {
    /// The check's name.
    pub check: &'static str,
    /// The reason, in words for an operator.
    pub reason: String,
}

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.reason)
    }
}

#[derive(Debug)]
struct State {
    check: &'static str,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    failing: Option<String>,
    beaten: Instant,
    within: Option<Duration>,
}

impl Health {
    /// Without checks, and so ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check.
    pub fn register(&self, check: &'static str) -> Check {
        let now = Now {
            failing: Some("starting".to_owned()),
            beaten: Instant::now(),
            within: None,
        };
        let state = Arc::new(State {
            check,
            now: Mutex::new(now),
        });
        locked(&self.0).push(Arc::clone(&state));
        Check(state)
    }

    /// Whether all is right.
    ///
    /// # Errors
    /// The checks that fail now, in the order in which they were registered.
    pub fn readiness(&self) -> Result<(), Vec<Failing>> {
        let failing: Vec<_> = locked(&self.0)
            .iter()
            .filter_map(|state| state.failing())
            .collect();
        if failing.is_empty() { Ok(()) } else { Err(failing) }
    }
}

impl Check {
    /// Makes it fail by itself whenever nothing was heard from its holder for longer than `within`: a loop that hangs
    /// cannot say so.
    #[must_use]
    pub fn alive_within(self, within: Duration) -> Self {
        locked(&self.0.now).within = Some(within);
        self
    }

    /// All is right; also a sign of life.
    pub fn ok(&self) {
        self.set(None);
    }

    /// Something is wrong; also a sign of life.
    pub fn failing(&self, reason: impl Into<String>) {
        self.set(Some(reason.into()));
    }

    /// A sign of life that leaves the state as it is.
    pub fn beat(&self) {
        locked(&self.0.now).beaten = Instant::now();
    }

    /// Whether it is right now.
    pub fn is_ok(&self) -> bool {
        self.0.failing().is_none()
    }

    fn set(&self, failing: Option<String>) {
        let mut now = locked(&self.0.now);
        now.failing = failing;
        now.beaten = Instant::now();
    }
}

impl State {
    fn failing(&self) -> Option<Failing> {
        let now = locked(&self.now);
        let silent = now.beaten.elapsed();
        let reason = match (now.within, &now.failing) {
            (Some(within), _) if silent > within => {
                format!("no sign of life for {} s", silent.as_secs())
            }
            (_, Some(reason)) => reason.clone(),
            (_, None) => return None,
        };
        Some(Failing {
            check: self.check,
            reason,
        })
    }
}

/// Nothing in here panics while it holds a lock, so a poisoned one holds no half-made state.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(health: &Health) -> Vec<String> {
        health
            .readiness()
            .err()
            .unwrap_or_default()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn ready_is_when_every_check_is_right() {
        let health = Health::new();
        assert_eq!(health.readiness(), Ok(()));
        let (stream, database) = (health.register("stream"), health.register("database"));
        assert_eq!(reasons(&health), ["stream: starting", "database: starting"]);
        stream.ok();
        database.failing("refused");
        assert_eq!(reasons(&health), ["database: refused"]);
        database.ok();
        assert_eq!(health.readiness(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_loop_fails_by_itself_and_is_right_again_after_a_beat() {
        let health = Health::new();
        let check = health.register("loop").alive_within(Duration::from_secs(5));
        check.ok();
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(health.readiness(), Ok(()));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(reasons(&health), ["loop: no sign of life for 7 s"]);
        check.beat();
        assert_eq!(health.readiness(), Ok(()));
    }
}
