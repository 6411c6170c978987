//! What became of a message, and what the broker is told about it. The one place where the two meet.

use std::time::Duration;

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Its result is in the tables: as a row, or as a copy or an older state of one.
    Projected,
    /// It is listed in `parked`, with its reason.
    Parked,
    /// It was of a task that has not ended.
    Counted,
    /// Nothing yet; it is to come back.
    Retry {
        /// Not before this.
        after: Duration,
    },
}

/// What the broker is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledgment {
    /// Done: never again.
    Ack,
    /// Deliver it again, after a while. A delay is always given: without one it would come back at once.
    Later(Duration),
}

impl Outcome {
    /// Parked messages are done as well: what is listed with its reason is not lost, and delivering it for ever would use up
    /// the room of others.
    pub fn acknowledgment(self) -> Acknowledgment {
        match self {
            Self::Projected | Self::Parked | Self::Counted => Acknowledgment::Ack,
            Self::Retry { after } => Acknowledgment::Later(after),
        }
    }
}
