//! A task of the provider, and the body that tells of it.

use std::fmt;

use bytes::Bytes;
use rand::Rng;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{Duration, OffsetDateTime};

use super::text;

/// The engines that a task can ask.
pub const TASK_TYPES: &[&str] = &[
    "CHATGPT",
    "GEMINI",
    "COPILOT",
    "PERPLEXITY",
    "GROK",
    "AIMODE",
    "GOOGLE",
    "GOOGLE_NEWS",
];

const TIMESTAMP: &[BorrowedFormatItem<'static>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// What an application asks for when it creates a task.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// The engine to ask.
    pub task_type: &'static str,
    /// 1 to 10.
    pub priority: u8,
    /// Names the job; taken once and for all.
    pub idempotency_key: Option<String>,
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// It waits for its turn.
    Queued,
    /// It runs.
    Processing,
    /// It ended with an error.
    Failed,
    /// It ended with a result.
    Completed,
}

impl Status {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "QUEUED",
            Self::Processing => "PROCESSING",
            Self::Failed => "FAILED",
            Self::Completed => "COMPLETED",
        }
    }

    /// Whether it ends a task.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Failed | Self::Completed)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a task ended: its final status and its `response`, which is any JSON.
#[derive(Debug, Clone)]
pub struct Outcome {
    status: Status,
    response: Box<RawValue>,
}

impl Outcome {
    /// An answer of about 2 KB: text and the sources that it leans on.
    pub fn completed(rng: &mut impl Rng) -> Self {
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
        let length = rng.random_range(700..1_300);
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
        #[derive(Serialize)]
        struct Details {
            attempts: u8,
        }
        let (code, message, details) = match rng.random_range(0..3_u8) {
            0 => (
                "QUEUE_WAIT_EXCEEDED",
                "The task waited four hours without starting",
                None,
            ),
            1 => (
                "INTERNAL_SERVER_ERROR",
                "Maximum timeout (5 minutes) exceeded",
                None,
            ),
            _ => (
                "INTERNAL_SERVER_ERROR",
                "Maximum retries exceeded",
                Some(Details {
                    attempts: rng.random_range(2..6),
                }),
            ),
        };
        Self {
            status: Status::Failed,
            response: raw(&Response {
                error: Error {
                    code,
                    message,
                    details,
                },
            }),
        }
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
}

/// One task, from its creation to its end.
#[derive(Debug, Clone)]
pub struct Task {
    /// A UUID.
    pub id: String,
    /// What was asked for.
    pub request: NewTask,
    /// When it was created, in whole milliseconds.
    pub created_at: OffsetDateTime,
    /// When it first ran.
    pub started_at: Option<OffsetDateTime>,
    /// When it ended.
    pub finished_at: Option<OffsetDateTime>,
    /// Where it stands.
    pub status: Status,
    /// The result or the error, once it has ended.
    pub response: Option<Box<RawValue>>,
}

impl Task {
    pub(super) fn new(rng: &mut impl Rng, request: NewTask, created_at: OffsetDateTime) -> Self {
        let whole = created_at
            .replace_millisecond(created_at.millisecond())
            .expect("a millisecond that was there");
        Self {
            id: uuid(rng),
            request,
            created_at: whole,
            started_at: None,
            finished_at: None,
            status: Status::Queued,
            response: None,
        }
    }

    pub(super) fn end(&mut self, outcome: Outcome, at: OffsetDateTime) {
        self.status = outcome.status;
        self.response = Some(outcome.response);
        self.finished_at = Some(at);
    }

