//! From a delivery to a signed request.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use schemas::signature::{Scheme, SigningKey, sign};
use time::OffsetDateTime;

use super::delivery::{Delivery, Request};

/// The header that names a delivery.
pub const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");

/// A request that carries `body` in the name of `delivery`, signed at `now` with `keys`.
pub(super) fn request(
    scheme: &Scheme,
    delivery: &Delivery,
    body: Bytes,
    keys: &[SigningKey],
    now: OffsetDateTime,
) -> Request {
    let id = HeaderValue::from_str(&delivery.webhook_id).expect("letters, digits and an underscore");
    let mut headers = vec![
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (
            header::USER_AGENT,
            HeaderValue::from_static("Answerline-Webhooks/1.0"),
        ),
        (WEBHOOK_ID, id),
    ];
    for (name, value) in sign(scheme, keys, &delivery.webhook_id, now.unix_timestamp(), &body) {
        headers.retain(|(present, _)| *present != name);
        headers.push((name, value));
    }
    Request {
        delivery: delivery.number,
        attempt: delivery.attempts_in_set(),
        url: delivery.url.clone(),
        headers,
        body,
    }
}
