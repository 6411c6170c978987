//! What the handlers of the dashboard work on, and how they read and answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::response::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use time::OffsetDateTime;

use super::fault_request::invalid;
use crate::api::answer::{Problem, ok_json};
use crate::api::routes::Parts;
use crate::provider::Provider;
use crate::provider::secrets::Secret;
use crate::runner::Hold;
use crate::seed::Seed;
use crate::sender::Losses;

/// Entries of a list where nobody says otherwise.
const LISTED: usize = 100;

/// What the dashboard works on.
#[derive(Clone)]
pub(super) struct Dashboard {
    pub(super) parts: Parts,
    pub(super) losses: Losses,
    pub(super) hold: Hold,
    seed: Seed,
    /// How many secrets there were.
    secrets: Arc<AtomicU64>,
}

impl Dashboard {
    /// The dashboard of an account whose first secret is number 0 of `seed`.
    pub(super) fn new(parts: Parts, losses: Losses, hold: Hold, seed: Seed) -> Self {
        Self {
            parts,
            losses,
            hold,
            seed,
            secrets: Arc::new(AtomicU64::new(1)),
        }
    }

    pub(super) fn now(&self) -> OffsetDateTime {
        self.parts.clock.now()
    }

    /// Looks at the account or changes it.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Provider) -> T) -> T {
        self.parts.account.with(work)
    }

    /// A secret that there was not yet.
    pub(super) fn next_secret(&self) -> Secret {
        Secret::generate(self.seed, self.secrets.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn answer(&self, answer: Result<Value, Problem>) -> Response {
        match answer {
            Ok(value) => ok_json(&value),
            Err(problem) => problem.response(self.now()),
        }
    }
}

/// What of a list is wanted.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Filter {
    pub(super) state: Option<String>,
    limit: Option<usize>,
}

impl Filter {
    pub(super) fn read(query: Result<Query<Self>, QueryRejection>) -> Result<Self, Problem> {
        query
            .map(|Query(filter)| filter)
            .map_err(|refused| invalid("query", refused.body_text()))
    }

    pub(super) fn limit(&self) -> usize {
        self.limit.unwrap_or(LISTED)
    }
}

/// Reads a body; an empty one is an object without members.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| invalid("body", error.to_string()))
}
