//! What a walk did, for people: as it happens, when it fails, and at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::operation::{Breakage, Operation};
use crate::oracle::Verdict;
use crate::world::Setup;

/// What happened in one chapter.
#[derive(Debug, Default)]
pub struct Story(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    begun: Option<Instant>,
    lines: Vec<String>,
    operations: BTreeMap<String, u64>,
    kills: BTreeMap<&'static str, u64>,
    verdict: Verdict,
}

/// Tells the story when its walk ends in a panic.
pub(super) struct Telling(pub(super) Arc<Story>);

impl Drop for Telling {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprint!("what was done, with seconds from the start:\n{}", self.0);
        }
    }
}

impl Story {
    pub(super) fn begins(&self, setup: &Setup, mode: &str) {
        let Setup {
            ingresses,
            projectors,
            reconcilers,
            ..
        } = setup;
        let mut told = self.lock();
        told.begun = Some(Instant::now());
        told.say(format!(
            "{ingresses} ingress ({mode}), {projectors} projector, {reconcilers} reconciler"
        ));
    }

    pub(super) fn does(&self, operation: Operation) {
        let mut told = self.lock();
        told.say(operation.to_string());
        *told.operations.entry(operation.kind()).or_default() += 1;
    }

    pub(super) fn killed(&self, victim: &'static str) {
        *self.lock().kills.entry(victim).or_default() += 1;
    }

    pub(super) fn mends(&self, breakage: Breakage) {
        self.lock().say(format!("mend at the end: {breakage}"));
    }

    pub(super) fn waits(&self) {
        self.lock().say("wait until all is quiet".to_owned());
    }

    pub(super) fn judged(&self, verdict: &Verdict) {
        let mut told = self.lock();
        let summary = verdict.to_string();
        let summary = summary.lines().next().unwrap_or_default();
        told.say(format!("judge: {summary}"));
        told.verdict = verdict.clone();
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        // What a panic left behind is whole: a line is pushed or not.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn say(&mut self, line: String) {
        let since = self.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        self.lines.push(format!("{since:8.2} {line}"));
    }
}

/// Every operation so far, a line each, with seconds from the start.
impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock()
            .lines
            .iter()
            .try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// What many chapters did.
#[derive(Debug, Default)]
pub struct Totals {
    chapters: u64,
    failed: u64,
    operations: BTreeMap<String, u64>,
    kills: BTreeMap<&'static str, u64>,
    verdict: Verdict,
}

impl Totals {
    /// Adds a chapter.
    pub fn add(&mut self, story: &Story, ended_well: bool) {
        let told = story.lock();
        self.chapters += 1;
        self.failed += u64::from(!ended_well);
        for (kind, count) in &told.operations {
            *self.operations.entry(kind.clone()).or_default() += count;
        }
        for (who, count) in &told.kills {
            *self.kills.entry(who).or_default() += count;
        }
        self.verdict.add(&told.verdict);
    }

    /// Whether anything was wrong.
    pub fn failed(&self) -> bool {
        self.failed > 0
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |what: &str, count: u64| writeln!(f, "{what:<34}{count:>8}");
        row("worlds", self.chapters)?;
        row("operations", self.operations.values().sum())?;
        for (kind, count) in &self.operations {
            row(&format!("  {kind}"), *count)?;
        }
        row("kills (SIGKILL)", self.kills.values().sum())?;
        for (who, count) in &self.kills {
            row(&format!("  {who}"), *count)?;
        }
        let verdict = &self.verdict;
        for (what, count) in [
            ("deliveries", verdict.sent),
            ("deliveries acknowledged", verdict.acknowledged),
            ("events", verdict.events),
            ("rows", verdict.answers),
            ("recovered", verdict.recovered),
            ("parked", verdict.parked),
            ("lost", verdict.lost),
            ("duplicated", verdict.duplicated),
        ] {
            row(what, count as u64)?;
        }
        row("worlds in which anything was wrong", self.failed)
    }
}
