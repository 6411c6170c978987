//! Reading what a person wants to go wrong.

use std::time::Duration;

use http::HeaderValue;
use serde::Deserialize;

use crate::api::answer::{Problem, Violation};
use crate::api::{Fault, Operation, RetryAfter, Rule};

/// A fault of the API, and the calls that it befalls.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FaultRequest {
    #[serde(flatten)]
    fault: Kind,
    on: Option<Operation>,
    task: Option<String>,
    times: Option<u32>,
    #[serde(default)]
    after_taking_effect: bool,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "fault", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Kind {
    Status {
        status: u16,
        #[serde(default)]
        retry_after: When,
    },
    Redirect {
        status: u16,
        to: String,
    },
    Html,
    Empty,
    NoContent,
    Silence,
    HangUp,
    Stall,
    Drip {
        pause_ms: u64,
    },
    Cut,
    NotJson,
    Huge {
        bytes: usize,
    },
    OtherTask,
    NoId,
    MarkedTest,
}

/// A number is seconds, a text stands as it is, and an object names the form of a date so many seconds ahead.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum When {
    #[default]
    Absent,
    Seconds(u64),
    Text(String),
    Date {
        date: u64,
    },
    Rfc850 {
        rfc850: u64,
    },
    Asctime {
        asctime: u64,
    },
    Past {
        past: u64,
    },
}

/// The largest body that can be asked for; it is held in memory.
const LARGEST: usize = 256 * 1024 * 1024;

impl FaultRequest {
    /// The rule that it asks for.
    pub(super) fn rule(self) -> Result<Rule, Problem> {
        let mut rule = Rule::new(self.fault.fault()?);
        if let Some(operation) = self.on {
            rule = rule.on(operation);
        }
        if let Some(task) = self.task {
            rule = rule.for_task(task);
        }
        if let Some(times) = self.times {
            rule = rule.times(times);
        }
        if self.after_taking_effect {
            rule = rule.after_taking_effect();
        }
        Ok(rule)
    }
}

impl Kind {
    fn fault(self) -> Result<Fault, Problem> {
        Ok(match self {
            Self::Status { status, retry_after } => Fault::Status(sendable(status)?, retry_after.form()?),
            Self::Redirect { status, to } => Fault::Redirect(sendable(status)?, visible("to", to)?),
            Self::Html => Fault::Html,
            Self::Empty => Fault::Empty,
            Self::NoContent => Fault::NoContent,
            Self::Silence => Fault::Silence,
            Self::HangUp => Fault::HangUp,
            Self::Stall => Fault::Stall,
            Self::Drip { pause_ms } => Fault::Drip(Duration::from_millis(pause_ms)),
            Self::Cut => Fault::Cut,
            Self::NotJson => Fault::NotJson,
            Self::Huge { bytes } if bytes > LARGEST => {
                return Err(invalid("bytes", "must be at most 256 MiB"));
            }
            Self::Huge { bytes } => Fault::Huge(bytes),
            Self::OtherTask => Fault::OtherTask,
            Self::NoId => Fault::NoId,
            Self::MarkedTest => Fault::MarkedTest,
        })
    }
}

impl When {
    fn form(self) -> Result<RetryAfter, Problem> {
        Ok(match self {
            Self::Absent => RetryAfter::Absent,
            Self::Seconds(seconds) => RetryAfter::Seconds(seconds),
            Self::Text(text) => RetryAfter::Text(visible("retryAfter", text)?),
            Self::Date { date } => RetryAfter::Date(ahead(date)?),
            Self::Rfc850 { rfc850 } => RetryAfter::Rfc850Date(ahead(rfc850)?),
            Self::Asctime { asctime } => RetryAfter::AsctimeDate(ahead(asctime)?),
            Self::Past { past } => RetryAfter::PastDate(ahead(past)?),
        })
    }
}

/// A final status: 1xx announces another answer, which would never come.
fn sendable(status: u16) -> Result<u16, Problem> {
    if (200..=599).contains(&status) {
        Ok(status)
    } else {
        Err(invalid("status", "must be from 200 to 599"))
    }
}

