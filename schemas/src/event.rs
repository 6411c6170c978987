//! An event on the stream: its subject, its message id and its headers, built and read here and nowhere else.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use thiserror::Error;

use crate::delivery::{FinalStatus, Unreadable};

mod classify;
pub mod header;
mod msg_id;
pub mod percent;
mod received;
mod source;
mod trace;

pub use classify::{Classified, classify};
pub use msg_id::MsgId;
pub use received::Received;
pub use source::{InvalidSource, Source};
pub use trace::Trace;

use crate::delivery::{Delivery, TaskId, TaskResult};
use crate::digest::ResponseDigest;

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

/// The subjects of one deployment, `<prefix>.result.completed` and so on. Four fixed ones: the broker holds every
/// subject in memory, and ids may hold what no subject may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subjects {
    all: String,
    results: String,
    of_kind: [String; 4],
}

impl Subjects {
    /// The default prefix.
    pub const DEFAULT_PREFIX: &str = "answers";

    /// Subjects under `prefix`: tokens of letters, digits, `-` and `_`, with dots between them.
    pub fn new(prefix: &str) -> Result<Self, InvalidPrefix> {
        let proper = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let tokens_proper = prefix
            .split('.')
            .all(|token| !token.is_empty() && token.bytes().all(proper));
        if !tokens_proper {
            return Err(InvalidPrefix);
        }
        Ok(Self {
            all: format!("{prefix}.>"),
            results: format!("{prefix}.result.>"),
            of_kind: Kind::ALL.map(|kind| format!("{prefix}.{}", kind.subject())),
        })
    }

    /// Every subject of the stream, `answers.>`.
    pub fn all(&self) -> &str {
        &self.all
    }

    /// The results subject, for other consumers: `answers.result.>`.
    pub fn results(&self) -> &str {
        &self.results
    }

    /// The subject of one kind of event.
    pub fn of(&self, kind: Kind) -> &str {
        let index = match kind {
            Kind::Completed => 0,
            Kind::Failed => 1,
            Kind::NonFinal => 2,
            Kind::Quarantine => 3,
        };
        &self.of_kind[index]
    }

    /// The kind of event a subject is for. Exact: on this stream nothing else was put there by us.
    pub fn parse(&self, subject: &str) -> Result<Kind, ForeignSubject> {
        let kind = Kind::ALL.into_iter().find(|kind| self.of(*kind) == subject);
        kind.ok_or(ForeignSubject)
    }
}

/// A subject prefix that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a subject prefix is made of letters, digits, `-` and `_`, with single dots between them")]
pub struct InvalidPrefix;

/// A subject that is none of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the subject is none of this stream's")]
pub struct ForeignSubject;

/// How an event came to the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Via {
    /// A signed delivery.
    Webhook,
    /// A poll.
    Reconciler,
}

impl Via {
    /// As it stands in the header and in the column `via`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Reconciler => "reconciler",
        }
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A way that this version does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("neither `webhook` nor `reconciler`")]
pub struct UnknownVia;

impl FromStr for Via {
    type Err = UnknownVia;

    fn from_str(text: &str) -> Result<Self, UnknownVia> {
        match text {
            "webhook" => Ok(Self::Webhook),
            "reconciler" => Ok(Self::Reconciler),
            _ => Err(UnknownVia),
        }
    }
}

/// Which result an event holds: two events of equal fact are the same result, whatever their bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fact {
    /// Which task.
    pub task_id: TaskId,
    /// How it ended.
    pub status: FinalStatus,
    /// What came of it.
    pub digest: ResponseDigest,
}

impl Fact {
    /// The fact that a result states.
    pub fn of(result: &TaskResult<'_>) -> Self {
        Self {
            task_id: result.task_id.clone(),
            status: result.status,
            digest: ResponseDigest::of(result.response),
        }
    }

    /// The fact that a stored body states; None when it is no result.
    pub fn read(body: &[u8]) -> Option<Self> {
        match crate::delivery::read(body) {
            Ok(Delivery::Result(result)) => Some(Self::of(&result)),
            Ok(Delivery::Test | Delivery::NonFinal { .. }) | Err(_) => None,
        }
    }
}

/// What a verified body becomes.
#[derive(Debug, Clone)]
pub struct Event {
    /// Decides the subject.
    pub kind: Kind,
    /// Decides what is a duplicate.
    pub msg_id: MsgId,
    /// CloudEvents attributes and our own headers, without `Nats-*`, which the stream crate adds. Values are
    /// printable ASCII without space, `"` or stray `%`.
    pub headers: Vec<(&'static str, String)>,
    /// The body, byte for byte as received.
    pub body: Bytes,
    /// The result it holds; None for what is no result.
    pub fact: Option<Fact>,
}

impl Event {
    /// The same event under the id of a divergent result, for a body that differs from what the stream holds under
    /// the task's own id. Unchanged when it is no result.
    pub fn into_divergent(mut self) -> Self {
        if let Some(fact) = &self.fact {
            self.msg_id = MsgId::of_divergent(fact);
            for (name, value) in &mut self.headers {
                if *name == header::CE_ID {
                    self.msg_id.as_str().clone_into(value);
                }
            }
        }
        self
    }
}

/// Why an event and its body do not belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Disagreement {
    /// The subject says another kind than the body.
    #[error("the subject is not that of the body")]
    Subject,
    /// The message id is not one that this body is stored under.
    #[error("the message id is not that of the body")]
    MsgId,
}

impl Disagreement {
    /// The stable name, for metrics and the column `parked.reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Subject => "subject_disagrees",
            Self::MsgId => "msg_id_disagrees",
        }
    }
}

/// Whether subject and message id of a stored event are those that its result is stored under. Without this, a
/// broker client that has no secret could slip one task's result in under another's name.
pub fn check_result(kind: Kind, msg_id: &str, fact: &Fact) -> Result<(), Disagreement> {
    if kind != Kind::from(fact.status) {
        Err(Disagreement::Subject)
    } else if !MsgId::names(msg_id, fact) {
        Err(Disagreement::MsgId)
    } else {
        Ok(())
    }
}

/// Whether subject and message id of a stored event are those of a body that holds no result.
pub fn check_other(
    kind: Kind,
    msg_id: &str,
    body: &[u8],
    read: &Result<Delivery<'_>, Unreadable>,
) -> Result<(), Disagreement> {
    let (expected, id) = match read {
        Ok(Delivery::NonFinal { .. }) => (Kind::NonFinal, MsgId::of_nonfinal(body)),
        Err(_) => (Kind::Quarantine, MsgId::of_quarantine(body)),
        // Tests are never appended, and a result has a check of its own.
        Ok(Delivery::Test | Delivery::Result(_)) => return Err(Disagreement::Subject),
    };
    if kind != expected {
        Err(Disagreement::Subject)
    } else if msg_id != id.as_str() {
        Err(Disagreement::MsgId)
    } else {
        Ok(())
    }
}
