//! What could not be kept as sent.

use std::fmt;

/// Something that was not kept as sent, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Problem {
    /// `createdAt` is not a timestamp.
    CreatedAtNotATimestamp,
    /// `createdAt` is before 2000.
    CreatedAtBefore2000,
    /// `createdAt` is more than a day after the stream's own timestamp.
    CreatedAtInFuture,
    /// `idempotencyKey` is not a string.
    KeyNotAString,
    /// `idempotencyKey` is over [`MAX_KEY_BYTES`](super::MAX_KEY_BYTES).
    KeyTooLong,
    /// `idempotencyKey` holds a control character or a lone surrogate.
    KeyInvalidText,
    /// A final task without `response`.
    ResponseMissing,
}

impl Problem {
    /// A few words for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreatedAtNotATimestamp => "createdAt is not a timestamp",
            Self::CreatedAtBefore2000 => "createdAt is before 2000",
            Self::CreatedAtInFuture => "createdAt is over a day ahead of the stream",
            Self::KeyNotAString => "idempotencyKey is not a string",
            Self::KeyTooLong => "idempotencyKey is longer than 1024 bytes",
            Self::KeyInvalidText => "idempotencyKey holds a control character or a lone surrogate",
            Self::ResponseMissing => "response is missing",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Joins problems with `; `, the form of the column `problem`.
pub struct Problems<'p>(pub &'p [Problem]);

impl fmt::Display for Problems<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}
