//! A task of the provider, from its creation to its end.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use rand::Rng;
use serde_json::value::RawValue;
use time::OffsetDateTime;

use super::body;
use super::delivery::DeliveryNumber;
use super::outcome::Outcome;

/// The engines that a task can ask.
pub const TASK_TYPES: &[&str] = &[
    "CHATGPT",
    "GEMINI",
    "COPILOT",
    "PERPLEXITY",
    "GROK",
    "AIMODE",
    "GOOGLE",
    "GOOGLE_NEWS",
];

/// How long a task ran that is made [completed](Task::completed).
const RUN: Duration = Duration::from_secs(30);

/// What an application asks for when it creates a task.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// The engine to ask.
    pub task_type: &'static str,
    /// 1 to 10.
    pub priority: u8,
    /// Names the job; taken once and for all.
    pub idempotency_key: Option<String>,
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// It waits for its turn.
    Queued,
    /// It runs.
    Processing,
    /// It ended with an error.
    Failed,
    /// It ended with a result.
    Completed,
}

impl Status {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "QUEUED",
            Self::Processing => "PROCESSING",
            Self::Failed => "FAILED",
            Self::Completed => "COMPLETED",
        }
    }

    /// Whether it ends a task.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Failed | Self::Completed)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The tasks of an account in the order of their creation; the first is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskNumber(pub usize);

/// Why the provider no longer knows a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// It was cleared from the queue.
    Cleared,
    /// It was kept as long as tasks are.
    Expired,
}

/// One task, from its creation to its end.
#[derive(Debug, Clone)]
pub struct Task {
    /// A UUID.
    pub id: String,
    /// What was asked for.
    pub request: NewTask,
    /// When it was created, in whole milliseconds.
    pub created_at: OffsetDateTime,
    /// When it first ran.
    pub started_at: Option<OffsetDateTime>,
    /// When it ended.
    pub finished_at: Option<OffsetDateTime>,
    /// Where it stands.
    pub status: Status,
    /// The result or the error, once it has ended.
    pub response: Option<Box<RawValue>>,
    /// The delivery that tells of it, once it has ended.
    pub delivery: Option<DeliveryNumber>,
    /// Why the provider no longer knows it. The model keeps it all the same: whoever tests a receiver wants to know what
    /// there was.
    pub removed: Option<Removal>,
}

impl Task {
    pub(super) fn new(rng: &mut impl Rng, request: NewTask, created_at: OffsetDateTime) -> Self {
        let whole = created_at
            .replace_millisecond(created_at.millisecond())
            .expect("a millisecond that was there");
        Self {
            id: uuid(rng),
            request,
            created_at: whole,
            started_at: None,
            finished_at: None,
            status: Status::Queued,
            response: None,
            delivery: None,
            removed: None,
        }
    }

    /// A task that was started as soon as it was created, and ended half a minute later with an [answer](Outcome::answered) of
    /// `length` bytes of text: for whoever needs bodies by the thousand and no provider behind them.
    pub fn completed(
        rng: &mut impl Rng,
        request: NewTask,
        created_at: OffsetDateTime,
        length: usize,
    ) -> Self {
        let outcome = Outcome::answered(rng, length);
        let mut task = Self::new(rng, request, created_at);
        task.started_at = Some(created_at);
        task.end(outcome, created_at + RUN);
        task
    }

    pub(super) fn end(&mut self, outcome: Outcome, at: OffsetDateTime) {
        self.status = outcome.status;
        self.response = Some(outcome.response);
        self.finished_at = Some(at);
    }

    /// The task as JSON, as a webhook delivers it. The API answers the same with a `webhook` beside it.
    pub fn body(&self) -> Bytes {
        body::of_task(self)
    }
}

/// A random UUID (version 4).
pub(crate) fn uuid(rng: &mut impl Rng) -> String {
    let bits: u128 = rng.random();
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    #[test]
    fn ids_are_uuids_of_version_four() {
        let id = uuid(&mut Seed(1).rng("task", 5));
        let marks: Vec<usize> = id.match_indices('-').map(|(at, _)| at).collect();
        assert_eq!((id.len(), marks), (36, vec![8, 13, 18, 23]));
        assert_eq!(&id[14..15], "4");
        assert!("89ab".contains(&id[19..20]));
    }
}
