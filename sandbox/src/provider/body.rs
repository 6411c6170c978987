//! What the provider says of a task, as JSON: in deliveries and in answers of its API.

use bytes::Bytes;
use http::Uri;
use serde::Serialize;
use serde_json::value::RawValue;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{Duration, OffsetDateTime};

use super::task::{Status, Task};

const TIMESTAMP: &[BorrowedFormatItem<'static>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

const TEST_RESPONSE: &str = r#"{"result":{"text":"This is a test delivery.","sources":[]}}"#;

/// The body that a webhook delivers.
pub(super) fn of_task(task: &Task) -> Bytes {
    tells_of(task).render()
}

/// The body that the API answers for a task: what a webhook delivers, and whether it was.
pub(super) fn with_webhook(task: &Task, webhook: Webhook) -> Bytes {
    let webhook = Some(webhook);
    Body {
        webhook,
        ..tells_of(task)
    }
    .render()
}

/// The body that the API answers when a task was created.
pub(crate) fn of_creation(task: &Task) -> Bytes {
    let success = Some(true);
    Body {
        success,
        ..tells_of(task)
    }
    .render()
}

fn tells_of(task: &Task) -> Body<'_> {
    let charge = 3 + task.request.priority % 3;
    let latency = task
        .started_at
        .zip(task.finished_at)
        .map(|(start, end)| (end - start).max(Duration::ZERO));
    Body {
        success: None,
        test: None,
        task: Envelope {
            id: &task.id,
            task_type: Some(task.request.task_type),
            status: task.status.as_str(),
            priority: Some(task.request.priority),
            created_at: timestamp(task.created_at),
            latency_ms: Some(
                latency.map(|latency| latency.whole_milliseconds().try_into().unwrap_or(i64::MAX)),
            ),
            idempotency_key: task.request.idempotency_key.as_deref(),
        },
        credits: Some(Credits {
            credits_to_charge: charge,
            credits_charged: match task.status {
                Status::Completed => Some(charge),
                Status::Failed => Some(0),
                Status::Queued | Status::Processing => None,
            },
        }),
        response: task.response.as_deref(),
        webhook: None,
    }
}

/// The body of a test delivery: a sample of no task.
pub(super) fn of_test(now: OffsetDateTime) -> Bytes {
    let response = RawValue::from_string(TEST_RESPONSE.to_owned()).expect("the sample is JSON");
    let body = Body {
        success: None,
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
        webhook: None,
    };
    body.render()
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    success: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<bool>,
    task: Envelope<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credits: Option<Credits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook: Option<Webhook>,
}

/// What became of a task's delivery.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Webhook {
    url: String,
    delivered: bool,
    delivered_at: Option<String>,
}

impl Webhook {
    pub(super) fn new(url: &Uri, delivered_at: Option<OffsetDateTime>) -> Self {
        Self {
            url: url.to_string(),
            delivered: delivered_at.is_some(),
            delivered_at: delivered_at.map(timestamp),
        }
    }
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

/// RFC 3339 in UTC with three decimals, as the provider writes it.
pub(crate) fn timestamp(at: OffsetDateTime) -> String {
    at.to_offset(time::UtcOffset::UTC)
        .format(TIMESTAMP)
        .expect("a year of four digits")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use time::macros::datetime;

    use super::*;
    use crate::provider::outcome::Outcome;
    use crate::provider::task::NewTask;
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
}
