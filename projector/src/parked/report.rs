//! What came of trying an event again.

use std::fmt;

use serde::Serialize;
use time::OffsetDateTime;

/// What came of one event, for programs.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) stream_seq: u64,
    #[serde(with = "time::serde::rfc3339")]
    pub(super) stream_created: OffsetDateTime,
    pub(super) task_id: Option<String>,
    /// Whether the event was read from the stream, or from the body kept in `parked`.
    pub(super) source: Source,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    Stream,
    KeptBody,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(super) enum Outcome {
    /// It is in the tables now.
    Projected {
        /// It changed the row of its task. Otherwise that came from a greater event.
        changed: bool,
    },
    /// Its task has not ended: it is off the list, and there is nothing to make a row of.
    NotFinal,
    /// It stays.
    Parked { reason: String, detail: Option<String> },
    /// Somebody else has seen to it meanwhile.
    Gone,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.stream_seq)?;
        let task = self.task_id.as_deref().unwrap_or("-");
        match &self.outcome {
            Outcome::Projected { changed: true } => write!(f, "task {task} has a row of it now")?,
            Outcome::Projected { changed: false } => {
                write!(f, "task {task} has a row of a greater event; this one is in")?;
            }
            Outcome::NotFinal => write!(f, "its task has not ended; counted")?,
            Outcome::Parked { reason, detail: None } => write!(f, "stays parked: {reason}")?,
            Outcome::Parked {
                reason,
                detail: Some(detail),
            } => write!(f, "stays parked: {reason}: {detail}")?,
            Outcome::Gone => write!(f, "not parked any more")?,
        }
        if self.source == Source::KeptBody && !matches!(self.outcome, Outcome::Gone | Outcome::Parked { .. })
        {
            write!(f, " (from the kept body: the stream does not hold it any more)")?;
        }
        Ok(())
    }
}
