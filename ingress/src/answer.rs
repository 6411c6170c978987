//! What a request is answered: the only file with status codes.
//!
//! The sender repeats an attempt on everything but a 2xx, so a 2xx means "the stream has it" and all else means "send it again".

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use schemas::signature;
use stream::append::AppendError;

use crate::body::BodyError;

/// Why a request was not taken. From outside only the [`Problem`] shows; the rest is for logs and metrics.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The path is not the hook's.
    Path,
    /// The method is not POST.
    Method,
    /// The body is encoded, and nothing is decoded before its signature is checked.
    Encoding,
    /// The declared length is over the limit.
    DeclaredTooLarge,
    /// The process is stopping.
    Stopping,
    /// The process has not yet found the stream.
    Starting,
    /// As many requests as allowed are being worked on.
    Crowded,
    /// The signature does not vouch for the body.
    Signature(signature::Refusal),
    /// The body could not be read to its end.
    Body(BodyError),
    /// The stream did not confirm the event.
    Append(AppendError),
}

/// A row of the published table of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem {
    Signature,
    NotFound,
    MethodNotAllowed,
    IncompleteBody,
    TooLarge,
    Encoding,
    Overloaded,
    Unavailable,
    Stopping,
}

/// How much a refusal deserves to be logged. All are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Any stranger can cause it.
    Quiet,
    /// Deliveries may be failing.
    Alert,
}

impl Refusal {
    pub(crate) fn problem(&self) -> Problem {
        match self {
            Self::Path => Problem::NotFound,
            Self::Method => Problem::MethodNotAllowed,
            Self::Encoding => Problem::Encoding,
            Self::DeclaredTooLarge | Self::Body(BodyError::TooLarge) => Problem::TooLarge,
            Self::Stopping | Self::Append(AppendError::Stopped) => Problem::Stopping,
            Self::Crowded | Self::Body(BodyError::BudgetSpent) | Self::Append(AppendError::Overloaded) => {
                Problem::Overloaded
            }
            Self::Signature(_) => Problem::Signature,
            Self::Body(BodyError::TooSlow | BodyError::Broken) => Problem::IncompleteBody,
            Self::Starting | Self::Append(_) => Problem::Unavailable,
        }
    }

    /// Its name in metrics and logs.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Path => "not_found",
            Self::Method => "method_not_allowed",
            Self::Encoding => "content_encoding",
            Self::DeclaredTooLarge | Self::Body(BodyError::TooLarge) => "too_large",
            Self::Stopping => "stopping",
            Self::Starting => "starting",
            Self::Crowded => "too_many_requests",
            Self::Signature(reason) => reason.as_str(),
            Self::Body(BodyError::TooSlow) => "body_too_slow",
            Self::Body(BodyError::Broken) => "body_broken",
            Self::Body(BodyError::BudgetSpent) => "body_budget_spent",
            Self::Append(error) => error.as_str(),
        }
    }

    /// The error behind it, where there is one.
    pub(crate) fn cause(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Append(error) => Some(error),
            Self::Path
            | Self::Method
            | Self::Encoding
            | Self::DeclaredTooLarge
            | Self::Stopping
            | Self::Starting
            | Self::Crowded
            | Self::Signature(_)
            | Self::Body(_) => None,
        }
    }

    pub(crate) fn notice(&self) -> Notice {
        match self.problem() {
            Problem::Signature
            | Problem::NotFound
            | Problem::MethodNotAllowed
            | Problem::IncompleteBody
            | Problem::Encoding
            | Problem::Stopping => Notice::Quiet,
            Problem::TooLarge | Problem::Overloaded | Problem::Unavailable => Notice::Alert,
        }
    }
}