fn visible(field: &'static str, text: String) -> Result<String, Problem> {
    match HeaderValue::try_from(&text) {
        Ok(_) => Ok(text),
        Err(_) => Err(invalid(field, "must be fit for a header")),
    }
}

fn ahead(seconds: u64) -> Result<Duration, Problem> {
    if seconds <= 365 * 86_400 {
        Ok(Duration::from_secs(seconds))
    } else {
        Err(invalid("retryAfter", "must be within a year"))
    }
}

pub(super) fn invalid(field: &'static str, message: impl Into<String>) -> Problem {
    Problem::Invalid(vec![Violation {
        field,
        message: message.into(),
    }])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fault(request: Value) -> Result<Fault, Problem> {
        serde_json::from_value::<FaultRequest>(request)
            .unwrap()
            .fault
            .fault()
    }

    #[test]
    fn every_fault_has_a_name_and_what_it_needs() {
        let second = Duration::from_secs(1);
        let of_status = |form| Fault::Status(429, form);
        for (request, expected) in [
            (
                json!({"fault": "status", "status": 429}),
                of_status(RetryAfter::Absent),
            ),
            (
                json!({"fault": "status", "status": 429, "retryAfter": null}),
                of_status(RetryAfter::Absent),
            ),
            (
                json!({"fault": "status", "status": 429, "retryAfter": 7}),
                of_status(RetryAfter::Seconds(7)),
            ),
            (
                json!({"fault": "status", "status": 429, "retryAfter": "soon"}),
                of_status(RetryAfter::Text("soon".to_owned())),
            ),
            (
                json!({"fault": "status", "status": 429, "retryAfter": {"date": 1}}),
                of_status(RetryAfter::Date(second)),
            ),
            (
                json!({"fault": "status", "status": 429, "retryAfter": {"rfc850": 1}}),
                of_status(RetryAfter::Rfc850Date(second)),
            ),
            (
                json!({"fault": "status", "status": 429, "retryAfter": {"asctime": 1}}),
                of_status(RetryAfter::AsctimeDate(second)),
            ),
            (
                json!({"fault": "status", "status": 429, "retryAfter": {"past": 1}}),
                of_status(RetryAfter::PastDate(second)),
            ),
            (
                json!({"fault": "redirect", "status": 307, "to": "/x"}),
                Fault::Redirect(307, "/x".to_owned()),
            ),
            (json!({"fault": "drip", "pauseMs": 1000}), Fault::Drip(second)),
            (json!({"fault": "huge", "bytes": 9}), Fault::Huge(9)),
            (json!({"fault": "html"}), Fault::Html),
            (json!({"fault": "empty"}), Fault::Empty),
            (json!({"fault": "noContent"}), Fault::NoContent),
            (json!({"fault": "silence"}), Fault::Silence),
            (json!({"fault": "hangUp"}), Fault::HangUp),
            (json!({"fault": "stall"}), Fault::Stall),
            (json!({"fault": "cut"}), Fault::Cut),
            (json!({"fault": "notJson"}), Fault::NotJson),
            (json!({"fault": "otherTask"}), Fault::OtherTask),
            (json!({"fault": "noId"}), Fault::NoId),
            (json!({"fault": "markedTest"}), Fault::MarkedTest),
        ] {
            assert_eq!(fault(request.clone()), Ok(expected), "{request}");
        }
    }

    #[test]
    fn what_http_cannot_carry_is_refused() {
        for request in [
            json!({"fault": "status", "status": 101}),
            json!({"fault": "status", "status": 600}),
            json!({"fault": "status", "status": 429, "retryAfter": "a\nb"}),
            json!({"fault": "status", "status": 429, "retryAfter": {"date": 1_000_000_000}}),
            json!({"fault": "redirect", "status": 302, "to": "a\r\nb"}),
            json!({"fault": "huge", "bytes": 1_000_000_000}),
        ] {
            assert!(
                matches!(fault(request.clone()), Err(Problem::Invalid(_))),
                "{request}"
            );
        }
    }
}
