//! How long a task may wait, run and be kept.

use std::time::Duration;

use time::OffsetDateTime;

use super::task::Task;

/// The limits of a task's life, and the window in which redeliveries are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    /// From the creation to the first start. After it the task fails and costs nothing.
    pub queue_wait: Duration,
    /// From the *first* start to the end, a return to the queue included. After it the task fails.
    pub run: Duration,
    /// From the creation until the provider forgets the task, and its idempotency key with it.
    pub retention: Duration,
    /// Redeliveries are limited per window of this length.
    pub redelivery_window: Duration,
}

impl Default for Life {
    /// The real one: four hours, five minutes, a day; redeliveries are counted by the hour.
    fn default() -> Self {
        Self {
            queue_wait: Duration::from_secs(4 * 3_600),
            run: Duration::from_secs(5 * 60),
            retention: Duration::from_secs(24 * 3_600),
            redelivery_window: Duration::from_secs(3_600),
        }
    }
}

/// What happens to a task when a limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It fails: it never started.
    QueueWaitExceeded,
    /// It fails: it ran too long.
    TimedOut,
    /// It is forgotten.
    Forgotten,
}

impl Life {
    /// The real life, `factor` times as fast.
    ///
    /// # Panics
    /// If `factor` is not a positive number.
    pub fn compressed(factor: f64) -> Self {
        assert!(
            factor > 0.0 && factor.is_finite(),
            "a life runs at a positive speed, not at {factor}"
        );
        let real = Self::default();
        Self {
            queue_wait: real.queue_wait.div_f64(factor),
            run: real.run.div_f64(factor),
            retention: real.retention.div_f64(factor),
            redelivery_window: real.redelivery_window.div_f64(factor),
        }
    }

    /// Which limit `task` reaches next, and when.
    pub(super) fn next(&self, task: &Task) -> (OffsetDateTime, Fate) {
        let forgotten = (task.created_at + self.retention, Fate::Forgotten);
        let fails = match task.started_at {
            _ if task.status.is_final() => None,
            None => Some((task.created_at + self.queue_wait, Fate::QueueWaitExceeded)),
            Some(started) => Some((started + self.run, Fate::TimedOut)),
        };
        fails.filter(|(at, _)| *at < forgotten.0).unwrap_or(forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_life_keeps_its_proportions() {
        let fast = Life::compressed(1_000.0);
        assert_eq!(fast.queue_wait, Duration::from_millis(14_400));
        assert_eq!(fast.run, Duration::from_millis(300));
        assert_eq!(fast.retention, Duration::from_millis(86_400));
        assert_eq!(fast.redelivery_window, Duration::from_millis(3_600));
        assert_eq!(Life::compressed(1.0), Life::default());
    }
}
