//! Reading a body: the one function for webhook deliveries, poll answers and stored events.
//!
//! Strict about what says which task this is and how it ended; whatever breaks that is quarantined with its
//! reason. Lenient about everything else: a result is never lost to a field that nobody needs.

use serde_json::value::RawValue;
use thiserror::Error;
use time::OffsetDateTime;

mod problem;
mod read;
mod status;
mod task_id;

pub use problem::{Problem, Problems};
pub use read::{not_after, read};
pub use status::{FinalStatus, NotFinal, OpenStatus};
pub use task_id::{InvalidTaskId, MAX_KEY_BYTES, TaskId};

/// A final result of one task, borrowed from the body it was read from.
#[derive(Debug, Clone)]
pub struct TaskResult<'b> {
    /// Which task.
    pub task_id: TaskId,
    /// How it ended.
    pub status: FinalStatus,
    /// None when null, absent, empty or unusable (then `problems` says so).
    pub idempotency_key: Option<String>,
    /// `task.createdAt` in UTC, cut to microseconds; None when absent, no timestamp, or before 2000. The upper
    /// bound needs a clock: see [`not_after`].
    pub created_at: Option<OffsetDateTime>,
    /// The text of `response`, exactly as sent; None when absent.
    pub response: Option<&'b RawValue>,
    /// What could not be taken as sent. [`Problems`] joins them for the column `problem`.
    pub problems: Vec<Problem>,
}

/// What a verified body turned out to be.
#[derive(Debug, Clone)]
pub enum Delivery<'b> {
    /// `test` is JSON `true`: a sample from the provider's dashboard. Acknowledge, store nothing.
    Test,
    /// A task that has ended.
    Result(TaskResult<'b>),
    /// A task that has not ended, or whose status this version does not know.
    NonFinal {
        /// Which task.
        task_id: TaskId,
        /// How it stands.
        status: OpenStatus,
    },
}

/// Why no task can be read from a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum Unreadable {
    /// The bytes are not UTF-8.
    #[error("the body is not valid UTF-8")]
    InvalidUtf8,
    /// The text is not JSON, or more than one JSON text.
    #[error("the body is not valid JSON")]
    MalformedJson,
    /// A key occurs twice in the envelope or in `task`: parsers disagree on which one counts.
    #[error("a key occurs twice in the envelope or in the task")]
    DuplicateKey,
    /// The body or `task` is not an object, `test` not a boolean, or the id or status not a string.
    #[error("a field is not of the type that the contract says")]
    BadFieldType,
    /// No `task`, or no id in it.
    #[error("there is no task id")]
    MissingTaskId,
    /// The id breaks the rules of [`TaskId`].
    #[error("the task id is empty, too long, or holds characters that it must not hold")]
    BadTaskId,
    /// No `task.status`.
    #[error("there is no task status")]
    MissingStatus,
}

impl Unreadable {
    /// All of them, for metrics that start at zero.
    pub const ALL: [Self; 7] = [
        Self::InvalidUtf8,
        Self::MalformedJson,
        Self::DuplicateKey,
        Self::BadFieldType,
        Self::MissingTaskId,
        Self::BadTaskId,
        Self::MissingStatus,
    ];

    /// The stable name, for headers, metrics and the column `parked.reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidUtf8 => "invalid_utf8",
            Self::MalformedJson => "malformed_json",
            Self::DuplicateKey => "duplicate_key",
            Self::BadFieldType => "bad_field_type",
            Self::MissingTaskId => "missing_task_id",
            Self::BadTaskId => "bad_task_id",
            Self::MissingStatus => "missing_status",
        }
    }
}

#[cfg(test)]
mod tests;
