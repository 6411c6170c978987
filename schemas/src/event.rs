//! An event on the stream: its subject, its message id and its headers, built and read here and nowhere else.

use std::borrow::Cow;

use bytes::Bytes;

use crate::delivery::FinalStatus;

mod classify;
mod fact;
pub mod header;
mod msg_id;
pub mod percent;
mod received;
mod source;
mod subject;
mod trace;
mod via;

pub use classify::{Classified, classify};
pub use fact::{Disagreement, Fact, check_other, check_result, is_filed_unread};
pub use msg_id::MsgId;
pub use received::Received;
pub use source::{InvalidSource, Source};
pub use subject::{ForeignSubject, InvalidPrefix, Subjects};
pub use trace::Trace;
pub use via::{UnknownVia, Via};

/// What an event says, which decides its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A task that ended with a result.
    Completed,
    /// A task that ended without one.
    Failed,
    /// A task that has not ended, or whose status this version does not know.
    NonFinal,
    /// A verified body from which no task can be read.
    Quarantine,
}

impl Kind {
    /// All of them, for metrics that start at zero.
    pub const ALL: [Self; 4] = [Self::Completed, Self::Failed, Self::NonFinal, Self::Quarantine];

    /// Its place in [`Kind::ALL`].
    pub fn index(self) -> usize {
        match self {
            Self::Completed => 0,
            Self::Failed => 1,
            Self::NonFinal => 2,
            Self::Quarantine => 3,
        }
    }

    /// The stable name, for metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::NonFinal => "nonfinal",
            Self::Quarantine => "quarantine",
        }
    }

    /// The subject behind the prefix.
    fn subject(self) -> &'static str {
        match self {
            Self::Completed => "result.completed",
            Self::Failed => "result.failed",
            Self::NonFinal => "nonfinal",
            Self::Quarantine => "quarantine",
        }
    }

    /// The CloudEvents type.
    fn ce_type(self) -> &'static str {
        match self {
            Self::Completed => "dev.answerline.task.completed",
            Self::Failed => "dev.answerline.task.failed",
            Self::NonFinal => "dev.answerline.task.nonfinal",
            Self::Quarantine => "dev.answerline.delivery.quarantined",
        }
    }
}

impl From<FinalStatus> for Kind {
    fn from(status: FinalStatus) -> Self {
        match status {
            FinalStatus::Completed => Self::Completed,
            FinalStatus::Failed => Self::Failed,
        }
    }
}

/// Names and values of headers. Most values are the same for every event.
pub type Headers = Vec<(&'static str, Cow<'static, str>)>;

/// What a verified body becomes.
#[derive(Debug, Clone)]
pub struct Event {
    /// Decides the subject.
    pub kind: Kind,
    /// Decides what is a duplicate.
    pub msg_id: MsgId,
    /// CloudEvents attributes and our own headers, without `Nats-*`, which the stream crate adds. Values are
    /// printable ASCII without space, `"` or stray `%`.
    pub headers: Headers,
    /// The body, byte for byte as received.
    pub body: Bytes,
}

impl Event {
    /// The result it holds; None when it is not a result. Reads the body when it is called: only few events
    /// need it.
    pub fn fact(&self) -> Option<Fact> {
        match self.kind {
            Kind::Completed | Kind::Failed => Fact::read(&self.body),
            Kind::NonFinal | Kind::Quarantine => None,
        }
    }

    /// The same event under its second id, for when the stream holds something else under the first one, or nothing any
    /// more: for a result that of a divergent one. Changes nothing the second time.
    pub fn into_divergent(mut self) -> Self {
        self.msg_id = match (self.kind, self.fact()) {
            (Kind::Completed | Kind::Failed, Some(fact)) => MsgId::of_divergent(&fact),
            (Kind::NonFinal, _) => MsgId::of_nonfinal(&self.body).again(),
            (Kind::Quarantine, _) => MsgId::of_quarantine(&self.body).again(),
            (Kind::Completed | Kind::Failed, None) => return self, // an event that was not made of its body
        };
        for (name, value) in &mut self.headers {
            if *name == header::CE_ID {
                *value = self.msg_id.as_str().to_owned().into();
            }
        }
        self
    }
}

#[cfg(test)]
mod tests;
