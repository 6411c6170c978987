//! Bodies that the provider never sent.

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use crate::faults::Forgery;
use crate::provider::Provider;
use crate::provider::delivery::DeliveryNumber;

/// A body that a stranger makes up from a delivery: were it accepted, a row would differ from what the provider holds.
pub(super) fn body(provider: &Provider, delivery: DeliveryNumber, forgery: Forgery) -> Bytes {
    let true_body = &provider.delivery(delivery).body;
    let mut body: Value = serde_json::from_slice(true_body).expect("the model writes JSON");
    body["task"]["status"] = json!("COMPLETED");
    body["response"] = json!({"result": {"text": "A stranger's words.", "sources": []}});
    if forgery == Forgery::InventedTask {
        body["task"]["id"] = json!(format!("invented-{}", delivery.0));
        body["task"]["idempotencyKey"] = Value::Null;
    }
    serde_json::to_vec(&body)
        .expect("a JSON value always serializes")
        .into()
}

/// `body` with one lower-case letter of its second half changed: still JSON, no longer what was signed.
pub(super) fn change_a_letter(body: &Bytes) -> Bytes {
    let mut changed = BytesMut::from(&body[..]);
    let half = changed.len() / 2;
    let is_letter = |at: &usize| changed[*at].is_ascii_lowercase() && changed[at - 1] != b'\\';
    if let Some(at) = (half.max(1)..changed.len()).find(is_letter) {
        changed[at] = if changed[at] == b'x' { b'y' } else { b'x' };
    }
    changed.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_letter_changes_and_json_stays_json() {
        let body = Bytes::from_static(br#"{"task":{"id":"a"},"response":{"text":"\n words"}}"#);
        let changed = change_a_letter(&body);
        let differing = body.iter().zip(&changed).filter(|(a, b)| a != b).count();
        assert_eq!((differing, changed.len()), (1, body.len()));
        assert!(serde_json::from_slice::<Value>(&changed).is_ok());
    }
}