    /// The task as JSON: what a webhook delivers, and what the API will answer for it.
    pub fn body(&self) -> Bytes {
        let charge = 3 + self.request.priority % 3;
        let latency = self
            .started_at
            .zip(self.finished_at)
            .map(|(start, end)| (end - start).max(Duration::ZERO));
        let body = Body {
            test: None,
            task: Envelope {
                id: &self.id,
                task_type: Some(self.request.task_type),
                status: self.status.as_str(),
                priority: Some(self.request.priority),
                created_at: timestamp(self.created_at),
                latency_ms: Some(
                    latency.map(|latency| latency.whole_milliseconds().try_into().unwrap_or(i64::MAX)),
                ),
                idempotency_key: self.request.idempotency_key.as_deref(),
            },
            credits: Some(Credits {
                credits_to_charge: charge,
                credits_charged: match self.status {
                    Status::Completed => Some(charge),
                    Status::Failed => Some(0),
                    Status::Queued | Status::Processing => None,
                },
            }),
            response: self.response.as_deref(),
        };
        body.render()
    }
}

/// The body of a test delivery: a sample of no task.
pub(super) fn test_body(now: OffsetDateTime) -> Bytes {
    let response = raw(&serde_json::json!({"result": {"text": "This is a test delivery.", "sources": []}}));
    let body = Body {
        test: Some(true),
        task: Envelope {
            id: "task_sample",
            task_type: None,
            status: Status::Completed.as_str(),
            priority: None,
            created_at: timestamp(now),
            latency_ms: None,
            idempotency_key: None,
        },
        credits: None,
        response: Some(&response),
    };
    body.render()
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<bool>,
    task: Envelope<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credits: Option<Credits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<&'a RawValue>,
}

impl Body<'_> {
    fn render(&self) -> Bytes {
        serde_json::to_vec(self)
            .expect("strings, numbers and raw JSON always serialize")
            .into()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_type: Option<&'static str>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    created_at: String,
    /// Outer `None`: the field is not sent; inner: it is sent as null.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<Option<i64>>,
    idempotency_key: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Credits {
    credits_to_charge: u8,
    credits_charged: Option<u8>,
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("strings and numbers always serialize")
}

/// RFC 3339 in UTC with three decimals, as the provider writes it.
fn timestamp(at: OffsetDateTime) -> String {
    at.to_offset(time::UtcOffset::UTC)
        .format(TIMESTAMP)
        .expect("a year of four digits")
}

/// A random UUID (version 4).
pub(crate) fn uuid(rng: &mut impl Rng) -> String {
    let bits: u128 = rng.random();
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use time::macros::datetime;

    use super::*;
    use crate::seed::Seed;

    fn finished(outcome: Outcome) -> Value {
        let mut rng = Seed(1).rng("task", 0);
        let request = NewTask {
            task_type: "GEMINI",
            priority: 4,
            idempotency_key: Some("kettles|DE".to_owned()),
        };
        let mut task = Task::new(&mut rng, request, datetime!(2026-11-30 11:57:12.418_765 UTC));
        task.started_at = Some(datetime!(2026-11-30 11:58:00 UTC));
        task.end(outcome, datetime!(2026-11-30 11:58:41.873 UTC));
        serde_json::from_slice(&task.body()).unwrap()
    }

    #[test]
    fn a_completed_body_has_the_documented_fields() {
        let body = finished(Outcome::completed(&mut Seed(1).rng("outcome", 0)));
        assert_eq!(body["task"]["status"], "COMPLETED");
        assert_eq!(body["task"]["createdAt"], "2026-11-30T11:57:12.418Z");
        assert_eq!(body["task"]["latencyMs"], 41_873);
        assert_eq!(body["task"]["idempotencyKey"], "kettles|DE");
        assert_eq!(
            body["credits"]["creditsCharged"],
            body["credits"]["creditsToCharge"]
        );
        assert!(body["response"]["result"]["sources"].as_array().unwrap().len() >= 3);
        assert!(body.get("test").is_none());
    }

    #[test]
    fn a_failed_body_has_an_error_and_costs_nothing() {
        let body = finished(Outcome::failed(&mut Seed(1).rng("outcome", 0)));
        assert_eq!(body["task"]["status"], "FAILED");
        assert_eq!(body["credits"]["creditsCharged"], 0);
        assert!(body["response"]["error"]["code"].is_string());
    }

    #[test]
    fn bodies_are_about_two_kilobytes() {
        let sizes: Vec<usize> = (0..200)
            .map(|number| {
                finished(Outcome::completed(&mut Seed(3).rng("outcome", number)))
                    .to_string()
                    .len()
            })
            .collect();
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((1_800..2_600).contains(&mean), "mean size {mean}");
        assert!(
            sizes.iter().all(|size| (1_000..4_000).contains(size)),
            "{sizes:?}"
        );
    }

    #[test]
    fn ids_are_uuids_of_version_four() {
        let id = uuid(&mut Seed(1).rng("task", 5));
        let marks: Vec<usize> = id.match_indices('-').map(|(at, _)| at).collect();
        assert_eq!((id.len(), marks), (36, vec![8, 13, 18, 23]));
        assert_eq!(&id[14..15], "4");
        assert!("89ab".contains(&id[19..20]));
    }
}
