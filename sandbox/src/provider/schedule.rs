//! When a delivery that failed is tried again.

use std::time::Duration;

/// The retry schedule of the provider: how many attempts, how long between them, how long each may take.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Attempts a delivery gets before it is dead.
    pub attempts: u32,
    /// The wait after the first failed attempt, before jitter; it doubles after each further one.
    pub base: Duration,
    /// How long an attempt may take, connecting included, before it counts as failed.
    pub attempt_limit: Duration,
    /// Waits are divided by this. The limit of an attempt is not: it bounds a real network.
    pub speed: f64,
}

impl Default for Schedule {
    /// The real one: ten attempts over 21 to 43 minutes.
    fn default() -> Self {
        Self {
            attempts: 10,
            base: Duration::from_secs(5),
            attempt_limit: Duration::from_secs(15),
            speed: 1.0,
        }
    }
}

impl Schedule {
    /// The real schedule with its waits divided by `speed`.
    ///
    /// # Panics
    /// If `speed` is not a positive number.
    pub fn faster(speed: f64) -> Self {
        assert!(
            speed > 0.0 && speed.is_finite(),
            "a schedule runs at a positive speed, not at {speed}"
        );
        Self {
            speed,
            ..Self::default()
        }
    }

    /// How long to wait after failed attempt `attempt` (counted from 1), shortened by `jitter`, which is in [0.5, 1].
    /// `None` after the last: the delivery is dead.
    pub fn wait_after(&self, attempt: u32, jitter: f64) -> Option<Duration> {
        debug_assert!(
            (0.5..=1.0).contains(&jitter),
            "a wait is shortened by up to half, not to {jitter}"
        );
        if attempt >= self.attempts {
            return None;
        }
        let doubled =
            self.base.as_secs_f64() * 2_f64.powi(attempt.saturating_sub(1).try_into().unwrap_or(i32::MAX));
        Some(Duration::from_secs_f64(doubled * jitter / self.speed))
    }

    /// The longest that a delivery can stay pending: every wait unshortened and every attempt at its limit.
    pub fn longest(&self) -> Duration {
        let waits: Duration = (1..self.attempts)
            .filter_map(|attempt| self.wait_after(attempt, 1.0))
            .sum();
        waits + self.attempt_limit * self.attempts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When each attempt starts, at the earliest, at the latest, and at the latest when each earlier one took its
    /// whole limit. In seconds.
    fn starts(schedule: &Schedule) -> Vec<(f64, f64, f64)> {
        let mut starts = vec![(0.0, 0.0, 0.0)];
        for attempt in 1..schedule.attempts {
            let (min, max, slow) = starts[starts.len() - 1];
            let wait = |jitter| schedule.wait_after(attempt, jitter).unwrap().as_secs_f64();
            starts.push((
                min + wait(0.5),
                max + wait(1.0),
                slow + schedule.attempt_limit.as_secs_f64() + wait(1.0),
            ));
        }
        starts
    }

    #[test]
    fn the_real_schedule_reaches_from_21_to_43_minutes() {
        let expected = [
            (0.0, 0.0, 0.0),
            (2.5, 5.0, 20.0),
            (7.5, 15.0, 45.0),
            (17.5, 35.0, 80.0),
            (37.5, 75.0, 135.0),
            (77.5, 155.0, 230.0),
            (157.5, 315.0, 405.0),
            (317.5, 635.0, 740.0),
            (637.5, 1_275.0, 1_395.0),
            (1_277.5, 2_555.0, 2_690.0),
        ];
        assert_eq!(starts(&Schedule::default()), expected);
        assert_eq!(Schedule::default().longest(), Duration::from_secs(2_705));
    }

    #[test]
    fn nothing_follows_the_last_attempt() {
        assert!(Schedule::default().wait_after(9, 1.0).is_some());
        assert_eq!(Schedule::default().wait_after(10, 1.0), None);
    }

    #[test]
    fn speed_divides_the_waits_and_leaves_the_limit() {
        let fast = Schedule::faster(100.0);
        assert_eq!(fast.wait_after(1, 1.0), Some(Duration::from_millis(50)));
        assert_eq!(fast.wait_after(9, 0.5), Some(Duration::from_millis(6_400)));
        assert_eq!(fast.attempt_limit, Duration::from_secs(15));
    }
}
