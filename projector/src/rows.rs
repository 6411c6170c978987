//! Events as rows, and a batch of them as what its statements need: each key once, in byte order.

use bytes::Bytes;
use schemas::delivery::{FinalStatus, TaskId};
use schemas::event::Via;
use schemas::winner::{Provenance, TaskRank};
use time::OffsetDateTime;

/// A result event, ready for the tables.
#[derive(Debug, Clone)]
pub struct ResultRow {
    /// Which task.
    pub task_id: TaskId,
    /// The job that the task belongs to.
    pub job_key: String,
    /// As sent.
    pub idempotency_key: Option<String>,
    /// Where the event stands among those of its task.
    pub rank: TaskRank,
    /// JSON text that `jsonb` can hold.
    pub response: Option<Bytes>,
    /// What was not kept as sent.
    pub problem: Option<String>,
    /// What brought the event.
    pub via: Via,
    /// Where and when it stands on the stream.
    pub provenance: Provenance,
}

impl ResultRow {
    /// Where the event stands among those of its job: `schemas::winner::JobRank`, borrowed.
    fn job_rank(&self) -> (FinalStatus, Option<OffsetDateTime>, &TaskId) {
        (self.rank.status, self.rank.created_at, &self.task_id)
    }
}

/// An event set aside, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedRow {
    /// Its sequence on the stream.
    pub stream_seq: u64,
    /// Its subject.
    pub subject: String,
    /// The task it speaks of, when that can be told.
    pub task_id: Option<TaskId>,
    /// A stable name of the reason.
    pub reason: &'static str,
    /// More about it, for people.
    pub detail: Option<String>,
    /// The body as received.
    pub body: Bytes,
    /// The stream's timestamp.
    pub parked_at: OffsetDateTime,
}

/// What one batch of events comes to.
#[derive(Debug, Default)]
pub struct Folded<'b> {
    /// The greatest event of each task, by task id.
    pub answers: Vec<&'b ResultRow>,
    /// The greatest event of each job, by job key.
    pub winners: Vec<&'b ResultRow>,
    /// By sequence.
    pub parked: Vec<&'b ParkedRow>,
}

impl<'b> Folded<'b> {
    /// Reduces the events to the ones that can change a row. Sorting by key gives all projectors one order of taking
    /// locks, so that they cannot deadlock; and no statement meets a row twice.
    pub fn of(
        results: impl Iterator<Item = &'b ResultRow>,
        parked: impl Iterator<Item = &'b ParkedRow>,
    ) -> Self {
        let mut answers: Vec<&ResultRow> = results.collect();
        let mut winners = answers.clone();
        answers.sort_by(|a, b| {
            let greatest_first = || b.rank.cmp(&a.rank).then_with(|| b.provenance.cmp(&a.provenance));
            a.task_id.cmp(&b.task_id).then_with(greatest_first)
        });
        answers.dedup_by(|later, first| later.task_id == first.task_id);
        winners.sort_by(|a, b| {
            let greatest_first = || {
                let by_rank = b.job_rank().cmp(&a.job_rank());
                by_rank.then_with(|| a.provenance.stream_seq.cmp(&b.provenance.stream_seq))
            };
            a.job_key.cmp(&b.job_key).then_with(greatest_first)
        });
        winners.dedup_by(|later, first| later.job_key == first.job_key);
        let mut parked: Vec<&ParkedRow> = parked.collect();
        parked.sort_by_key(|row| row.stream_seq);
        parked.dedup_by_key(|row| row.stream_seq);
        Self {
            answers,
            winners,
            parked,
        }
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.parked.is_empty()
    }
}
