//! The numbers as they come in.

use crate::figures::{Case, Metric, Section};
use crate::statistics::Spread;

/// The numbers of one metric of one case, one a round.
#[derive(Debug, Clone)]
pub struct Series {
    /// Of what.
    pub case: Case,
    /// Which number.
    pub metric: Metric,
    /// One a round, in their order.
    pub values: Vec<f64>,
}

/// All that was measured, in the order in which it was measured first.
#[derive(Debug, Clone, Default)]
pub struct Results(Vec<Series>);

impl Results {
    /// Adds the number of one more round.
    pub fn add(&mut self, case: Case, metric: Metric, value: f64) {
        let known = self
            .0
            .iter_mut()
            .find(|series| series.case == case && series.metric == metric);
        match known {
            Some(series) => series.values.push(value),
            None => self.0.push(Series {
                case,
                metric,
                values: vec![value],
            }),
        }
    }

    /// The numbers of one metric of one case; none when it was not measured.
    pub fn values(&self, case: Case, metric: Metric) -> &[f64] {
        self.0
            .iter()
            .find(|series| series.case == case && series.metric == metric)
            .map_or(&[], |series| &series.values)
    }

    /// What they come to.
    pub fn spread(&self, case: Case, metric: Metric) -> Option<Spread> {
        Spread::of(self.values(case, metric))
    }

    /// All of them.
    pub fn all(&self) -> &[Series] {
        &self.0
    }

    /// The cases of a section, and the metrics that at least one of them has.
    pub fn of(&self, section: Section) -> (Vec<Case>, Vec<Metric>) {
        let (mut cases, mut metrics) = (Vec::new(), Vec::new());
        for series in self.0.iter().filter(|series| series.case.section == section) {
            if !cases.contains(&series.case) {
                cases.push(series.case);
            }
            if !metrics.contains(&series.metric) {
                metrics.push(series.metric);
            }
        }
        metrics.sort();
        (cases, metrics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Setting, Subject};

    #[test]
    fn numbers_of_the_same_case_and_metric_come_together() {
        let case = |count| Case::new(Section::Ingress, Subject::RustInbox, Setting::Connections(count));
        let mut results = Results::default();
        results.add(case(64), Metric::Rate, 1.0);
        results.add(case(16), Metric::Rate, 7.0);
        results.add(case(64), Metric::Rate, 3.0);
        results.add(case(64), Metric::P99, 9.0);
        assert_eq!(results.values(case(64), Metric::Rate), [1.0, 3.0]);
        assert_eq!(results.values(case(1), Metric::Rate), [0.0; 0]);
        let (cases, metrics) = results.of(Section::Ingress);
        assert_eq!(cases, [case(64), case(16)]);
        assert_eq!(metrics, [Metric::Rate, Metric::P99]);
    }
}
