//! What there is to know about a task or a job, as `explain --json` prints it. Names of fields are stable: docs/explain.md
//! lists them.

use schemas::winner::{JobRank, Provenance, TaskRank};
use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;

use crate::parked::rows::Parked;

/// All of it.
#[derive(Debug, Serialize)]
pub struct Story {
    /// The task that was asked about.
    pub task_id: Option<String>,
    /// The job that was asked about.
    pub job_key: Option<String>,
    /// What comes of all this.
    pub verdict: Verdict,
    /// The same in words.
    pub summary: String,
    /// What the submitting application recorded.
    pub submissions: Vec<Submission>,
    /// The stream; null when only the tables were asked.
    pub stream: Option<StreamFacts>,
    /// Its events, by sequence.
    pub events: Vec<EventFacts>,
    /// Rows of `answers`, by task id.
    pub answers: Vec<AnswerFacts>,
    /// Rows of `parked`.
    pub parked: Vec<Parked>,
    /// The jobs that it belongs to, and who answers them.
    pub jobs: Vec<JobFacts>,
}

/// What comes of it all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The task answers its job; the job has an answer.
    Answers,
    /// The task has its row, and another task answers the job.
    Outranked,
    /// What the stream holds of it is not in the tables yet.
    Pending,
    /// What there is of it is set aside.
    Parked,
    /// The provider has said that it has not ended, and nothing else.
    NotFinal,
    /// It was submitted, and nothing has come of it.
    Submitted,
    /// The tables do not say what follows from the stream.
    Inconsistent,
    /// Nothing is known of it.
    Unknown,
}

impl Verdict {
    /// Whether there is anything to tell.
    pub fn is_known(self) -> bool {
        self != Self::Unknown
    }
}

/// A row of `submitted_tasks`. Those of its columns that the schema does not have yet are null.
#[derive(Debug, Serialize)]
pub struct Submission {
    /// Number of the submission.
    pub submission_id: i64,
    /// The task, once it is known.
    pub task_id: Option<String>,
    /// The key it was created with.
    pub idempotency_key: Option<String>,
    /// When it was submitted.
    #[serde(with = "time::serde::rfc3339")]
    pub submitted_at: OffsetDateTime,
    /// OPEN, SETTLED, …
    pub state: String,
    /// How often the provider was asked.
    pub checks: i32,
    /// When it was asked last.
    #[serde(with = "time::serde::rfc3339::option")]
    pub checked_at: Option<OffsetDateTime>,
    /// Not asked again before.
    #[serde(with = "time::serde::rfc3339::option")]
    pub next_check_at: Option<OffsetDateTime>,
    /// What the reconciler appended for it.
    pub appended_seq: Option<i64>,
    /// Why the last check gave nothing.
    pub last_error: Option<String>,
    /// When it was settled.
    #[serde(with = "time::serde::rfc3339::option")]
    pub settled_at: Option<OffsetDateTime>,
}

/// The stream, and how much of it was looked at.
#[derive(Debug, Serialize)]
pub struct StreamFacts {
    /// Its name.
    pub name: String,
    /// When it was created.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// The first sequence that it holds.
    pub first_seq: u64,
    /// The last one, at the start; everything up to here was looked at.
    pub last_seq: u64,
    /// How many events were looked at.
    pub searched: u64,
    /// Up to here everything is in the tables; null when the rows came from another stream, or from none.
    pub floor_seq: Option<u64>,
    /// The rows came from a stream that was created at another time.
    pub is_another: bool,
}

/// One event.
#[derive(Debug, Serialize)]
pub struct EventFacts {
    /// Its sequence.
    pub seq: u64,
    /// When the stream took it.
    #[serde(with = "time::serde::rfc3339")]
    pub time: OffsetDateTime,
    /// Its subject.
    pub subject: String,
    /// What brought it: webhook or reconciler.
    pub via: Option<&'static str>,
    /// Its message id.
    pub msg_id: Option<String>,
    /// The id of the delivery in its unsigned header.
    pub webhook_id: Option<String>,
    /// Size of its body.
    pub bytes: u64,
    /// The task in its body.
    pub task_id: Option<String>,
    /// COMPLETED or FAILED; null when it is no result that could become a row.
    pub status: Option<&'static str>,
    /// As the row would have it.
    #[serde(with = "time::serde::rfc3339::option")]
    pub created_at: Option<OffsetDateTime>,
    /// As sent.
    pub idempotency_key: Option<String>,
    /// The job that it counts for.
    pub job_key: Option<String>,
    /// Digest of the response.
    pub response_digest: Option<String>,
    /// What could not be kept as sent.
    pub problem: Option<String>,
    /// What came of it.
    #[serde(flatten)]
    pub standing: Standing,
    /// The response as sent, when it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Box<RawValue>>,
}

