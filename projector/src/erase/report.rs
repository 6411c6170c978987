//! What was erased, or would be.

use serde::Serialize;

use schemas::delivery::TaskId;

use super::look::{Seen, Target};
use crate::print::{Table, count, moment, plain, size};
use crate::removals::Traces;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// There is nothing of the task.
    Unknown,
    /// A dry run: nothing was touched.
    Planned,
    /// A projector, a verify or a rebuild may have an event in hand: nothing was touched.
    Waiting,
    /// Everything is gone.
    Erased,
    /// What there was is gone, and a projector may have got an event in hand meanwhile, or more of the task came all the time.
    Unsettled,
}

/// What was erased, or would be.
#[derive(Debug, Serialize)]
pub(super) struct Report<'s> {
    task_id: &'s str,
    outcome: Outcome,
    /// Events on the stream.
    events: &'s [Target],
    /// Events that no task can be read from and whose body holds the id; they stay.
    mentions: &'s [u64],
    /// Rows of `answers`.
    answers: u64,
    /// The jobs that it was the winner of, and that another task answers now, or nothing.
    jobs: Vec<String>,
    /// Rows of `parked`.
    parked: u64,
    /// Rows of `submitted_tasks`.
    submissions: u64,
}

impl<'s> Report<'s> {
    pub(super) fn new(task: &'s TaskId, outcome: Outcome, seen: &'s Seen, found: Traces) -> Self {
        Self {
            task_id: task.as_str(),
            outcome,
            events: &seen.events,
            mentions: &seen.mentions,
            answers: found.answers,
            jobs: found.wins,
            parked: found.parked,
            submissions: found.submissions,
        }
    }

    pub(super) fn text(&self, json: bool) -> String {
        if json {
            serde_json::to_string_pretty(self).expect("a report is plain data") + "\n"
        } else {
            self.for_people()
        }
    }

    fn for_people(&self) -> String {
        let task = plain(self.task_id);
        let mut text = match self.outcome {
            Outcome::Unknown => format!("nothing is known of task {task}\n"),
            Outcome::Planned => format!("task {task}: this would be erased\n"),
            Outcome::Waiting => format!(
                "task {task}: nothing was erased, since a projector, or a verify, rebuild or other erasure that runs, may have an \
                 event of it in hand. Let it come to its end and the projectors catch up, or stop the projectors and say \
                 --projectors-stopped\n"
            ),
            Outcome::Erased | Outcome::Unsettled => format!("task {task} is erased\n"),
        };
        if !self.events.is_empty() {
            text.push_str("\nevents on the stream\n");
            let mut table = Table::new(&["SEQ", "TIME", "SIZE", "SUBJECT", "MESSAGE ID"]);
            for event in self.events {
                table.row([
                    event.seq.to_string(),
                    moment(event.time),
                    size(event.bytes),
                    event.subject.clone(),
                    event.msg_id.clone().unwrap_or_else(|| "-".to_owned()),
                ]);
            }
            text.push_str(&table.to_string());
        }
        if self.outcome != Outcome::Unknown {
            text.push_str("\nrows\n");
            for (number, table) in [
                (self.answers, "answers"),
                (self.jobs.len() as u64, "winners"),
                (self.parked, "parked"),
                (self.submissions, "submitted_tasks"),
            ] {
                text.push_str(&format!("  {table:<16} {}\n", count(number)));
            }
        }
        for job in &self.jobs {
            text.push_str(&format!("  it was the winner of job {}\n", plain(job)));
        }
        if !self.mentions.is_empty() {
            let seqs: Vec<String> = self.mentions.iter().map(ToString::to_string).collect();
            text.push_str(&format!(
                "\nno task can be read from these events, and the id is in their bodies; they stay without --mentions: {}\n",
                seqs.join(", ")
            ));
        }
        match self.outcome {
            Outcome::Unsettled => text.push_str(
                "\nMore of it came all the time, or a projector may have fetched one of the events meanwhile and bring the row back: run this \
                 again in a while.\n",
            ),
            Outcome::Erased => {
                text.push_str("\nA delivery of this task that comes after this is stored like any other.\n");
            }
            Outcome::Unknown | Outcome::Planned | Outcome::Waiting => {}
        }
        text
    }
}
