//! What can go wrong with a call of the API.

use std::time::Duration;

use bytes::Bytes;

use super::retry_after::RetryAfter;

/// What goes wrong with one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// An error with this status and body of the provider's form, and perhaps a time to come again.
    Status(u16, RetryAfter),
    /// A redirect with this status to another place.
    Redirect(u16, String),
    /// 200 with this body.
    Body(Bytes),
    /// 200 with a page for people.
    Html,
    /// 200 with no body.
    Empty,
    /// 204.
    NoContent,
    /// No answer as long as the caller waits.
    Silence,
    /// The connection is closed in place of an answer.
    HangUp,
    /// The true answer up to its middle, and nothing more as long as the caller waits.
    Stall,
    /// The true answer, a byte at a time with this pause before each.
    Drip(Duration),
    /// The true answer's length, and its first half before the connection is closed.
    Cut,
    /// The true answer without its last byte, whole as far as HTTP goes: no JSON.
    NotJson,
    /// The true answer, with a text of so many bytes in its `response`.
    Huge(usize),
    /// The true answer, but for another task.
    OtherTask,
    /// The true answer without the id of its task.
    NoId,
    /// The true answer, marked as a test.
    MarkedTest,
}

impl Fault {
    /// An error without a time to come again.
    pub fn status(status: u16) -> Self {
        Self::Status(status, RetryAfter::Absent)
    }

    /// Whether it is made of the true answer, so that the call takes effect.
    pub(super) fn needs_the_truth(&self) -> bool {
        match self {
            Self::Status(..)
            | Self::Redirect(..)
            | Self::Body(_)
            | Self::Html
            | Self::Empty
            | Self::NoContent
            | Self::Silence
            | Self::HangUp => false,
            Self::Stall
            | Self::Drip(_)
            | Self::Cut
            | Self::NotJson
            | Self::Huge(_)
            | Self::OtherTask
            | Self::NoId
            | Self::MarkedTest => true,
        }
    }
}
