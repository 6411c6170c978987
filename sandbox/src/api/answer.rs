//! What the API answers: the one place for its status codes and the form of its errors.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::provider::body::timestamp;
use crate::provider::{NotFound, QueueStatus, Refused};

/// Why a call is refused.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Problem {
    /// The body does not say what is needed.
    Invalid(Vec<Violation>),
    /// The body is too large.
    TooLarge,
    /// The key is absent or wrong.
    Unauthorized,
    /// There is no such task, or no such delivery.
    NotFound(&'static str),
    /// The model says no to creating a task with this key, or to a step of the dashboard.
    Refused(Refused, Option<String>),
    /// Too many calls of this kind within a second.
    TooOften {
        /// How many there may be.
        limit: u32,
    },
    /// There is no such path.
    NoPath,
    /// The path takes other methods.
    NoMethod,
}

/// One field that is wrong, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Violation {
    /// The field.
    pub(crate) field: &'static str,
    /// What is wrong with it.
    pub(crate) message: String,
}

impl From<NotFound> for Problem {
    fn from(_: NotFound) -> Self {
        Self::NotFound("task")
    }
}

impl Problem {
    fn status(&self) -> StatusCode {
        match self {
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NotFound(_) | Self::NoPath => StatusCode::NOT_FOUND,
            Self::TooOften { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::NoMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::Refused(refused, _) => match refused {
                Refused::QueueFull { .. } | Refused::TooManyRedeliveries { .. } => {
                    StatusCode::TOO_MANY_REQUESTS
                }
                Refused::KeyTaken
                | Refused::NotQueued(_)
                | Refused::Busy { .. }
                | Refused::NotProcessing(_)
                | Refused::AlreadyEnded(_)
                | Refused::TaskGone
                | Refused::StillPending => StatusCode::CONFLICT,
            },
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Refused(Refused::QueueFull { .. }, _) => "QUEUE_LIMIT_EXCEEDED",
            Self::NoPath => "NOT_FOUND",
            _ => code_of(self.status()),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Invalid(_) => "The request is not valid".to_owned(),
            Self::TooLarge => "The request is too large".to_owned(),
            Self::Unauthorized => "The API key is missing or wrong".to_owned(),
            Self::NotFound(what) => format!("No {what} of this id is kept"),
            Self::Refused(refused, _) => {
                let text = refused.to_string();
                let mut letters = text.chars();
                letters
                    .next()
                    .into_iter()
                    .flat_map(char::to_uppercase)
                    .chain(letters)
                    .collect()
            }
            Self::TooOften { limit } => format!("There may be {limit} such calls a second"),
            Self::NoPath => "There is nothing at this path".to_owned(),
            Self::NoMethod => "This path takes other methods".to_owned(),
        }
    }

    fn details(&self) -> Option<Value> {
        match self {
            Self::Invalid(violations) => Some(json!(violations)),
            Self::Refused(Refused::KeyTaken, key) => Some(json!({"field": "idempotencyKey", "value": key})),
            Self::Refused(Refused::QueueFull { limit } | Refused::TooManyRedeliveries { limit }, _) => {
                Some(json!({"limit": limit}))
            }
            Self::TooOften { limit } => Some(json!({"limit": limit})),
            Self::TooLarge
            | Self::Unauthorized
            | Self::NotFound(_)
            | Self::Refused(..)
            | Self::NoPath
            | Self::NoMethod => None,
        }
    }

    /// The answer that says so.
    pub(crate) fn response(&self, now: OffsetDateTime) -> Response {
        error(self.status(), self.code(), &self.message(), self.details(), now)
    }
}

/// An error with a status alone, as something in front of the provider might answer it.
pub(super) fn bare_error(status: StatusCode, now: OffsetDateTime) -> Response {
    let message = status.canonical_reason().unwrap_or("Error");
    error(status, code_of(status), message, None, now)
}

fn error(
    status: StatusCode,
    code: &str,
    message: &str,
    details: Option<Value>,
    now: OffsetDateTime,
) -> Response {
    #[derive(Serialize)]
    struct Answer<'a> {
        success: bool,
        error: Error<'a>,
    }
    #[derive(Serialize)]
    struct Error<'a> {
        code: &'a str,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
        timestamp: String,
    }
    let answer = Answer {
        success: false,
        error: Error {
            code,
            message,
            details,
            timestamp: timestamp(now),
        },
    };
    json_response(status, to_json(&answer))
}

fn code_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "VALIDATION_ERROR",
        401 => "UNAUTHORIZED",
        403 => "FORBIDDEN",
        404 => "RESOURCE_NOT_FOUND",
        405 => "METHOD_NOT_ALLOWED",
        409 => "RESOURCE_CONFLICT",
        410 => "RESOURCE_GONE",
        413 => "PAYLOAD_TOO_LARGE",
        429 => "RATE_LIMIT_EXCEEDED",
        503 => "SERVICE_UNAVAILABLE",
        500..=599 => "INTERNAL_SERVER_ERROR",
        _ => "ERROR",
    }
}

/// 200 with a body that is JSON already.
pub(crate) fn ok(body: Bytes) -> Response {
    json_response(StatusCode::OK, body)
}

/// 200 with this as JSON.
pub(crate) fn ok_json(value: &impl Serialize) -> Response {
    ok(to_json(value))
}

/// The answer to a look at the queue.
pub(super) fn queue_status(status: &QueueStatus) -> Response {
    let by_priority = status.by_priority.iter();
    let by_priority: Vec<Value> = by_priority
        .map(|(priority, count)| json!({"priority": priority, "count": count}))
        .collect();
    ok_json(&json!({
        "queuedTasks": status.queued,
        "processingTasks": status.processing,
        "priorityBreakdown": by_priority,
        "concurrency": status.concurrency.map(|max| json!({"used": status.processing, "max": max})),
    }))
}

/// The answer to clearing the queue.
pub(super) fn cleared(count: usize) -> Response {
    ok_json(&json!({"success": true, "cleared": count}))
}

fn to_json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value)
        .expect("strings and numbers always serialize")
        .into()
}

fn json_response(status: StatusCode, body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json; charset=utf-8"),
    );
    response
}
