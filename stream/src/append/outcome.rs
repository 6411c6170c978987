//! What became of an appended event.

use thiserror::Error;

/// The event is on the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It was stored under this sequence.
    Stored {
        /// Its sequence on the stream.
        seq: u64,
    },
    /// The same result was there already.
    Duplicate {
        /// The sequence of the one that was there.
        seq: u64,
    },
    /// Another result of the same task was there, or the broker remembers the id of one that is gone; this one was
    /// stored beside it under an id of its own.
    Divergent {
        /// Its sequence on the stream.
        seq: u64,
    },
}

impl Appended {
    /// The sequence that holds the event.
    pub fn seq(self) -> u64 {
        match self {
            Self::Stored { seq } | Self::Duplicate { seq } | Self::Divergent { seq } => seq,
        }
    }

    /// `stored`, `duplicate` or `divergent`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stored { .. } => "stored",
            Self::Duplicate { .. } => "duplicate",
            Self::Divergent { .. } => "divergent",
        }
    }
}

/// The event may not be on the stream. After every error the same event can safely be appended again.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
pub enum AppendError {
    /// No answer within the publish limit. Whether the event was stored is not known.
    #[error("the broker did not answer within the publish limit")]
    TimedOut,
    /// There was no connection to the broker until the publish limit, or for longer than that already.
    #[error("there is no connection to the broker")]
    Disconnected,
    /// The broker answered until the publish limit that it cannot store anything now.
    #[error("the broker cannot store events now: {0}")]
    Unavailable(String),
    /// The stream, or the space the broker has for it, is full.
    #[error("the stream is full: {0}")]
    StreamFull(String),
    /// The subject leads to another stream than the one that was declared.
    #[error("the subject belongs to another stream: {0}")]
    WrongStream(String),
    /// The event is larger than the broker or the stream takes.
    #[error("the event is larger than the {limit} bytes that the broker takes")]
    TooLarge {
        /// The largest message, headers and body together, in bytes.
        limit: usize,
    },
    /// The broker refused the event for another reason.
    #[error("the broker refuses the event: {description} ({code})")]
    Refused {
        /// The broker's error code, such as 10109 for a sealed stream.
        code: u64,
        /// The broker's words.
        description: String,
    },
    /// The broker calls the event a duplicate of one that is gone, also under its second id.
    #[error("the broker remembers the event but does not have it")]
    Vanished,
    /// More events wait for the broker than are kept in memory.
    #[error("too many events wait for the broker")]
    Overloaded,
    /// The appender was stopped.
    #[error("the appender has stopped")]
    Stopped,
}

impl AppendError {
    /// Whether the same event may be stored when it is appended again later, without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::TimedOut | Self::Disconnected | Self::Unavailable(_) | Self::StreamFull(_) => true,
            Self::Vanished | Self::Overloaded | Self::Stopped => true,
            Self::WrongStream(_) | Self::TooLarge { .. } | Self::Refused { .. } => false,
        }
    }

    /// A stable name in snake case, for metrics and answers.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::TimedOut => "timed_out",
            Self::Disconnected => "disconnected",
            Self::Unavailable(_) => "unavailable",
            Self::StreamFull(_) => "stream_full",
            Self::WrongStream(_) => "wrong_stream",
            Self::TooLarge { .. } => "too_large",
            Self::Refused { .. } => "refused",
            Self::Vanished => "vanished",
            Self::Overloaded => "overloaded",
            Self::Stopped => "stopped",
        }
    }
}
