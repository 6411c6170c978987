//! What a load came to, and what it cost.

use std::time::Duration;

use crate::figures::{Case, Metric};
use crate::load::Outcome;
use crate::results::Results;

/// A load that was measured.
#[derive(Debug)]
pub struct Measured {
    /// What became of the deliveries.
    pub outcome: Outcome,
    /// CPU time of each part.
    pub cpu: Vec<(Metric, Duration)>,
    /// The most memory that the receiver held, in MB.
    pub memory: f64,
}

impl Measured {
    /// Adds it to the results of `case`, as one round.
    pub fn record(&self, results: &mut Results, case: Case) {
        let latencies = &self.outcome.latencies;
        results.add(case, Metric::Rate, self.outcome.rate());
        results.add(case, Metric::Median, latencies.percentile(50.0));
        results.add(case, Metric::P99, latencies.percentile(99.0));
        results.add(case, Metric::P999, latencies.percentile(99.9));
        for (metric, time) in &self.cpu {
            let thousands = latencies.count() as f64 / 1_000.0;
            results.add(case, *metric, time.as_secs_f64() / thousands);
        }
        results.add(case, Metric::Memory, self.memory);
        if self.outcome.refused() > 0 {
            results.add(case, Metric::Refused, self.outcome.refused() as f64);
        }
    }
}
