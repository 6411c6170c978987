//! What must hold, and whether it did: the one list of bars.

use crate::config::Effort;
use crate::demand::{Demand, Verdict};
use crate::figures::{Case, Metric, Section, Setting, Subject};
use crate::results::Results;
use crate::statistics::{Spread, ratios};

/// A figure that has to be so high, or so low.
#[derive(Debug, Clone)]
pub struct Bar {
    /// What is judged, for people.
    pub title: String,
    /// The case that is judged.
    pub of: Case,
    /// What it is compared with, in the same rounds: the best of these. Nothing: the figure itself is judged.
    pub against: Vec<Case>,
    /// Which number.
    pub metric: Metric,
    /// What is asked of it.
    pub demand: Demand,
}

/// A bar beside what was measured.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The bar.
    pub bar: Bar,
    /// Ratios, or figures, one a round.
    pub values: Vec<f64>,
    /// What they come to.
    pub spread: Spread,
    /// Whether it held, by the median.
    pub verdict: Verdict,
}

impl Bar {
    /// Compares it with what was measured; `None` when that was not.
    pub fn judge(&self, results: &Results) -> Option<Judged> {
        let own = results.values(self.of, self.metric);
        let values = if self.against.is_empty() {
            own.to_vec()
        } else {
            ratios(own, results.values(self.best(results)?, self.metric))
        };
        let spread = Spread::of(&values)?;
        Some(Judged {
            bar: self.clone(),
            verdict: self.demand.judge(spread.median),
            values,
            spread,
        })
    }

    /// The one of the others whose median is the greatest. All of them must be there.
    fn best(&self, results: &Results) -> Option<Case> {
        let mut medians = Vec::new();
        for &case in &self.against {
            medians.push((results.spread(case, self.metric)?.median, case));
        }
        medians
            .into_iter()
            .max_by(|(one, _), (other, _)| one.total_cmp(other))
            .map(|(_, case)| case)
    }
}

/// Connections at which ingress and its peers are measured.
pub const CONNECTIONS: [usize; 4] = [1, 16, 64, 256];
/// Connections that do nothing.
pub const IDLE: usize = 1_000;
/// The rate at which the way to the row is judged.
pub const PER_SECOND: u32 = 1_000;

/// All bars, in the order in which they are shown.
pub fn all(effort: &Effort) -> Vec<Bar> {
    use Demand::{AtLeast, Below, Report};
    use Subject::{
        FlaskReceiver, IngressCache, IngressSync, IngressSyncBatch, IngressSyncPlain, Pipeline, Projector,
        PsycopgWorker, RustInbox, Unnest, Verify,
    };

    let ingress =
        |subject, connections| Case::new(Section::Ingress, subject, Setting::Connections(connections));
    let mut bars = vec![
        ratio(
            ingress(IngressSync, 64),
            [ingress(FlaskReceiver, 64)],
            AtLeast(10.0, 15.0),
        ),
        ratio(
            ingress(IngressSync, 256),
            [ingress(FlaskReceiver, 256)],
            AtLeast(14.0, 22.0),
        ),
        ratio(
            ingress(IngressCache, 64),
            [ingress(FlaskReceiver, 64)],
            AtLeast(22.0, 30.0),
        ),
        ratio(
            ingress(IngressSync, 256),
            [ingress(IngressCache, 256)],
            AtLeast(0.55, 0.85),
        ),
    ];
    bars.extend(CONNECTIONS.map(|connections| {
        let of = ingress(IngressSync, connections);
        let ways = [IngressSyncPlain, IngressSyncBatch].map(|way| ingress(way, connections));
        Bar {
            title: format!("{of} / the better of its two ways alone"),
            ..ratio(of, ways, AtLeast(0.95, 1.0))
        }
    }));
    bars.extend([
        ratio(
            ingress(IngressSync, 64),
            [ingress(RustInbox, 64)],
            AtLeast(1.0, 1.25),
        ),
        ratio(
            ingress(IngressSync, 256),
            [ingress(RustInbox, 256)],
            AtLeast(1.5, 2.0),
        ),
    ]);

    let replicas = |subject| Case::new(Section::Replicas, subject, Setting::Connections(64));
    let copies = |percent| Case::new(Section::Repeats, IngressSync, Setting::Copies(percent));
    let rows = |subject, rows| Case::new(Section::Projector, subject, Setting::Rows(rows));
    let projector = rows(Projector, effort.rows);
    bars.extend([
        Bar {
            title: "ingress, page cache, three replicas, 64 connections / Rust inbox".to_owned(),
            ..ratio(replicas(IngressCache), [replicas(RustInbox)], Report(2.0))
        },
        ratio(copies(10), [copies(0)], AtLeast(0.6, 0.9)),
        ratio(
            projector,
            [rows(PsycopgWorker, effort.rows_of_python)],
            AtLeast(7.0, 10.0),
        ),
        ratio(projector, [rows(Unnest, effort.rows)], AtLeast(0.7, 0.9)),
    ]);
    let growth = |subject, stored| Case::new(Section::Growth, subject, Setting::Stored(stored));
    if let Some((few, more)) = effort.stored.split_first() {
        for many in more {
            bars.extend([IngressSync, Projector, Verify].map(|subject| {
                ratio(
                    growth(subject, *many),
                    [growth(subject, *few)],
                    AtLeast(0.85, 0.95),
                )
            }));
        }
    }

    let visible = Case::new(Section::Visible, Pipeline, Setting::PerSecond(PER_SECOND));
    let memory = Case::new(Section::Memory, IngressSync, Setting::Idle(IDLE));
    bars.extend([
        itself(visible, Metric::P99, "row visible, p99, ms", Below(100.0, 30.0)),
        itself(memory, Metric::Memory, "peak memory, MB", Below(64.0, 40.0)),
    ]);
    bars
}

