//! How tasks end.

use rand::Rng;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::task::Status;
use super::text;

/// How a task ended: its final status and its `response`, which is any JSON.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub(super) status: Status,
    pub(super) response: Box<RawValue>,
}

impl Outcome {
    /// An answer of about 2 KB: text and the sources that it leans on.
    pub fn completed(rng: &mut impl Rng) -> Self {
        let length = rng.random_range(700..1_300);
        Self::answered(rng, length)
    }

    /// An answer with a text of at least `length` bytes; its sources are about another kilobyte.
    pub fn answered(rng: &mut impl Rng, length: usize) -> Self {
        #[derive(Serialize)]
        struct Response {
            result: Answer,
        }
        #[derive(Serialize)]
        struct Answer {
            text: String,
            sources: Vec<text::Source>,
            confidence: f64,
            model: Option<&'static str>,
        }
        let answer = Answer {
            text: text::prose(rng, length),
            sources: text::sources(rng),
            confidence: f64::from(rng.random_range(1..100_u8)) / 100.0,
            model: rng.random_bool(0.5).then_some("standard"),
        };
        Self {
            status: Status::Completed,
            response: raw(&Response { result: answer }),
        }
    }

    /// One of the errors that the provider documents.
    pub fn failed(rng: &mut impl Rng) -> Self {
        match rng.random_range(0..3_u8) {
            0 => Self::queue_wait_exceeded(),
            1 => Self::timed_out(),
            _ => Self::error(
                "INTERNAL_SERVER_ERROR",
                "Maximum retries exceeded",
                Some(Details {
                    attempts: rng.random_range(2..6),
                }),
            ),
        }
    }

    /// The end of a task that never started.
    pub fn queue_wait_exceeded() -> Self {
        Self::error(
            "QUEUE_WAIT_EXCEEDED",
            "The task waited four hours without starting",
            None,
        )
    }

    /// The end of a task that ran too long.
    pub fn timed_out() -> Self {
        Self::error(
            "INTERNAL_SERVER_ERROR",
            "Maximum timeout (5 minutes) exceeded",
            None,
        )
    }

    /// An end with a `response` of the caller's choice.
    ///
    /// # Panics
    /// If `status` is not final, or `response` is not JSON.
    pub fn with_response(status: Status, response: &str) -> Self {
        assert!(status.is_final(), "{status} ends no task");
        let response = RawValue::from_string(response.to_owned()).expect("a response is JSON");
        Self { status, response }
    }

    fn error(code: &'static str, message: &'static str, details: Option<Details>) -> Self {
        #[derive(Serialize)]
        struct Response {
            error: Error,
        }
        #[derive(Serialize)]
        struct Error {
            code: &'static str,
            message: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            details: Option<Details>,
        }
        let error = Error {
            code,
            message,
            details,
        };
        Self {
            status: Status::Failed,
            response: raw(&Response { error }),
        }
    }
}

#[derive(Serialize)]
struct Details {
    attempts: u8,
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("strings and numbers always serialize")
}
