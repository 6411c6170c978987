//! Which result an event holds, and whether its names agree with it.

use thiserror::Error;

use super::{Kind, MsgId};
use crate::delivery::{self, Delivery, FinalStatus, TaskId, TaskResult, Unreadable};
use crate::digest::ResponseDigest;

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

    /// The fact that a stored body states; None when it is not a result.
    pub fn read(body: &[u8]) -> Option<Self> {
        match delivery::read(body) {
            Ok(Delivery::Result(result)) => Some(Self::of(&result)),
            Ok(Delivery::Test | Delivery::NonFinal { .. }) | Err(_) => None,
        }
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

/// Whether this very body was filed as one that holds no result: as not final, or as unreadable.
///
/// The version that received it decided so, and its reading can be improved upon: what a later version reads in the body
/// counts then, for the id says that the body is the one that was filed.
pub fn is_filed_unread(kind: Kind, msg_id: &str, body: &[u8]) -> bool {
    match kind {
        Kind::NonFinal => MsgId::of_nonfinal(body).names_body(msg_id),
        Kind::Quarantine => MsgId::of_quarantine(body).names_body(msg_id),
        Kind::Completed | Kind::Failed => false,
    }
}

/// Whether subject and message id of a stored event are those of a body that holds no result, which has two ids as well.
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
    } else if !id.names_body(msg_id) {
        Err(Disagreement::MsgId)
    } else {
        Ok(())
    }
}
