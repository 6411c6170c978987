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

/// The part of a rank that decides between two of them, for whoever wants to know why one is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// COMPLETED over FAILED.
    Status,
    /// The latest, none being lowest.
    CreatedAt,
    /// The greatest digest of the response, between events of one task.
    Digest,
    /// The greatest task id, between tasks of one job.
    TaskId,
}

impl Rule {
    /// The stable name: that of the column that it compares.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::CreatedAt => "created_at",
            Self::Digest => "response_digest",
            Self::TaskId => "task_id",
        }
    }
}

impl TaskRank {
    /// What decides between these two: the first part in which they differ. None when they are equal.
    pub fn decided_by(&self, other: &Self) -> Option<Rule> {
        [
            (Rule::Status, self.status == other.status),
            (Rule::CreatedAt, self.created_at == other.created_at),
            (Rule::Digest, self.digest == other.digest),
        ]
        .into_iter()
        .find_map(|(rule, equal)| (!equal).then_some(rule))
    }
}

impl JobRank {
    /// What decides between these two: the first part in which they differ. None when they are equal.
    pub fn decided_by(&self, other: &Self) -> Option<Rule> {
        [
            (Rule::Status, self.status == other.status),
            (Rule::CreatedAt, self.created_at == other.created_at),
            (Rule::TaskId, self.task_id == other.task_id),
        ]
        .into_iter()
        .find_map(|(rule, equal)| (!equal).then_some(rule))
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn status() -> impl Strategy<Value = FinalStatus> {
        prop_oneof![Just(FinalStatus::Completed), Just(FinalStatus::Failed)]
    }

    fn created_at() -> impl Strategy<Value = Option<OffsetDateTime>> {
        proptest::option::of((0..2_i64).prop_map(|at| OffsetDateTime::from_unix_timestamp(at).unwrap()))
    }

    proptest! {
        /// What is said to decide is what decides: by that part alone the order is the same.
        #[test]
        fn the_part_that_decides_alone_gives_the_order_of_the_whole(
            statuses in (status(), status()),
            times in (created_at(), created_at()),
            last in (0..2_u8, 0..2_u8),
        ) {
            let task = |status, created_at, last| TaskRank {
                status,
                created_at,
                digest: ResponseDigest::from_bytes([last; 32]),
            };
            let job = |status, created_at, last: u8| JobRank {
                status,
                created_at,
                task_id: last.to_string().parse().unwrap(),
            };
            let (a, b) = (task(statuses.0, times.0, last.0), task(statuses.1, times.1, last.1));
            let by = |rule| match rule {
                None => Ordering::Equal,
                Some(Rule::Status) => statuses.0.cmp(&statuses.1),
                Some(Rule::CreatedAt) => times.0.cmp(&times.1),
                Some(Rule::Digest | Rule::TaskId) => last.0.cmp(&last.1),
            };
            prop_assert_eq!(by(a.decided_by(&b)), a.cmp(&b));
            prop_assert_eq!(a.decided_by(&b).is_none(), a == b);
            let (a, b) = (job(statuses.0, times.0, last.0), job(statuses.1, times.1, last.1));
            prop_assert_eq!(by(a.decided_by(&b)), a.cmp(&b));
            prop_assert_eq!(a.decided_by(&b).is_none(), a == b);
        }
    }
}
