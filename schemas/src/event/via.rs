//! How an event came to the stream.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// How an event came to the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Via {
    /// A signed delivery.
    Webhook,
    /// A poll.
    Reconciler,
}

impl Via {
    /// As written in the header and in the column `via`.
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
