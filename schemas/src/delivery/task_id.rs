//! Task ids, and the rule that idempotency keys share with them.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

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

/// Why a text cannot be a task id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidTaskId {
    /// No text at all.
    #[error("the task id is empty")]
    Empty,
    /// Over [`MAX_KEY_BYTES`].
    #[error("the task id is longer than {MAX_KEY_BYTES} bytes")]
    TooLong,
    /// A control character, or half of a surrogate pair.
    #[error("the task id holds a control character or a lone surrogate")]
    InvalidText,
}

/// Ids and idempotency keys obey one rule: text that Postgres, headers and logs can all hold.
pub(super) fn check_key_text(text: &str) -> Result<(), InvalidTaskId> {
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