/// What came of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "standing", rename_all = "snake_case")]
pub enum Standing {
    /// It gives the row.
    Row,
    /// It says what the event at `against` says, which came first.
    Copy {
        /// That event.
        against: i64,
    },
    /// The event at `against` is the greater one.
    Outranked {
        /// That event.
        against: i64,
        /// The column that decides.
        rule: &'static str,
    },
    /// It is set aside.
    Parked {
        /// Why.
        reason: String,
        /// More about it.
        detail: Option<String>,
        /// This build reads it and would make a row of it: `parked retry`.
        readable: bool,
    },
    /// Its task has not ended: it is counted.
    NotFinal,
    /// No projector has seen to it yet.
    Pending,
    /// It should be in the tables, and is not: `verify` finds out.
    Missing,
    /// The row names it, and says something else: `rebuild` puts it right.
    Contradicted,
}

/// A row of `answers`.
#[derive(Debug, Serialize)]
pub struct AnswerFacts {
    /// Column `task_id`.
    pub task_id: String,
    /// Column `job_key`.
    pub job_key: String,
    /// Column `idempotency_key`.
    pub idempotency_key: Option<String>,
    /// Column `status`.
    pub status: String,
    /// Column `created_at`.
    #[serde(with = "time::serde::rfc3339::option")]
    pub created_at: Option<OffsetDateTime>,
    /// Column `response_digest`.
    pub response_digest: String,
    /// Whether `response` holds anything.
    pub has_response: bool,
    /// Column `problem`.
    pub problem: Option<String>,
    /// Column `via`.
    pub via: String,
    /// Column `stream_seq`.
    pub stream_seq: i64,
    /// Column `received_at`.
    #[serde(with = "time::serde::rfc3339")]
    pub received_at: OffsetDateTime,
    /// Column `response`, when it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Box<RawValue>>,
    /// Where it stands.
    #[serde(skip)]
    pub rank: (TaskRank, Provenance),
}

/// A job, its winner and its tasks.
#[derive(Debug, Serialize)]
pub struct JobFacts {
    /// The job.
    pub job_key: String,
    /// Its row of `winners`.
    pub winner: Option<WinnerFacts>,
    /// Its tasks, the greatest first.
    pub tasks: Vec<Contender>,
}

/// A row of `winners`.
#[derive(Debug, Clone, Serialize)]
pub struct WinnerFacts {
    /// Column `task_id`.
    pub task_id: String,
    /// Column `status`.
    pub status: String,
    /// Column `created_at`.
    #[serde(with = "time::serde::rfc3339::option")]
    pub created_at: Option<OffsetDateTime>,
    /// Column `stream_seq`.
    pub stream_seq: i64,
    /// Where it stands.
    #[serde(skip)]
    pub rank: JobRank,
}

/// A task of a job.
#[derive(Debug, Serialize)]
pub struct Contender {
    /// The task.
    pub task_id: String,
    /// Its status.
    pub status: &'static str,
    /// Its time.
    #[serde(with = "time::serde::rfc3339::option")]
    pub created_at: Option<OffsetDateTime>,
    /// The event.
    pub stream_seq: u64,
    /// How it stands against the winner.
    #[serde(flatten)]
    pub place: Place,
}

/// How a task stands against the winner of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "place", rename_all = "snake_case")]
pub enum Place {
    /// It answers the job.
    Wins,
    /// The winner is greater.
    Loses {
        /// The column that decides.
        rule: &'static str,
    },
    /// It is greater than the row in `winners`, or there is none: `verify` finds out.
    Contradicts,
}
