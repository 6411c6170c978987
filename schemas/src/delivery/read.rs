//! From bytes to a delivery.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use time::OffsetDateTime;

use super::task_id::check_key_text;
use super::{Delivery, FinalStatus, InvalidTaskId, OpenStatus, Problem, TaskId, TaskResult, Unreadable};
use crate::json::{self, LoneSurrogate, Members};
use crate::timestamp;

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

/// The value of a JSON string; None when the value is not a string.
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
