//! Reading the headers of a stored event.

use super::percent::decode;
use super::{Via, header};

/// The headers of a stored event that are of use to us. Read tolerantly: names in any case, unknown headers and
/// unusable values skipped. Nothing here is proof of anything; the body is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Received {
    /// `Nats-Msg-Id`.
    pub msg_id: Option<String>,
    /// `Answers-Via`.
    pub via: Option<Via>,
    /// `ce-taskid`, decoded.
    pub task_id: Option<String>,
    /// `ce-subject`, decoded: the idempotency key as sent.
    pub idempotency_key: Option<String>,
    /// `Answers-Reason`, on quarantined bodies.
    pub reason: Option<String>,
    /// `Answers-Webhook-Id`.
    pub webhook_id: Option<String>,
    /// `traceparent`.
    pub traceparent: Option<String>,
}

impl Received {
    /// Reads headers, given as pairs of name and value. Of a header that occurs twice, the first counts.
    pub fn from_headers<'h>(headers: impl IntoIterator<Item = (&'h str, &'h str)>) -> Self {
        let mut received = Self::default();
        for (name, value) in headers {
            let is = |header: &str| name.eq_ignore_ascii_case(header);
            let text = || Some(value.to_owned());
            let attribute = || decode(unquoted(value)).map(std::borrow::Cow::into_owned);
            if is(header::MSG_ID) {
                received.msg_id = received.msg_id.or_else(text);
            } else if is(header::VIA) {
                received.via = received.via.or_else(|| value.parse().ok());
            } else if is(header::CE_TASKID) {
                received.task_id = received.task_id.or_else(attribute);
            } else if is(header::CE_SUBJECT) {
                received.idempotency_key = received.idempotency_key.or_else(attribute);
            } else if is(header::REASON) {
                received.reason = received.reason.or_else(text);
            } else if is(header::WEBHOOK_ID) {
                received.webhook_id = received.webhook_id.or_else(text);
            } else if is(header::TRACEPARENT) {
                received.traceparent = received.traceparent.or_else(text);
            }
        }
        received
    }
}

/// Other writers may put an attribute between double quotes.
fn unquoted(value: &str) -> &str {
    value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'))
        .unwrap_or(value)
}
