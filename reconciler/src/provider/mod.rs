//! The provider's API, as far as it is asked here: one task, and the state of the queue.

mod client;
mod retry_after;
mod target;

pub use client::{ClientError, Provider, Queue};
pub use target::{Target, TargetArgs};

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use schemas::delivery::TaskId;
use thiserror::Error;

/// What the provider answered, as far as status, headers and the size of the body tell.
#[derive(Debug)]
pub enum Reply {
    /// 200, with its whole body.
    Answer(Bytes),
    /// 200, with a body over the limit.
    TooLarge,
    /// 404: there is no such task, or none any more.
    NotFound,
    /// 410: its content is gone for ever.
    Gone,
    /// 429, or 503 with a time: nothing may be asked until then.
    Throttled(Throttled),
    /// 401 or 403: the key is not accepted.
    Denied(StatusCode),
    /// 3xx, which is not followed: the key would go to another host.
    Redirected(StatusCode),
    /// Nothing came of it, for a reason that may pass.
    Failed(Failure),
    /// Something that the provider's API does not describe.
    Unexpected(Unexpected),
}

/// The provider wants to be left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttled {
    /// 429 or 503.
    pub status: StatusCode,
    /// For how long, when it says so in a way that can be read.
    pub retry_after: Option<Duration>,
}

/// Why a call came to nothing.
#[derive(Debug, Error)]
pub enum Failure {
    /// No whole answer in time.
    #[error("no whole answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// No connection, or one that broke.
    #[error("calling the provider")]
    Broken(#[source] reqwest::Error),
    /// An error of the provider's.
    #[error("the provider answered {0}")]
    Server(StatusCode),
}

/// An answer that the provider's API does not describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unexpected {
    /// A status without a meaning here.
    #[error("the provider answered {0}")]
    Status(StatusCode),
    /// A body in a coding that nobody asked for.
    #[error("the provider answered with an encoded body")]
    Encoded,
}

impl Reply {
    /// The stable name, for metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Answer(_) => "answered",
            Self::TooLarge => "too_large",
            Self::NotFound => "not_found",
            Self::Gone => "gone",
            Self::Throttled(_) => "throttled",
            Self::Denied(_) => "denied",
            Self::Redirected(_) => "redirected",
            Self::Failed(_) => "failed",
            Self::Unexpected(_) => "unexpected",
        }
    }
}

/// A task that can be asked for: its id is one segment of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Askable(TaskId);

/// Why a task cannot be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotAskable {
    /// It is no task id.
    #[error("it is no task id")]
    Invalid(#[from] schemas::delivery::InvalidTaskId),
    /// `.` and `..` mean something else in a path, however they are encoded.
    #[error("a task id of dots alone cannot be asked for")]
    Dots,
}

impl Askable {
    /// Takes an id as it was recorded.
    ///
    /// # Errors
    /// When it is no id, or none that can stand in a path.
    pub fn new(text: &str) -> Result<Self, NotAskable> {
        if matches!(text, "." | "..") {
            return Err(NotAskable::Dots);
        }
        Ok(Self(text.parse()?))
    }

    /// The id.
    pub fn task_id(&self) -> &TaskId {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_and_what_is_no_id_cannot_be_asked_for() {
        for text in ["t-1", "...", "a/b", "a b", "é", "%2e", "?", "#"] {
            assert!(Askable::new(text).is_ok(), "{text}");
        }
        assert_eq!(Askable::new("."), Err(NotAskable::Dots));
        assert_eq!(Askable::new(".."), Err(NotAskable::Dots));
        for text in ["", "a\n", &"x".repeat(1025)] {
            assert!(
                matches!(Askable::new(text), Err(NotAskable::Invalid(_))),
                "{text:?}"
            );
        }
    }
}
