//! The tables as a pure function of the set of events: the oracle that tests compare the SQL with.
//!
//! Plain rather than fast. Nothing runs on it in production.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use time::OffsetDateTime;

use crate::delivery::{self, FinalStatus, Problem, Problems, TaskId, TaskResult};
use crate::digest::ResponseDigest;
use crate::event::Via;
use crate::job_key::{Rules, job_key};
use crate::timestamp;
use crate::winner::{JobRank, Provenance, TaskRank};

/// A row of `answers`, but for `response` itself. It is also what one event alone would make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Column `task_id`.
    pub task_id: TaskId,
    /// Column `job_key`.
    pub job_key: String,
    /// Column `idempotency_key`.
    pub idempotency_key: Option<String>,
    /// Column `status`.
    pub status: FinalStatus,
    /// Column `created_at`.
    pub created_at: Option<OffsetDateTime>,
    /// Column `response_digest`.
    pub digest: ResponseDigest,
    /// Column `problem`, as far as it can be known without a database.
    pub problems: Vec<Problem>,
    /// Column `via`.
    pub via: Via,
    /// Columns `received_at` and `stream_seq`.
    pub provenance: Provenance,
}

/// A row of `winners`, by its job key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Winner {
    /// Columns `status`, `created_at` and `task_id`.
    pub rank: JobRank,
    /// Column `stream_seq`.
    pub stream_seq: u64,
}

/// The tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tables {
    /// `answers`, by task id.
    pub answers: BTreeMap<TaskId, Answer>,
    /// `winners`, by job key.
    pub winners: BTreeMap<String, Winner>,
}

impl Answer {
    /// What one event says. `received_at` is the stream's timestamp of the event.
    pub fn of(
        result: &TaskResult<'_>,
        rules: Rules,
        via: Via,
        received_at: OffsetDateTime,
        stream_seq: u64,
    ) -> Self {
        let received_at = timestamp::cut_to_microseconds(received_at);
        let (created_at, problem) = delivery::not_after(result.created_at, received_at);
        let mut problems = result.problems.clone();
        problems.extend(problem);
        Self {
            task_id: result.task_id.clone(),
            job_key: job_key(rules, result.idempotency_key.as_deref(), &result.task_id).to_owned(),
            idempotency_key: result.idempotency_key.clone(),
            status: result.status,
            created_at,
            digest: ResponseDigest::of(result.response),
            problems,
            via,
            provenance: Provenance {
                received_at,
                stream_seq,
            },
        }
    }

    /// Where it stands among the events of its task.
    pub fn task_rank(&self) -> (TaskRank, Provenance) {
        let Self {
            status,
            created_at,
            digest,
            provenance,
            ..
        } = *self;
        (
            TaskRank {
                status,
                created_at,
                digest,
            },
            provenance,
        )
    }

    /// Where it stands among the events of its job.
    pub fn job_rank(&self) -> (JobRank, Reverse<u64>) {
        let rank = JobRank {
            status: self.status,
            created_at: self.created_at,
            task_id: self.task_id.clone(),
        };
        (rank, Reverse(self.provenance.stream_seq))
    }

    /// The text of the column `problem`; None when there is nothing to say.
    pub fn problem(&self) -> Option<String> {
        let text = Problems(&self.problems).to_string();
        (!text.is_empty()).then_some(text)
    }
}

/// Folds events into the tables. Order and repetition make no difference.
pub fn fold(events: impl IntoIterator<Item = Answer>) -> Tables {
    let events: Vec<Answer> = events.into_iter().collect();
    let mut tables = Tables::default();
    let mut best: BTreeMap<&str, &Answer> = BTreeMap::new();
    for event in &events {
        let task = tables
            .answers
            .entry(event.task_id.clone())
            .or_insert_with(|| event.clone());
        if event.task_rank() > task.task_rank() {
            task.clone_from(event);
        }
        let job = best.entry(&event.job_key).or_insert(event);
        if event.job_rank() > job.job_rank() {
            *job = event;
        }
    }
    for (job, event) in best {
        let (rank, Reverse(stream_seq)) = event.job_rank();
        tables.winners.insert(job.to_owned(), Winner { rank, stream_seq });
    }
    tables
}

#[cfg(test)]
mod tests;