fn ratio(of: Case, against: impl Into<Vec<Case>>, demand: Demand) -> Bar {
    let against = against.into();
    let other = against.first().map(|other| {
        if other.subject == of.subject {
            other.setting.to_string()
        } else {
            other.subject.name().to_owned()
        }
    });
    Bar {
        title: format!("{of} / {}", other.unwrap_or_default()),
        of,
        against,
        metric: Metric::Rate,
        demand,
    }
}

fn itself(of: Case, metric: Metric, what: &str, demand: Demand) -> Bar {
    Bar {
        title: format!("{of}: {what}"),
        of,
        against: Vec::new(),
        metric,
        demand,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const SYNC: Case = Case::new(Section::Ingress, Subject::IngressSync, Setting::Connections(64));
    const PLAIN: Case = Case::new(
        Section::Ingress,
        Subject::IngressSyncPlain,
        Setting::Connections(64),
    );
    const BATCH: Case = Case::new(
        Section::Ingress,
        Subject::IngressSyncBatch,
        Setting::Connections(64),
    );

    fn results(of: &[(Case, &[f64])]) -> Results {
        let mut results = Results::default();
        for (case, values) in of {
            for value in *values {
                results.add(*case, Metric::Rate, *value);
            }
        }
        results
    }

    #[test]
    fn a_ratio_is_taken_with_the_better_of_the_others() {
        let bar = ratio(SYNC, [PLAIN, BATCH], Demand::AtLeast(0.95, 1.0));
        let judged = bar.judge(&results(&[
            (SYNC, &[96.0, 99.0, 90.0]),
            (PLAIN, &[30.0, 200.0, 30.0]),
            (BATCH, &[100.0, 100.0, 100.0]),
        ]));
        let judged = judged.unwrap();
        assert_eq!(judged.values, [0.96, 0.99, 0.9]);
        assert_eq!(judged.verdict, Verdict::Held);
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        let bar = ratio(SYNC, [PLAIN, BATCH], Demand::AtLeast(0.95, 1.0));
        let half = results(&[(SYNC, &[1.0]), (PLAIN, &[1.0])]);
        assert!(bar.judge(&half).is_none());
    }

    #[test]
    fn no_two_bars_have_the_same_title() {
        let bars = all(&Effort::thorough());
        let titles: HashSet<_> = bars.iter().map(|bar| &bar.title).collect();
        assert_eq!(titles.len(), bars.len());
    }
}
