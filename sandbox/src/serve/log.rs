//! The delivery log as JSON.

use http::Uri;
use serde::Serialize;
use time::OffsetDateTime;

use crate::provider::Provider;
use crate::provider::body::timestamp;
use crate::provider::delivery::{Attempt, Delivery, Reply, State, Subject};

/// One delivery as the log lists it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    number: u64,
    webhook_id: String,
    /// `null` for a test delivery.
    task_id: Option<String>,
    state: &'static str,
    #[serde(serialize_with = "as_text")]
    url: Uri,
    created_at: String,
    attempts: usize,
    last_status: Option<u16>,
    last_error: Option<String>,
    next_attempt_at: Option<String>,
    delivered_at: Option<String>,
}

/// One delivery with all its attempts.
#[derive(Debug, Serialize)]
pub(super) struct Detail {
    #[serde(flatten)]
    entry: Entry,
    log: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Line {
    at: String,
    status: Option<u16>,
    error: Option<String>,
}

impl Entry {
    pub(super) fn of(provider: &Provider, delivery: &Delivery) -> Self {
        Self {
            number: delivery.number.0,
            webhook_id: delivery.webhook_id.clone(),
            task_id: match delivery.subject {
                Subject::Task(task) => Some(provider.task(task).id.clone()),
                Subject::Test => None,
            },
            state: delivery.standing().as_str(),
            url: delivery.url.clone(),
            created_at: timestamp(delivery.opened),
            attempts: delivery.attempts.len(),
            last_status: delivery.last_status(),
            last_error: delivery.last_error(),
            next_attempt_at: next_attempt(delivery).map(timestamp),
            delivered_at: delivery.delivered_at().map(timestamp),
        }
    }
}

impl Detail {
    pub(super) fn of(provider: &Provider, delivery: &Delivery) -> Self {
        Self {
            entry: Entry::of(provider, delivery),
            log: delivery.attempts.iter().map(Line::of).collect(),
        }
    }
}

impl Line {
    fn of(attempt: &Attempt) -> Self {
        let (status, error) = match &attempt.reply {
            None => (None, None),
            Some(Reply::Status(status)) => (Some(*status), None),
            Some(Reply::Nothing(error)) => (None, Some(error.clone())),
        };
        Self {
            at: timestamp(attempt.begun),
            status,
            error,
        }
    }
}

fn next_attempt(delivery: &Delivery) -> Option<OffsetDateTime> {
    match delivery.state {
        State::Pending(at) => Some(at),
        State::Sending | State::Delivered(_) | State::Dead => None,
    }
}

fn as_text<S: serde::Serializer>(url: &Uri, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(url)
}
