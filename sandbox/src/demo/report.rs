//! The table at the end, and the line after it.

use std::fmt;

use time::OffsetDateTime;

use super::audit::Findings;
use crate::faults::FaultPlan;
use crate::provider::Provider;
use crate::provider::delivery::{State, Subject};
use crate::sender::{Kind, Tally};

/// How many entries of each list of faults are printed at most.
const SHOWN: usize = 10;

/// Everything that the demo found.
pub(super) struct Report {
    pub(super) findings: Findings,
    pub(super) tally: Tally,
    pub(super) deliveries: Deliveries,
}

/// What the provider's delivery log says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Deliveries {
    /// Results delivered.
    delivered: usize,
    /// Test deliveries accepted.
    tests: usize,
    /// Deliveries that are dead because every attempt was lost, as planned.
    lost: usize,
    /// Other deliveries that are dead, or still pending.
    undelivered: usize,
    /// Deliveries accepted a second, over the first nine tenths of them.
    rate: f64,
}

impl Deliveries {
    /// Reads the log of an account whose deliveries met the faults of `plan`.
    pub(super) fn of(provider: &Provider, plan: &FaultPlan) -> Self {
        let mut found = Self {
            delivered: 0,
            tests: 0,
            lost: 0,
            undelivered: 0,
            rate: 0.0,
        };
        let mut times: Vec<OffsetDateTime> = Vec::new();
        for delivery in provider.deliveries() {
            match (delivery.state, delivery.subject) {
                (State::Delivered(at), Subject::Task(_)) => {
                    found.delivered += 1;
                    times.push(at);
                }
                (State::Delivered(_), Subject::Test) => found.tests += 1,
                (State::Dead, Subject::Task(_)) if plan.of(delivery.number).undelivered => found.lost += 1,
                // A test that never arrives is nobody's loss.
                (State::Dead, Subject::Test) if plan.of(delivery.number).undelivered => {}
                (State::Pending(_) | State::Sending | State::Dead, _) => found.undelivered += 1,
            }
        }
        times.sort();
        let begun = provider
            .deliveries()
            .iter()
            .filter_map(|delivery| Some(delivery.attempts.first()?.begun))
            .min();
        let count = times.len() * 9 / 10;
        if let (Some(begun), Some(end)) = (begun, count.checked_sub(1).and_then(|last| times.get(last))) {
            found.rate = count as f64 / (*end - begun).as_seconds_f64().max(0.001);
        }
        found
    }
}

impl Report {
    /// Whether the promise held, and nothing else was odd.
    pub(super) fn is_good(&self) -> bool {
        self.findings.is_clean() && self.faults().is_empty()
    }

    /// The last line.
    pub(super) fn last_line(&self) -> String {
        let Findings {
            tasks,
            answered,
            lost,
            duplicated,
            ..
        } = &self.findings;
        let (lost, duplicated) = (lost.len(), duplicated.len());
        format!("demo: {tasks} tasks, {answered} answered, {lost} lost, {duplicated} duplicated")
    }

