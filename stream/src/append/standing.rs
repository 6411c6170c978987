//! Whether events are being stored at present, told by what became of the last ones.
//!
//! A broker that answers every question about the stream may still store nothing: after an error on its disk it keeps a
//! stream as it is, and says nothing to those who publish, until it is restarted.

use std::time::{Duration, Instant};

use super::outcome::{AppendError, Appended};

/// For how long a failure counts when nothing was tried after it: then the next event has to tell.
const COUNTS_FOR: Duration = Duration::from_secs(30);

/// The last events were not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotStored {
    /// What became of the last one.
    pub(super) error: AppendError,
    at: Instant,
}

impl NotStored {
    /// Whether it still says something about the next event.
    pub(super) fn counts(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < COUNTS_FOR
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Standing {
    last_stored: Option<Instant>,
    not_stored: Option<NotStored>,
}

impl Standing {
    /// What became of an event that the broker was asked to store, and when it came.
    pub(super) fn note(&mut self, answer: &Result<Appended, AppendError>, came: Instant, now: Instant) {
        match answer {
            Ok(Appended::Stored { .. } | Appended::Divergent { .. }) => {
                self.last_stored = Some(now);
                self.not_stored = None;
            }
            // Nothing was written.
            Ok(Appended::Duplicate { .. }) => {}
            Err(error) if is_about_the_stream(error) => {
                // Another one that was stored meanwhile shows that this one had bad luck.
                if self.last_stored.is_none_or(|stored| stored < came) {
                    let error = error.clone();
                    self.not_stored = Some(NotStored { error, at: now });
                }
            }
            Err(_) => {}
        }
    }

    /// There is a new connection, perhaps to another broker or to one that was restarted.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Set while the last events were not stored.
    pub(super) fn not_stored(&self) -> Option<&NotStored> {
        self.not_stored.as_ref()
    }
}

/// Whether an error says something about other events too. That there is no connection is known without it.
fn is_about_the_stream(error: &AppendError) -> bool {
    match error {
        AppendError::TimedOut | AppendError::Unavailable(_) | AppendError::StreamFull(_) => true,
        AppendError::Disconnected
        | AppendError::WrongStream(_)
        | AppendError::TooLarge { .. }
        | AppendError::Refused { .. }
        | AppendError::Vanished
        | AppendError::Overloaded
        | AppendError::Stopped => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: Result<Appended, AppendError> = Ok(Appended::Stored { seq: 1 });
    const DUPLICATE: Result<Appended, AppendError> = Ok(Appended::Duplicate { seq: 1 });
    const TIMED_OUT: Result<Appended, AppendError> = Err(AppendError::TimedOut);

    /// Events as (came, answered, answer), in seconds; whether the last ones were not stored.
    fn fails_after(events: &[(u64, u64, &Result<Appended, AppendError>)]) -> bool {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut standing = Standing::default();
        for (came, answered, answer) in events {
            standing.note(answer, at(*came), at(*answered));
        }
        standing.not_stored().is_some()
    }

    #[test]
    fn an_event_without_an_answer_tells_unless_another_was_stored_meanwhile() {
        assert!(!fails_after(&[]));
        assert!(fails_after(&[(1, 6, &TIMED_OUT)]));
        assert!(fails_after(&[(0, 0, &STORED), (1, 6, &TIMED_OUT)]));
        assert!(!fails_after(&[(2, 3, &STORED), (1, 6, &TIMED_OUT)]));
    }

    #[test]
    fn a_stored_event_ends_it_and_a_duplicate_does_not() {
        assert!(!fails_after(&[(1, 6, &TIMED_OUT), (7, 7, &STORED)]));
        assert!(fails_after(&[(1, 6, &TIMED_OUT), (7, 7, &DUPLICATE)]));
    }

    #[test]
    fn only_errors_that_concern_every_event_tell() {
        let full = Err(AppendError::StreamFull("maximum bytes exceeded".to_owned()));
        let unavailable = Err(AppendError::Unavailable("insufficient resources".to_owned()));
        assert!(fails_after(&[(1, 1, &full)]) && fails_after(&[(1, 6, &unavailable)]));
        for error in [
            AppendError::Disconnected,
            AppendError::TooLarge { limit: 1 },
            AppendError::Vanished,
            AppendError::Overloaded,
            AppendError::Stopped,
        ] {
            assert!(!fails_after(&[(1, 1, &Err(error))]));
        }
    }

    #[test]
    fn a_failure_counts_for_a_while_and_a_new_connection_ends_it() {
        let begin = Instant::now();
        let mut standing = Standing::default();
        standing.note(&TIMED_OUT, begin, begin);
        let failure = standing.not_stored().unwrap();
        assert!(failure.counts(begin + COUNTS_FOR / 2) && !failure.counts(begin + COUNTS_FOR));
        standing.forget();
        assert_eq!(standing.not_stored(), None);
    }
}
