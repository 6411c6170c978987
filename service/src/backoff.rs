//! Pauses that grow.

use std::time::Duration;

/// Pauses between attempts: doubling from the first to the longest, each shortened by up to half at random, so that many
/// processes that failed together do not come back together.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// Starts at `first`; no pause is longer than `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            failures: 0,
        }
    }

    /// How often it failed in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Notes a failure and gives the pause after it. `random` is from 0 to 1.
    pub fn pause(&mut self, random: f64) -> Duration {
        let full = self
            .first
            .saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX))
            .min(self.longest);
        self.failures = self.failures.saturating_add(1).min(31);
        full.mul_f64(1.0 - random.clamp(0.0, 1.0) / 2.0)
    }

    /// Notes a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_start_again_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
        let pauses: Vec<_> = (0..40).map(|_| backoff.pause(0.0).as_millis()).collect();
        assert_eq!(pauses[..6], [100, 200, 400, 800, 1600, 2000]);
        assert!(pauses[6..].iter().all(|&pause| pause == 2000));
        assert_eq!(backoff.pause(1.0), Duration::from_secs(1));
        backoff.reset();
        assert_eq!(backoff.pause(0.5), Duration::from_millis(75));
    }
}
