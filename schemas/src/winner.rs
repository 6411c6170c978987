//! The winner rule: total orders, so that every row is a maximum over the set of events.
//!
//! A maximum does not care in which order, how often, in what batches or by how many projectors the events
//! are applied. Nothing here may depend on arrival: no "first", no "last".
//!
//! - A task's row is that of its event with the greatest ([`TaskRank`], [`Provenance`]).
//! - A job's winner is the task of its event with the greatest [`JobRank`]; among equals, which are events of one
//!   task, the row names the lowest sequence. Events count here, not rows: should two events of one task name
//!   different jobs, the task competes in both. (Were rows to count, a row that changes its job would leave the old job, whose
//!   winner would have to go back to a lesser one, and a maximum only grows.)

use std::cmp::{Ordering, Reverse};

use time::OffsetDateTime;

use crate::delivery::{FinalStatus, TaskId};
use crate::digest::ResponseDigest;

/// Where an event stands among the events of its task: COMPLETED over FAILED, then the latest `created_at`
/// (none is lowest), then the greatest response digest. The order of the fields is the rule.
///
/// Events of equal rank are copies of each other; [`Provenance`] decides between them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskRank {
    /// COMPLETED over FAILED.
    pub status: FinalStatus,
    /// Cut to microseconds, as Postgres holds it.
    pub created_at: Option<OffsetDateTime>,
    /// No meaning in its order; it only makes the order total.
    pub digest: ResponseDigest,
}

/// Where an event stands among its copies. **The earlier is the greater**: the earliest stream timestamp,
/// then the lowest sequence, so that a maximum picks the copy that came first, and a replay picks it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Provenance {
    /// The stream's timestamp, cut to microseconds.
    pub received_at: OffsetDateTime,
    /// The stream's sequence.
    pub stream_seq: u64,
}

impl Ord for Provenance {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |p: &Self| Reverse((p.received_at, p.stream_seq));
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Provenance {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Where a task stands among the tasks of its job: COMPLETED over FAILED, then the latest `created_at` (none
/// is lowest), then the greatest task id in byte order. The order of the fields is the rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobRank {
    /// COMPLETED over FAILED.
    pub status: FinalStatus,
    /// Cut to microseconds, as Postgres holds it.
    pub created_at: Option<OffsetDateTime>,
    /// Byte order, `collate "C"` in SQL.
    pub task_id: TaskId,
}
