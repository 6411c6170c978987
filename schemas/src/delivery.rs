//! Reading a body: the one function for webhook deliveries, poll answers and stored events.
//!
//! Strict about what says which task this is and how it ended; whatever breaks that is quarantined with its
//! reason. Lenient about everything else: a result is never lost to a field that nobody needs.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use thiserror::Error;
use time::OffsetDateTime;

use crate::json::{self, LoneSurrogate, Members};
use crate::timestamp;

/// Longest task id and idempotency key, in bytes: well under what an index row can hold.
pub const MAX_KEY_BYTES: usize = 1024;

/// A task's id: 1 to 1,024 bytes of UTF-8 without control characters (U+0000-1F, 7F-9F).
///
/// Opaque: never trimmed, folded or normalised. Ordered by its bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(Box<str>);

impl TaskId {
    /// The id as the provider sent it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for TaskId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for TaskId {
    type Err = InvalidTaskId;

    fn from_str(text: &str) -> Result<Self, InvalidTaskId> {
        check_key_text(text)?;
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for TaskId {
    type Error = InvalidTaskId;

    fn try_from(text: String) -> Result<Self, InvalidTaskId> {
        check_key_text(&text)?;
        Ok(Self(text.into()))
    }
}

/// Why a text is no task id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidTaskId {
    /// No text at all.
    #[error("is empty")]
    Empty,
    /// Over [`MAX_KEY_BYTES`].
    #[error("is longer than {MAX_KEY_BYTES} bytes")]
    TooLong,
    /// A control character, or half of a surrogate pair.
    #[error("holds a control character or a lone surrogate")]
    InvalidText,
}

/// Ids and idempotency keys obey one rule: text that Postgres, headers and logs can all hold.
fn check_key_text(text: &str) -> Result<(), InvalidTaskId> {
    if text.is_empty() {
        Err(InvalidTaskId::Empty)
    } else if text.len() > MAX_KEY_BYTES {
        Err(InvalidTaskId::TooLong)
    } else if text.chars().any(char::is_control) {
        Err(InvalidTaskId::InvalidText)
    } else {
        Ok(())
    }
}

/// The two states that end a task. `Failed < Completed`: that order is part of the winner rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FinalStatus {
    /// The task ended without a result; its response holds the error.
    Failed,
    /// The task ended with a result.
    Completed,
}

impl FinalStatus {
    /// As the provider spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "FAILED",
            Self::Completed => "COMPLETED",
        }
    }
}

impl fmt::Display for FinalStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A status that ends no task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("neither COMPLETED nor FAILED")]
pub struct NotFinal;

impl FromStr for FinalStatus {
    type Err = NotFinal;

    /// Exact and case-sensitive: `completed` is a status that this version does not know.
    fn from_str(text: &str) -> Result<Self, NotFinal> {
        match text {
            "FAILED" => Ok(Self::Failed),
            "COMPLETED" => Ok(Self::Completed),
            _ => Err(NotFinal),
        }
    }
}

/// A status that does not end the task. Only two are known; an unknown one is worth an alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenStatus {
    /// Waits for its start.
    Queued,
    /// Runs, and may go back to the queue.
    Processing,
    /// Something else, its text cut to 64 characters.
    Unknown(String),
}

impl OpenStatus {
    fn of(text: &str) -> Self {
        match text {
            "QUEUED" => Self::Queued,
            "PROCESSING" => Self::Processing,
            _ => Self::Unknown(text.chars().take(64).collect()),
        }
    }

    /// The status as sent, cut to 64 characters.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Queued => "QUEUED",
            Self::Processing => "PROCESSING",
            Self::Unknown(text) => text,
        }
    }
}

impl fmt::Display for OpenStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

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
    /// The bytes are no UTF-8.
    #[error("the body is not valid UTF-8")]
    InvalidUtf8,
    /// The text is no JSON, or more than one JSON text.
    #[error("the body is not valid JSON")]
    MalformedJson,
    /// A key stands twice in the envelope or in `task`: parsers disagree on which one counts.
    #[error("a key stands twice in the envelope or in the task")]
    DuplicateKey,
    /// The body or `task` is no object, `test` no boolean, or the id or status no string.
    #[error("a field is not of the kind that the contract says")]
    BadFieldType,
    /// No `task`, or no id in it.
    #[error("there is no task id")]
    MissingTaskId,
    /// The id breaks the rules of [`TaskId`].
    #[error("the task id is empty, too long, or holds what no id may hold")]
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

/// Something that was not kept as sent, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Problem {
    /// `createdAt` is a string, but no timestamp; or no string at all.
    CreatedAtNotATimestamp,
    /// `createdAt` is before 2000.
    CreatedAtBefore2000,
    /// `createdAt` is more than a day after the stream's own timestamp.
    CreatedAtInFuture,
    /// `idempotencyKey` is no string.
    KeyNotAString,
    /// `idempotencyKey` is over [`MAX_KEY_BYTES`].
    KeyTooLong,
    /// `idempotencyKey` holds a control character or a lone surrogate.
    KeyInvalidText,
    /// A final task without `response`.
    ResponseMissing,
}

impl Problem {
    /// A few words for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreatedAtNotATimestamp => "createdAt is not a timestamp",
            Self::CreatedAtBefore2000 => "createdAt is before 2000",
            Self::CreatedAtInFuture => "createdAt is over a day ahead of the stream",
            Self::KeyNotAString => "idempotencyKey is not a string",
            Self::KeyTooLong => "idempotencyKey is longer than 1024 bytes",
            Self::KeyInvalidText => "idempotencyKey holds a control character or a lone surrogate",
            Self::ResponseMissing => "response is missing",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Joins problems with `; `, the form of the column `problem`.
pub struct Problems<'p>(pub &'p [Problem]);

