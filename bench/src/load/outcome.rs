//! What became of a load.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;

/// An hour, in microseconds. What takes longer counts as an hour.
const LONGEST: u64 = 3_600_000_000;

/// Latencies, in microseconds, exact to three digits.
#[derive(Debug, Clone)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST, 3).expect("an hour in three digits fits"))
    }
}

impl Latencies {
    /// Adds one.
    pub fn add(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(micros.max(1));
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// So many of a hundred took no longer than this, in milliseconds.
    pub fn percentile(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1_000.0
    }
}

/// What became of the deliveries of one load.
#[derive(Debug)]
pub struct Outcome {
    /// Latencies of those that were acknowledged, and count for the window.
    pub latencies: Latencies,
    /// How long the window was.
    pub window: Duration,
    /// How many were sent, before and after the window too.
    pub sent: usize,
    /// The numbers of those that got a 2xx, in the order of their answers.
    pub acknowledged: Vec<usize>,
}

impl Outcome {
    /// How many got no 2xx.
    pub fn refused(&self) -> usize {
        self.sent - self.acknowledged.len()
    }

    /// Acknowledged deliveries a second.
    pub fn rate(&self) -> f64 {
        self.latencies.count() as f64 / self.window.as_secs_f64()
    }
}

/// What makes a delivery count for the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    /// That it was answered within it: gives a rate.
    ByAnswer,
    /// That it was to be sent within it, whenever it was answered: leaves out none that took long.
    ByStart,
}

/// Notes answers as they come in.
#[derive(Debug)]
pub(super) struct Recorder {
    counts: Counts,
    from: Instant,
    until: Instant,
    last: Instant,
    latencies: Latencies,
    acknowledged: Vec<usize>,
}

impl Recorder {
    /// A window between `from` and `until`, of a load of `most` deliveries.
    pub(super) fn new(counts: Counts, from: Instant, until: Instant, most: usize) -> Self {
        Self {
            counts,
            from,
            until,
            last: from,
            latencies: Latencies::default(),
            // Nothing is moved while it is measured.
            acknowledged: Vec::with_capacity(most),
        }
    }

    /// Notes an answer that came at `now` to delivery `number`, which was sent, or was to be sent, at `begun`.
    pub(super) fn note(&mut self, number: usize, begun: Instant, now: Instant, status: u16) {
        let at = match self.counts {
            Counts::ByAnswer => now,
            Counts::ByStart => begun,
        };
        if !(200..300).contains(&status) {
            return;
        }
        self.acknowledged.push(number);
        if self.from <= at && at < self.until {
            self.latencies.add(now - begun);
            self.last = now;
        }
    }

    /// The whole of it, when `sent` were sent. A load that ran out of deliveries has a window that ends with its last answer.
    pub(super) fn finish(self, sent: usize, ran_out: bool) -> Result<Outcome> {
        let end = if ran_out { self.last } else { self.until };
        ensure!(
            self.latencies.count() > 0 && end > self.from,
            "nothing was acknowledged while it was measured: {sent} sent, {} acknowledged",
            self.acknowledged.len()
        );
        Ok(Outcome {
            latencies: self.latencies,
            window: end - self.from,
            sent,
            acknowledged: self.acknowledged,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_is_answered_before_or_after_the_window_does_not_count() {
        let begun = Instant::now();
        let mut recorder = Recorder::new(Counts::ByAnswer, begun + 10 * MS, begun + 20 * MS, 5);
        for (number, at) in [9, 10, 15, 19, 20].into_iter().enumerate() {
            recorder.note(number, begun, begun + at * MS, 204);
        }
        let outcome = recorder.finish(5, false).unwrap();
        assert_eq!(outcome.latencies.count(), 3);
        assert_eq!(outcome.rate(), 300.0);
    }

    #[test]
    fn what_was_to_be_sent_in_the_window_counts_however_late_it_is_answered() {
        let begun = Instant::now();
        let mut recorder = Recorder::new(Counts::ByStart, begun + 10 * MS, begun + 20 * MS, 2);
        recorder.note(0, begun + 9 * MS, begun + 15 * MS, 204);
        recorder.note(1, begun + 19 * MS, begun + 500 * MS, 204);
        let outcome = recorder.finish(2, false).unwrap();
        assert_eq!(outcome.latencies.count(), 1);
        assert!(outcome.latencies.percentile(50.0) > 480.0);
    }

    #[test]
    fn a_window_ends_early_when_the_deliveries_do() {
        let begun = Instant::now();
        let mut recorder = Recorder::new(Counts::ByAnswer, begun, begun + 100 * MS, 2);
        recorder.note(0, begun, begun + 2 * MS, 204);
        recorder.note(1, begun, begun + 4 * MS, 204);
        assert_eq!(recorder.finish(2, true).unwrap().rate(), 500.0);
    }

    #[test]
    fn what_is_refused_is_no_acknowledgment() {
        let begun = Instant::now();
        let mut recorder = Recorder::new(Counts::ByAnswer, begun, begun + 10 * MS, 1);
        recorder.note(0, begun, begun + MS, 503);
        assert!(recorder.finish(1, false).is_err());
    }

    #[test]
    fn it_is_known_which_were_acknowledged_and_how_many_were_not() {
        let begun = Instant::now();
        let mut recorder = Recorder::new(Counts::ByAnswer, begun, begun + 10 * MS, 4);
        for (number, at, status) in [(2, 1, 204), (0, 2, 503), (1, 3, 200), (3, 11, 204)] {
            recorder.note(number, begun, begun + at * MS, status);
        }
        let outcome = recorder.finish(4, false).unwrap();
        assert_eq!(outcome.acknowledged, [2, 1, 3]);
        assert_eq!((outcome.refused(), outcome.latencies.count()), (1, 2));
    }

    #[test]
    fn percentiles_are_in_milliseconds() {
        let mut latencies = Latencies::default();
        for millis in 1..=1_000 {
            latencies.add(millis * MS);
        }
        assert!((latencies.percentile(50.0) - 500.0).abs() < 1.0);
        assert!((latencies.percentile(99.9) - 999.0).abs() < 2.0);
    }
}
