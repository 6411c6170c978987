//! The counting: what the provider holds against what the stream and the tables hold.
//!
//! This is a second opinion, so it shares no rule with the programs it judges: responses are compared as JSON values,
//! and job key and winner are written here once more.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use time::{Duration, OffsetDateTime};

use crate::provider::task::{Status, Task};

/// An event as it stands on the stream.
#[derive(Debug, Clone)]
pub(super) struct Event {
    /// Its sequence.
    pub(super) seq: u64,
    /// The stream's timestamp.
    pub(super) time: OffsetDateTime,
    /// Its subject.
    pub(super) subject: String,
    /// Its body; null where that is not JSON.
    pub(super) body: Value,
}

/// A row of `answers`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) task_id: String,
    pub(super) job_key: String,
    pub(super) idempotency_key: Option<String>,
    pub(super) status: String,
    pub(super) created_at: Option<OffsetDateTime>,
    pub(super) response: Option<Value>,
    /// What brought it: `webhook` or `reconciler`.
    pub(super) via: String,
    pub(super) stream_seq: i64,
    pub(super) received_at: OffsetDateTime,
    /// How often the row was updated after it was inserted.
    pub(super) updates: i64,
}

/// What the audit found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// Tasks that the provider holds.
    pub(super) tasks: usize,
    /// Those whose row is there and equal to what the provider holds.
    pub(super) answered: usize,
    /// The others, each with the reason.
    pub(super) lost: Vec<String>,
    /// Tasks with more than one equal result event, and rows that an equal copy rewrote.
    pub(super) duplicated: Vec<String>,
    /// What is on the stream or in a table and has no business there.
    pub(super) strays: Vec<String>,
    /// Rows of `answers`.
    pub(super) rows: usize,
    /// Those of them that no webhook brought.
    pub(super) recovered: usize,
    /// Rows of `winners`.
    pub(super) winners: usize,
    /// Rows of `parked`.
    pub(super) parked: usize,
}

impl Findings {
    /// Whether everything is as it should be.
    pub(super) fn is_clean(&self) -> bool {
        let faults = self.lost.len() + self.duplicated.len() + self.strays.len() + self.parked;
        faults == 0 && self.answered == self.tasks
    }
}

/// Counts events and rows against the tasks, one at a time and in any order.
pub(super) struct Audit<'t> {
    tasks: BTreeMap<&'t str, Entry<'t>>,
    winners: HashMap<String, String>,
    strays: Vec<String>,
    rows: usize,
    recovered: usize,
    parked: usize,
}

struct Entry<'t> {
    task: &'t Task,
    response: Option<Value>,
    /// Result events that are equal to what the provider holds.
    equal_events: u32,
    /// The first of them.
    first: Option<(u64, OffsetDateTime)>,
    row: Option<Row>,
}