    /// What went wrong on the way, apart from what the audit found.
    fn faults(&self) -> Vec<String> {
        let faults = [
            (
                self.deliveries.undelivered as u64,
                "deliveries were never accepted",
            ),
            (
                self.deliveries.lost.abs_diff(self.findings.recovered) as u64,
                "is the difference between webhooks lost for good and results recovered",
            ),
            (
                self.tally.wrongly_accepted(),
                "requests were accepted that had to be refused",
            ),
            (
                self.tally.wrongly_refused(),
                "requests were refused that were right",
            ),
        ];
        faults
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            findings,
            tally,
            deliveries,
        } = self;
        let (fresh, stale) = (tally.of(Kind::FreshReplay), tally.of(Kind::StaleReplay));
        let (forged, corrupted) = (tally.of(Kind::Forged), tally.of(Kind::Corrupted));
        let mut line =
            |name: &str, count: u64, words: &str| writeln!(f, "  {name:<20}{:>9}   {words}", grouped(count));
        line(
            "delivered",
            deliveries.delivered as u64,
            "results acknowledged by ingress",
        )?;
        line(
            "retried",
            tally.retried,
            "attempts after a first that was lost, cut off, refused or not heard of",
        )?;
        line(
            "recovered",
            findings.recovered as u64,
            "results whose every webhook was lost, fetched by the reconciler",
        )?;
        line(
            "duplicates refused",
            tally.duplicates(),
            "copies acknowledged without effect",
        )?;
        let replays = format!(
            "{} fresh ones without effect, {} stale ones refused",
            fresh.accepted(),
            stale.refused()
        );
        line("replays", fresh.sent + stale.sent, &replays)?;
        let forgeries = format!(
            "{} by strangers, {} changed on the way",
            forged.refused(),
            corrupted.refused()
        );
        line(
            "forged refused",
            forged.refused() + corrupted.refused(),
            &forgeries,
        )?;
        line(
            "test deliveries",
            deliveries.tests as u64,
            "acknowledged, not stored",
        )?;
        line("rows", findings.rows as u64, "in answers: one a task")?;
        line("winners", findings.winners as u64, "in winners: one a job")?;
        line("parked", findings.parked as u64, "")?;
        line(
            "deliveries a second",
            deliveries.rate.round() as u64,
            "until nine tenths were delivered, faults included",
        )?;
        for fault in self.faults() {
            writeln!(f, "  FAULT: {fault}")?;
        }
        for (what, list) in [
            ("LOST", &findings.lost),
            ("DUPLICATED", &findings.duplicated),
            ("STRAY", &findings.strays),
        ] {
            for fault in list.iter().take(SHOWN) {
                writeln!(f, "  {what}: {fault}")?;
            }
            if list.len() > SHOWN {
                writeln!(f, "  {what}: and {} more", list.len() - SHOWN)?;
            }
        }
        Ok(())
    }
}

/// A number with commas between the thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(findings: Findings) -> Report {
        let deliveries = Deliveries {
            delivered: 2,
            tests: 1,
            lost: 0,
            undelivered: 0,
            rate: 1_234.5,
        };
        Report {
            findings,
            tally: Tally::default(),
            deliveries,
        }
    }

    fn clean() -> Findings {
        Findings {
            tasks: 2,
            answered: 2,
            rows: 2,
            winners: 2,
            ..Findings::default()
        }
    }

    #[test]
    fn the_last_line_gives_the_four_counts() {
        assert_eq!(
            report(clean()).last_line(),
            "demo: 2 tasks, 2 answered, 0 lost, 0 duplicated"
        );
        let findings = Findings {
            answered: 1,
            lost: vec!["a: no row".to_owned()],
            duplicated: vec![
                "b: 2 equal events".to_owned(),
                "b: a copy rewrote its row".to_owned(),
            ],
            ..clean()
        };
        assert_eq!(
            report(findings).last_line(),
            "demo: 2 tasks, 1 answered, 1 lost, 2 duplicated"
        );
    }

    #[test]
    fn anything_odd_is_shown_and_is_not_good() {
        assert!(report(clean()).is_good());
        let stray = report(Findings {
            strays: vec!["a row of no task: `x`".to_owned()],
            ..clean()
        });
        assert!(!stray.is_good() && stray.to_string().contains("STRAY: a row of no task"));
        assert!(!report(Findings { parked: 1, ..clean() }).is_good());
        assert!(
            !report(Findings {
                answered: 1,
                ..clean()
            })
            .is_good()
        );
        let mut undelivered = report(clean());
        undelivered.deliveries.undelivered = 3;
        assert!(
            !undelivered.is_good()
                && undelivered
                    .to_string()
                    .contains("FAULT: 3 deliveries were never accepted")
        );
    }

    #[test]
    fn what_was_lost_for_good_must_be_recovered_and_nothing_else() {
        for (lost, recovered, good) in [(3, 3, true), (3, 2, false), (0, 1, false)] {
            let mut report = report(Findings { recovered, ..clean() });
            report.deliveries.lost = lost;
            assert_eq!(report.is_good(), good, "{lost} lost, {recovered} recovered");
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let lost = (0..25).map(|number| format!("{number}: no row")).collect();
        let text = report(Findings { lost, ..clean() }).to_string();
        assert_eq!(text.matches("no row").count(), SHOWN);
        assert!(text.contains("LOST: and 15 more"));
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}