impl Problem {
    fn status(self) -> StatusCode {
        match self {
            Self::Signature => StatusCode::BAD_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::IncompleteBody => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Encoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Overloaded | Self::Unavailable | Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn body(self) -> &'static str {
        match self {
            // One text for every bad signature: a reason would tell a forger how close it came.
            Self::Signature => {
                r#"{"type":"urn:answerlog:problem:signature","title":"Bad Request","status":400,"detail":"Not accepted."}"#
            }
            Self::NotFound => {
                r#"{"type":"urn:answerlog:problem:not-found","title":"Not Found","status":404,"detail":"Nothing is served here."}"#
            }
            Self::MethodNotAllowed => {
                r#"{"type":"urn:answerlog:problem:method","title":"Method Not Allowed","status":405,"detail":"Deliveries are sent with POST."}"#
            }
            Self::IncompleteBody => {
                r#"{"type":"urn:answerlog:problem:incomplete-body","title":"Request Timeout","status":408,"detail":"The body did not arrive whole and in time; send again."}"#
            }
            Self::TooLarge => {
                r#"{"type":"urn:answerlog:problem:too-large","title":"Content Too Large","status":413,"detail":"The body is larger than this endpoint takes."}"#
            }
            Self::Encoding => {
                r#"{"type":"urn:answerlog:problem:content-encoding","title":"Unsupported Media Type","status":415,"detail":"Send the body without Content-Encoding."}"#
            }
            Self::Overloaded => {
                r#"{"type":"urn:answerlog:problem:overloaded","title":"Service Unavailable","status":503,"detail":"Too busy to take it; send again."}"#
            }
            Self::Unavailable => {
                r#"{"type":"urn:answerlog:problem:unavailable","title":"Service Unavailable","status":503,"detail":"Not stored; send again."}"#
            }
            Self::Stopping => {
                r#"{"type":"urn:answerlog:problem:stopping","title":"Service Unavailable","status":503,"detail":"This process is stopping; send again."}"#
            }
        }
    }

    /// Seconds after which the sender might try again, where we have a say.
    fn retry_after(self) -> Option<HeaderValue> {
        match self {
            Self::Unavailable => Some(HeaderValue::from_static("10")),
            Self::Overloaded | Self::Stopping => Some(HeaderValue::from_static("5")),
            Self::Signature
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::IncompleteBody
            | Self::TooLarge
            | Self::Encoding => None,
        }
    }

    /// Whether the connection may carry another request, provided that nothing of this one is left on it.
    pub(crate) fn keeps_connection(self) -> bool {
        match self {
            Self::Signature
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::Encoding
            | Self::Overloaded
            | Self::Unavailable => true,
            Self::TooLarge | Self::IncompleteBody | Self::Stopping => false,
        }
    }

    /// The answer to a refused request; `keep` says whether the connection can be used again.
    pub(crate) fn response(self, keep: bool) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from_static(self.body().as_bytes())));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after() {
            headers.insert(RETRY_AFTER, seconds);
        }
        if self == Self::MethodNotAllowed {
            headers.insert(ALLOW, HeaderValue::from_static("POST"));
        }
        if !keep {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// The answer to a delivery that the stream has, or that was a test.
pub(crate) fn accepted() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http_body_util::BodyExt;
    use schemas::documents::{Document, Documents, Route};
    use serde_json::Value;

    use super::*;

    const HOOK: Route<'_> = Route {
        method: "post",
        path: "/hooks/answers",
    };

    /// All of them: there is no leaving one out of a match.
    fn all() -> impl Iterator<Item = Problem> {
        std::iter::successors(Some(Problem::Signature), |problem| match problem {
            Problem::Signature => Some(Problem::NotFound),
            Problem::NotFound => Some(Problem::MethodNotAllowed),
            Problem::MethodNotAllowed => Some(Problem::IncompleteBody),
            Problem::IncompleteBody => Some(Problem::TooLarge),
            Problem::TooLarge => Some(Problem::Encoding),
            Problem::Encoding => Some(Problem::Overloaded),
            Problem::Overloaded => Some(Problem::Unavailable),
            Problem::Unavailable => Some(Problem::Stopping),
            Problem::Stopping => None,
        })
    }

    /// The types of problems anywhere in the document.
    fn described_types(value: &Value) -> BTreeSet<&str> {
        match value {
            Value::String(text) if text.starts_with("urn:answerlog:problem:") => {
                BTreeSet::from([text.as_str()])
            }
            Value::Object(members) => members.values().flat_map(described_types).collect(),
            Value::Array(values) => values.iter().flat_map(described_types).collect(),
            _ => BTreeSet::new(),
        }
    }

    #[tokio::test]
    async fn every_problem_has_a_type_of_its_own_and_is_described_in_openapi() {
        let documents = Documents::load();
        let (mut types, mut statuses) = (BTreeSet::new(), BTreeSet::new());
        for problem in all() {
            for keep in [true, false] {
                let (head, body) = problem.response(keep).into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body = std::str::from_utf8(&body).unwrap();
                let headers = head
                    .headers
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
                let status = head.status.as_u16();
                assert_eq!(documents.answer_differences(HOOK, status, headers, body), []);
                let value: Value = serde_json::from_str(body).unwrap();
                assert_eq!(value["status"], status);
                if keep {
                    let new = types.insert(value["type"].as_str().unwrap().to_owned());
                    assert!(new, "{body}");
                }
                statuses.insert(status);
            }
        }
        let types: BTreeSet<&str> = types.iter().map(String::as_str).collect();
        assert_eq!(types, described_types(documents.get(Document::OpenApi)));
        // Taken, and what the HTTP library answers by itself.
        statuses.extend([accepted().status().as_u16(), 431]);
        assert_eq!(statuses, documents.statuses(HOOK));
    }
}