impl<'t> Audit<'t> {
    /// An audit against `tasks`, all of which have ended.
    pub(super) fn new(tasks: &'t [Task]) -> Self {
        let entry = |task: &'t Task| Entry {
            task,
            response: task
                .response
                .as_deref()
                .and_then(|raw| serde_json::from_str(raw.get()).ok()),
            equal_events: 0,
            first: None,
            row: None,
        };
        Self {
            tasks: tasks.iter().map(|task| (task.id.as_str(), entry(task))).collect(),
            winners: HashMap::new(),
            strays: Vec::new(),
            rows: 0,
            recovered: 0,
            parked: 0,
        }
    }

    /// Counts an event of the stream.
    pub(super) fn event(&mut self, event: &Event) {
        let id = event.body["task"]["id"].as_str().unwrap_or_default();
        let Some(entry) = self.tasks.get_mut(id) else {
            self.strays.push(format!(
                "event {} on {} is of no task: `{id}`",
                event.seq, event.subject
            ));
            return;
        };
        let status = event.body["task"]["status"].as_str().unwrap_or_default();
        let is_result = event.subject.contains(".result.");
        if !is_result
            || status != entry.task.status.as_str()
            || event.body.get("response") != entry.response.as_ref()
        {
            self.strays.push(format!(
                "event {} on {} is not the result of task {id}",
                event.seq, event.subject
            ));
            return;
        }
        entry.equal_events += 1;
        if entry.first.is_none_or(|(seq, _)| event.seq < seq) {
            entry.first = Some((event.seq, event.time));
        }
    }

    /// Counts a row of `answers`.
    pub(super) fn row(&mut self, row: Row) {
        self.rows += 1;
        self.recovered += usize::from(row.via == "reconciler");
        match self.tasks.get_mut(row.task_id.as_str()) {
            Some(entry) => entry.row = Some(row),
            None => self.strays.push(format!("a row of no task: `{}`", row.task_id)),
        }
    }

    /// Counts a row of `winners`.
    pub(super) fn winner(&mut self, job_key: String, task_id: String) {
        self.winners.insert(job_key, task_id);
    }

    /// Counts the rows of `parked`.
    pub(super) fn parked(&mut self, rows: usize) {
        self.parked += rows;
    }

    /// The sum.
    pub(super) fn finish(mut self) -> Findings {
        self.judge_winners();
        let mut findings = Findings {
            tasks: self.tasks.len(),
            strays: self.strays,
            rows: self.rows,
            recovered: self.recovered,
            winners: self.winners.len(),
            parked: self.parked,
            ..Findings::default()
        };
        for (id, entry) in &self.tasks {
            match entry.fault() {
                None => findings.answered += 1,
                Some(fault) => findings.lost.push(format!("{id}: {fault}")),
            }
            if entry.equal_events > 1 {
                findings
                    .duplicated
                    .push(format!("{id}: {} equal events", entry.equal_events));
            }
            if entry.was_rewritten() {
                findings.duplicated.push(format!("{id}: a copy rewrote its row"));
            }
        }
        findings
    }

    /// Holds `winners` against the rule, told anew: COMPLETED over FAILED, then the latest, then the greatest id.
    fn judge_winners(&mut self) {
        let mut best: HashMap<String, &Task> = HashMap::new();
        for entry in self.tasks.values() {
            let rank = |task: &Task| (task.status == Status::Completed, task.created_at, task.id.clone());
            let holder = best.entry(job_key(entry.task)).or_insert(entry.task);
            if rank(entry.task) > rank(holder) {
                *holder = entry.task;
            }
        }
        for (job, task) in &best {
            match self.winners.get(job) {
                Some(winner) if *winner == task.id => {}
                Some(other) => self
                    .strays
                    .push(format!("job `{job}` is won by {other}, not by {}", task.id)),
                None => self
                    .strays
                    .push(format!("job `{job}` has no winner; it should be {}", task.id)),
            }
        }
        let unknown = self.winners.keys().filter(|job| !best.contains_key(*job));
        self.strays
            .extend(unknown.map(|job| format!("a winner of no job: `{job}`")));
    }
}

impl Entry<'_> {
    /// In what the row differs from what the provider holds.
    fn fault(&self) -> Option<String> {
        let Some(row) = &self.row else {
            return Some("no row".to_owned());
        };
        let wrong = [
            ("status", row.status != self.task.status.as_str()),
            ("created_at", row.created_at != Some(self.task.created_at)),
            (
                "idempotency_key",
                row.idempotency_key != self.task.request.idempotency_key,
            ),
            ("job_key", row.job_key != job_key(self.task)),
            ("response", row.response != self.response),
        ];
        let wrong: Vec<&str> = wrong
            .iter()
            .filter(|(_, differs)| *differs)
            .map(|(column, _)| *column)
            .collect();
        (!wrong.is_empty()).then(|| format!("its row differs in {}", wrong.join(", ")))
    }

    /// Whether the row tells of another event than the first of its copies, or was updated although there is nothing
    /// but copies.
    fn was_rewritten(&self) -> bool {
        let (Some(row), Some((seq, time))) = (&self.row, self.first) else {
            return false;
        };
        // The database keeps microseconds.
        let same_time = (row.received_at - time).abs() < Duration::microseconds(1);
        row.updates > 0 || u64::try_from(row.stream_seq) != Ok(seq) || !same_time
    }
}

/// The job of a task: its key without one rerun suffix, its id where it has no key.
fn job_key(task: &Task) -> String {
    let Some(key) = &task.request.idempotency_key else {
        return task.id.clone();
    };
    let rerun = |number: &str| {
        !number.is_empty() && !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    match key.rsplit_once("-r") {
        Some((job, number)) if !job.is_empty() && rerun(number) => job.to_owned(),
        _ => key.clone(),
    }
}

#[cfg(test)]
mod tests;
