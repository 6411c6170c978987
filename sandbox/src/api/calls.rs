//! What the API was asked, and what it answered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use http::Method;
use serde::Deserialize;
use time::{Duration, OffsetDateTime};

use crate::account::lock;

/// The latest calls are kept up to here, so that a provider that runs for days does not grow.
const KEPT: usize = 100_000;

/// What a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Operation {
    /// `POST /v1/async/task`.
    Create,
    /// `GET /v1/async/task/{id}`.
    Get,
    /// `GET /v1/async/status`.
    Status,
    /// `DELETE /v1/async/queue`.
    Clear,
    /// Something that the API does not have.
    Unknown,
}

impl Operation {
    /// The word by which a person names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::Status => "status",
            Self::Clear => "clear",
            Self::Unknown => "unknown",
        }
    }
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// When its head had arrived.
    pub at: OffsetDateTime,
    /// What it asks for.
    pub operation: Operation,
    /// The method.
    pub method: Method,
    /// The path as it came, percent-encoding included.
    pub path: String,
    /// The task id in the path, decoded.
    pub task: Option<String>,
    /// The status that was answered; `None` while there is none, and when there never is.
    pub status: Option<u16>,
}

/// The log of calls. Clones are the same log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    kept: VecDeque<Call>,
    /// How many calls came before the first that is kept.
    dropped: u64,
    open: usize,
    most_open: usize,
}

/// A call that is being answered; it counts as under way until this is dropped.
pub(super) struct Open {
    log: Calls,
    place: u64,
}

impl Calls {
    pub(crate) fn all(&self) -> Vec<Call> {
        lock(&self.0).kept.iter().cloned().collect()
    }

    pub(super) fn most_at_once(&self) -> usize {
        lock(&self.0).most_open
    }

    /// How many calls for `operation` were admitted within the second before `now`.
    pub(super) fn lately(&self, operation: Operation, now: OffsetDateTime) -> usize {
        let log = lock(&self.0);
        let lately = log
            .kept
            .iter()
            .rev()
            .take_while(|call| now - call.at < Duration::SECOND);
        lately
            .filter(|call| call.operation == operation && call.status != Some(429))
            .count()
    }

    pub(super) fn open(&self, call: Call) -> Open {
        let mut log = lock(&self.0);
        let place = log.dropped + log.kept.len() as u64;
        log.kept.push_back(call);
        if log.kept.len() > KEPT {
            log.kept.pop_front();
            log.dropped += 1;
        }
        log.open += 1;
        log.most_open = log.most_open.max(log.open);
        Open {
            log: self.clone(),
            place,
        }
    }
}

impl Open {
    /// Notes the answer.
    pub(super) fn answered(&self, status: u16) {
        let mut log = lock(&self.log.0);
        let place = self.place.checked_sub(log.dropped);
        let kept = place.and_then(|place| usize::try_from(place).ok());
        if let Some(call) = kept.and_then(|place| log.kept.get_mut(place)) {
            call.status = Some(status);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        lock(&self.log.0).open -= 1;
    }
}
