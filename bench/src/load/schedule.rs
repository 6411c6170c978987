//! When each delivery is to be sent.

use std::time::{Duration, Instant};

const NANOS: u64 = 1_000_000_000;

/// Deliveries at even intervals, whatever becomes of them.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    began: Instant,
    per_second: u32,
}

impl Schedule {
    /// `per_second` a second, the first at `began`.
    pub fn new(began: Instant, per_second: u32) -> Self {
        Self { began, per_second }
    }

    /// When number `number` is to be sent; the first is 0.
    pub fn at(&self, number: usize) -> Instant {
        let (number, rate) = (number as u64, u64::from(self.per_second));
        // Whole seconds apart: the product of the rest stays small.
        let rest = number % rate * NANOS / rate;
        self.began + Duration::from_secs(number / rate) + Duration::from_nanos(rest)
    }

    /// How many should have been sent by `now`.
    pub fn due(&self, now: Instant) -> usize {
        match now.checked_duration_since(self.began) {
            None => 0,
            Some(elapsed) => (elapsed.as_secs_f64() * f64::from(self.per_second)) as usize + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_spread_evenly() {
        let began = Instant::now();
        let schedule = Schedule::new(began, 400);
        assert_eq!(schedule.at(0), began);
        assert_eq!(schedule.at(1) - began, Duration::from_micros(2_500));
        assert_eq!(schedule.at(401) - schedule.at(400), Duration::from_micros(2_500));
        assert_eq!(
            schedule.at(4_000_000_000) - began,
            Duration::from_secs(10_000_000)
        );
    }

    #[test]
    fn a_rate_that_does_not_divide_a_second_does_not_drift() {
        let began = Instant::now();
        let schedule = Schedule::new(began, 3);
        assert_eq!(schedule.at(1) - began, Duration::from_nanos(333_333_333));
        assert_eq!(schedule.at(3_000) - began, Duration::from_secs(1_000));
    }

    #[test]
    fn what_is_due_has_its_time_behind_it() {
        let began = Instant::now();
        let schedule = Schedule::new(began, 1_000);
        assert_eq!(schedule.due(began - Duration::from_secs(1)), 0);
        assert_eq!(schedule.due(began), 1);
        for number in [0, 1, 2, 999, 12_345] {
            let half = Duration::from_micros(500);
            assert_eq!(schedule.due(schedule.at(number) + half), number + 1);
        }
    }
}
