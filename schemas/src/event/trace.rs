//! What unsigned request headers tell about a delivery.

use http::{HeaderMap, HeaderName};

use super::header;

/// For tracing only: nothing here was signed, so nothing may be decided by it. Each value is checked against its
/// grammar and cut at 256 bytes, or else dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// The delivery's id, kept through retries and redeliveries: visible ASCII.
    pub webhook_id: Option<String>,
    /// W3C trace context.
    pub traceparent: Option<String>,
}

impl Trace {
    /// Longest value.
    pub const MAX_BYTES: usize = 256;

    /// Reads them from a request; `webhook_id` names the header that the provider puts its id into.
    pub fn from_headers(headers: &HeaderMap, webhook_id: &HeaderName) -> Self {
        let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        Self {
            webhook_id: value(webhook_id.as_str()).and_then(visible),
            traceparent: value(header::TRACEPARENT).and_then(traceparent),
        }
    }
}

fn visible(text: &str) -> Option<String> {
    let cut = &text.as_bytes()[..text.len().min(Trace::MAX_BYTES)];
    let visible = !cut.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    visible.then(|| cut.iter().map(|b| char::from(*b)).collect())
}

/// `version-trace_id-parent_id-flags` in lower-case hex; a version above 00 may have more behind it.
fn traceparent(text: &str) -> Option<String> {
    let text = visible(text)?;
    let mut fields = text.split('-');
    let mut field = |len: usize| {
        let lower_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        fields
            .next()
            .filter(|f| f.len() == len && f.bytes().all(lower_hex))
    };
    let (version, trace, parent, _flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
    let zero = |f: &str| f.bytes().all(|b| b == b'0');
    let proper = version != "ff" && !zero(trace) && !zero(parent);
    let complete = version != "00" || fields.next().is_none();
    (proper && complete).then_some(text)
}
