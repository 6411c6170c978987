//! What a program knows about itself: named checks, each right or failing for a reason, and warnings, which stop nothing.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

/// All checks of a process. The process is ready when every one of them is right, whatever its warnings say.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    checks: Mutex<Vec<Arc<State>>>,
    warnings: Mutex<Vec<Arc<Notice>>>,
}

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

/// Something that will go wrong unless somebody does something, held by the part of the program that sees it coming. It
/// leaves the process ready: what still works must not be taken out of service for it.
#[derive(Debug)]
pub struct Warning(Arc<Notice>);

#[derive(Debug)]
struct Notice {
    about: &'static str,
    text: Mutex<Option<String>>,
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
        locked(&self.0.checks).push(Arc::clone(&state));
        Check(state)
    }

    /// Adds a warning, of which there is nothing to say yet.
    pub fn warning(&self, about: &'static str) -> Warning {
        let notice = Arc::new(Notice {
            about,
            text: Mutex::default(),
        });
        locked(&self.0.warnings).push(Arc::clone(&notice));
        Warning(notice)
    }

    /// The warnings that stand now, as `about: text`, in the order in which they were registered.
    pub fn warnings(&self) -> Vec<String> {
        locked(&self.0.warnings)
            .iter()
            .filter_map(|notice| {
                let text = locked(&notice.text);
                text.as_ref().map(|text| format!("{}: {text}", notice.about))
            })
            .collect()
    }

    /// Whether all is right.
    ///
    /// # Errors
    /// The checks that fail now, in the order in which they were registered.
    pub fn readiness(&self) -> Result<(), Vec<Failing>> {
        let failing: Vec<_> = locked(&self.0.checks)
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

impl Warning {
    /// Says it, or says it anew in other words. Logged once, when it was not said before.
    pub fn raise(&self, text: impl Into<String>) {
        let text = text.into();
        let before = locked(&self.0.text).replace(text.clone());
        if before.is_none() {
            warn!(about = self.0.about, "{}: {text}", self.0.about);
        }
    }

    /// There is nothing to say any more. Logged when there was.
    pub fn clear(&self) {
        if locked(&self.0.text).take().is_some() {
            info!(about = self.0.about, "{}: the warning is over", self.0.about);
        }
    }

    /// Whether it stands.
    pub fn is_raised(&self) -> bool {
        locked(&self.0.text).is_some()
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

    #[test]
    fn a_warning_leaves_the_process_ready() {
        let health = Health::new();
        let warning = health.warning("stream");
        assert_eq!(health.warnings(), [""; 0]);
        warning.raise("83 % full");
        warning.raise("84 % full");
        assert_eq!(health.warnings(), ["stream: 84 % full"]);
        assert_eq!(health.readiness(), Ok(()));
        warning.clear();
        assert!(!warning.is_raised() && health.warnings().is_empty());
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
