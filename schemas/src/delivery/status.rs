//! How a task stands.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The two states that end a task. `Failed < Completed`: that order is part of the winner rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FinalStatus {
    /// The task ended without a result; its response holds the error.
    Failed,
    /// The task ended with a result.
    Completed,
}

impl FinalStatus {
    /// As the provider spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "FAILED",
            Self::Completed => "COMPLETED",
        }
    }
}

impl fmt::Display for FinalStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A status that ends no task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("neither COMPLETED nor FAILED")]
pub struct NotFinal;

impl FromStr for FinalStatus {
    type Err = NotFinal;

    /// Exact and case-sensitive: `completed` is a status that this version does not know.
    fn from_str(text: &str) -> Result<Self, NotFinal> {
        match text {
            "FAILED" => Ok(Self::Failed),
            "COMPLETED" => Ok(Self::Completed),
            _ => Err(NotFinal),
        }
    }
}

/// A status that does not end the task. Only two are known; an unknown one is worth an alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenStatus {
    /// Waits for its start.
    Queued,
    /// Runs, and may go back to the queue.
    Processing,
    /// Something else, its text cut to 64 characters.
    Unknown(String),
}

impl OpenStatus {
    pub(super) fn of(text: &str) -> Self {
        match text {
            "QUEUED" => Self::Queued,
            "PROCESSING" => Self::Processing,
            _ => Self::Unknown(text.chars().take(64).collect()),
        }
    }

    /// The status as sent, cut to 64 characters.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Queued => "QUEUED",
            Self::Processing => "PROCESSING",
            Self::Unknown(text) => text,
        }
    }
}

impl fmt::Display for OpenStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
