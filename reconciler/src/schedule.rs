//! When a submission is asked for again.

use std::time::Duration;

/// The times between the checks of one submission: doubling from the first to the longest.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// From the first check to the second.
    pub first: Duration,
    /// No time is longer.
    pub longest: Duration,
}

impl Schedule {
    /// The time after check number `checks`, the first being 1. Shortened by up to a quarter, so that what was submitted
    /// together is not asked for together for ever. `random` is from 0 to 1.
    pub fn after(&self, checks: u32, random: f64) -> Duration {
        let doublings = checks.saturating_sub(1);
        self.first
            .saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX))
            .min(self.longest)
            .mul_f64(1.0 - random.clamp(0.0, 1.0) / 4.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const SCHEDULE: Schedule = Schedule {
        first: MINUTE,
        longest: Duration::from_secs(30 * 60),
    };

    #[test]
    fn times_double_up_to_the_longest() {
        let minutes: Vec<_> = (0..9)
            .map(|checks| SCHEDULE.after(checks, 0.0).as_secs() / 60)
            .collect();
        assert_eq!(minutes, [1, 1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(SCHEDULE.after(u32::MAX, 0.0), SCHEDULE.longest);
    }

    #[test]
    fn times_are_spread_and_never_longer_than_said() {
        assert_eq!(SCHEDULE.after(1, 1.0), MINUTE.mul_f64(0.75));
        assert_eq!(SCHEDULE.after(1, 0.5), MINUTE.mul_f64(0.875));
        assert_eq!(SCHEDULE.after(1, -3.0), MINUTE);
    }
}
