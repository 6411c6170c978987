//! The message id of an event.

use std::fmt;

use sha2::{Digest, Sha256};

use super::Fact;
use super::percent::encode_id;
use crate::delivery::TaskId;

/// The message id (`Nats-Msg-Id`), by which the broker tells duplicates. Printable ASCII without spaces.
///
/// A result's id is its task's, so that the broker keeps one event a task; `/` and `#` never occur in an encoded
/// task id, so the other forms can never take a task's place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MsgId(String);

/// Ends the second id of a body that holds no result.
const AGAIN: &str = "#again";

impl MsgId {
    /// The id of a task's result: the task id, percent-encoded.
    pub fn of_task(task_id: &TaskId) -> Self {
        Self(encode_id(task_id.as_str()).into_owned())
    }

    /// The id of a result that differs from the one the stream holds: `<task id>#<first 16 hex digits of SHA-256
    /// over the status and the response digest>`.
    pub fn of_divergent(fact: &Fact) -> Self {
        Self(format!("{}#{}", encode_id(fact.task_id.as_str()), mark(fact)))
    }

    /// The id of a body whose task has not ended: `nonfinal/<SHA-256 of the body>`.
    pub fn of_nonfinal(body: &[u8]) -> Self {
        Self(format!("nonfinal/{}", hex::encode(Sha256::digest(body))))
    }

    /// The id of a body from which no task can be read: `quarantine/<SHA-256 of the body>`.
    pub fn of_quarantine(body: &[u8]) -> Self {
        Self(format!("quarantine/{}", hex::encode(Sha256::digest(body))))
    }

    /// The second id of a body that holds no result, for when the broker remembers the first one and does not have the
    /// message: `<first id>#again`.
    pub(super) fn again(&self) -> Self {
        Self(format!("{self}{AGAIN}"))
    }

    /// As written in the header.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `text` is this id, or the second one of the same body.
    pub(super) fn names_body(&self, text: &str) -> bool {
        text.strip_suffix(AGAIN).unwrap_or(text) == self.0
    }

    /// Whether `text` is one of the two ids under which this result is stored.
    pub(super) fn names(text: &str, fact: &Fact) -> bool {
        match text.strip_prefix(&*encode_id(fact.task_id.as_str())) {
            Some("") => true,
            Some(rest) => rest.strip_prefix('#') == Some(&mark(fact)),
            None => false,
        }
    }
}

impl fmt::Display for MsgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What tells divergent results of one task apart.
fn mark(fact: &Fact) -> String {
    let hash = Sha256::new()
        .chain_update(fact.status.as_str())
        .chain_update(fact.digest.as_bytes())
        .finalize();
    hex::encode(&hash[..8])
}
