//! The time of day, passed in.

use std::fmt;
use std::sync::Arc;

use time::OffsetDateTime;

/// Tells the time. Clones tell the same time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> OffsetDateTime + Send + Sync>);

impl Clock {
    /// A clock that says what `now` says.
    pub fn new(now: impl Fn() -> OffsetDateTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The clock of this machine.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place of this crate that reads the machine's clock"
    )]
    pub fn system() -> Self {
        Self::new(OffsetDateTime::now_utc)
    }

    /// The time now.
    pub fn now(&self) -> OffsetDateTime {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}
