//! Why a delivery was refused.

use thiserror::Error;

/// Why a delivery was refused. All look the same from outside; the reason is for metrics only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[error("the signature was refused: {}", self.as_str())]
pub enum Refusal {
    /// A header of the scheme is missing.
    MissingHeader,
    /// The signature header is over [`MAX_HEADER_BYTES`](super::MAX_HEADER_BYTES).
    HeaderTooLong,
    /// A header that must occur once occurs twice, is not ASCII, or holds an id outside the scheme's rules.
    MalformedHeader,
    /// The signature list holds no `t`.
    MissingTimestamp,
    /// The timestamp is not a plain number of seconds.
    MalformedTimestamp,
    /// Two timestamps that differ.
    ConflictingTimestamps,
    /// Older than the tolerance.
    TooOld,
    /// Further ahead than the tolerance.
    TooNew,
    /// No signature of version 1.
    NoSignature,
    /// More than [`MAX_SIGNATURES`](super::MAX_SIGNATURES).
    TooManySignatures,
    /// No signature is that of these bytes under any key.
    NoMatch,
}

impl Refusal {
    /// All of them, for metrics that start at zero.
    pub const ALL: [Self; 11] = [
        Self::MissingHeader,
        Self::HeaderTooLong,
        Self::MalformedHeader,
        Self::MissingTimestamp,
        Self::MalformedTimestamp,
        Self::ConflictingTimestamps,
        Self::TooOld,
        Self::TooNew,
        Self::NoSignature,
        Self::TooManySignatures,
        Self::NoMatch,
    ];

    /// The stable name, for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MissingHeader => "missing_header",
            Self::HeaderTooLong => "header_too_long",
            Self::MalformedHeader => "malformed_header",
            Self::MissingTimestamp => "missing_timestamp",
            Self::MalformedTimestamp => "malformed_timestamp",
            Self::ConflictingTimestamps => "conflicting_timestamps",
            Self::TooOld => "timestamp_too_old",
            Self::TooNew => "timestamp_too_new",
            Self::NoSignature => "no_v1_signature",
            Self::TooManySignatures => "too_many_signatures",
            Self::NoMatch => "no_match",
        }
    }
}