impl fmt::Display for Problems<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

/// Reads a body. Fails with the reason when no task can be read from it.
pub fn read(body: &[u8]) -> Result<Delivery<'_>, Unreadable> {
    // Bytes first: a parser checks only the strings that somebody asks for.
    let text = std::str::from_utf8(body).map_err(|_| Unreadable::InvalidUtf8)?;
    let envelope = read_envelope(text)?;
    match envelope.get("test").map(RawValue::get) {
        Some("true") => return Ok(Delivery::Test),
        Some("false" | "null") | None => {}
        Some(_) => return Err(Unreadable::BadFieldType),
    }
    let task = envelope
        .get("task")
        .and_then(present)
        .ok_or(Unreadable::MissingTaskId)?;
    if !task.get().starts_with('{') {
        return Err(Unreadable::BadFieldType);
    }
    let task = read_members(task.get())?;
    let task_id = read_task_id(&task)?;
    let status = required_string(&task, "status", Unreadable::MissingStatus)?;
    let status = status.unwrap_or(Cow::Borrowed("\u{FFFD}"));
    let Ok(status) = status.parse::<FinalStatus>() else {
        let status = OpenStatus::of(&status);
        return Ok(Delivery::NonFinal { task_id, status });
    };

    let mut problems = Vec::new();
    let key = task.get("idempotencyKey").and_then(present).map(read_key);
    let idempotency_key = noting(&mut problems, key).flatten();
    let created_at = task.get("createdAt").and_then(present).map(read_created_at);
    let created_at = noting(&mut problems, created_at);
    let response = envelope.get("response");
    if response.is_none() {
        problems.push(Problem::ResponseMissing);
    }
    Ok(Delivery::Result(TaskResult {
        task_id,
        status,
        idempotency_key,
        created_at,
        response,
        problems,
    }))
}

fn noting<T>(problems: &mut Vec<Problem>, read: Option<Result<T, Problem>>) -> Option<T> {
    read?.map_err(|problem| problems.push(problem)).ok()
}

fn read_envelope(text: &str) -> Result<Members<'_>, Unreadable> {
    if text.trim_ascii_start().starts_with('{') {
        return read_members(text);
    }
    // Some other kind of value, if it is one at all.
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Err(Unreadable::BadFieldType),
        Err(_) => Err(Unreadable::MalformedJson),
    }
}

fn read_members(text: &str) -> Result<Members<'_>, Unreadable> {
    let members: Members = serde_json::from_str(text).map_err(|_| Unreadable::MalformedJson)?;
    if members.has_duplicates() {
        Err(Unreadable::DuplicateKey)
    } else {
        Ok(members)
    }
}

/// A value that is there: null counts as absent.
fn present(value: &RawValue) -> Option<&RawValue> {
    (value.get() != "null").then_some(value)
}

/// The value of a JSON string; None when the value is no string.
fn string(value: &RawValue) -> Option<Result<Cow<'_, str>, LoneSurrogate>> {
    let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
    Some(json::unescape(inner))
}

fn required_string<'b>(
    task: &Members<'b>,
    key: &str,
    missing: Unreadable,
) -> Result<Result<Cow<'b, str>, LoneSurrogate>, Unreadable> {
    let value = task.get(key).and_then(present).ok_or(missing)?;
    string(value).ok_or(Unreadable::BadFieldType)
}

fn read_task_id(task: &Members<'_>) -> Result<TaskId, Unreadable> {
    let id = required_string(task, "id", Unreadable::MissingTaskId)?;
    let id = id.map_err(|LoneSurrogate| Unreadable::BadTaskId)?;
    id.parse().map_err(|_| Unreadable::BadTaskId)
}

fn read_key(value: &RawValue) -> Result<Option<String>, Problem> {
    let key = string(value).ok_or(Problem::KeyNotAString)?;
    let key = key.map_err(|LoneSurrogate| Problem::KeyInvalidText)?;
    match check_key_text(&key) {
        Ok(()) => Ok(Some(key.into_owned())),
        Err(InvalidTaskId::Empty) => Ok(None),
        Err(InvalidTaskId::TooLong) => Err(Problem::KeyTooLong),
        Err(InvalidTaskId::InvalidText) => Err(Problem::KeyInvalidText),
    }
}

fn read_created_at(value: &RawValue) -> Result<OffsetDateTime, Problem> {
    let text = string(value)
        .and_then(Result::ok)
        .ok_or(Problem::CreatedAtNotATimestamp)?;
    let at = timestamp::parse(&text).ok_or(Problem::CreatedAtNotATimestamp)?;
    if at < timestamp::EARLIEST {
        Err(Problem::CreatedAtBefore2000)
    } else {
        Ok(at)
    }
}

/// `created_at` unless it lies more than a day after `stream_time`, the stream's own timestamp of the event: a
/// stamp ahead of time must not hold a job for good.
pub fn not_after(
    created_at: Option<OffsetDateTime>,
    stream_time: OffsetDateTime,
) -> (Option<OffsetDateTime>, Option<Problem>) {
    match created_at {
        Some(at) if at - stream_time > timestamp::MAX_AHEAD => (None, Some(Problem::CreatedAtInFuture)),
        kept => (kept, None),
    }
}
