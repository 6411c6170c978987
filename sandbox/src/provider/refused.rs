//! Why the model refuses a step.

use thiserror::Error;

use super::task::Status;

/// Why the model refused a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refused {
    /// A task with this idempotency key exists.
    #[error("a task with this idempotency key exists")]
    KeyTaken,
    /// The queue holds as many tasks as it may.
    #[error("the queue holds {limit} tasks, which is its limit")]
    QueueFull {
        /// The limit.
        limit: usize,
    },
    /// Only a queued task can start.
    #[error("the task is {0}, not QUEUED")]
    NotQueued(Status),
    /// As many tasks run as may.
    #[error("{max} tasks are running, which is the limit")]
    Busy {
        /// The limit.
        max: usize,
    },
    /// Only a running task goes back to the queue.
    #[error("the task is {0}, not PROCESSING")]
    NotProcessing(Status),
    /// A task ends once.
    #[error("the task is {0} already")]
    AlreadyEnded(Status),
    /// The provider no longer knows the task.
    #[error("the task is no longer kept")]
    TaskGone,
    /// It is still tried by itself.
    #[error("the delivery is still pending")]
    StillPending,
    /// The redeliveries of this hour are used up.
    #[error("there were {limit} redeliveries within the hour, which is the limit")]
    TooManyRedeliveries {
        /// The limit.
        limit: usize,
    },
}

/// No task of this id is kept: it never was, it was cleared from the queue, or its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no task of this id is kept")]
pub struct NotFound;
