//! What goes over the wire: the messages of an append, and what the broker answers to them.

use async_nats::jetstream::ErrorCode;
use async_nats::{HeaderMap, HeaderName, HeaderValue, Message, StatusCode, header};
use schemas::event::Event;
use serde::Deserialize;

use super::outcome::AppendError;

/// What the headers of a batch add to a message, in bytes, at most.
pub(super) const BATCH_HEADERS: usize = 160;

/// The headers of an event: its own, its message id, and the stream that it must land on.
pub(super) fn headers(event: &Event, stream: &str) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in &event.headers {
        map.insert(HeaderName::from_static(name), &**value);
    }
    map.insert(header::NATS_MESSAGE_ID, event.msg_id.as_str());
    map.insert(header::NATS_EXPECTED_STREAM, stream);
    map
}

/// Marks a message as one of a batch; `number` counts from 1.
pub(super) fn put_into_batch(headers: &mut HeaderMap, batch: &str, number: usize, last: bool) {
    headers.insert(header::NATS_BATCH_ID, batch);
    headers.insert(header::NATS_BATCH_SEQUENCE, HeaderValue::from(number));
    if last {
        headers.insert(header::NATS_BATCH_COMMIT, "1");
    }
}

/// Bytes that the message takes by the broker's count: headers and body together.
pub(super) fn size(event: &Event, stream: &str) -> usize {
    const LINE: usize = ": \r\n".len();
    let frame = "NATS/1.0\r\n\r\n".len() + "Nats-Msg-Id".len() + "Nats-Expected-Stream".len() + 2 * LINE;
    let own: usize = event
        .headers
        .iter()
        .map(|(name, value)| name.len() + value.len() + LINE)
        .sum();
    frame + own + event.msg_id.as_str().len() + stream.len() + event.body.len()
}

/// The broker's answer to a message that was to be stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Receipt {
    /// Stored under this sequence; for a batch, that of its last message.
    Stored(u64),
    /// The id is known, and belongs to this sequence.
    Duplicate(u64),
    /// Refused for now; the same message may be taken in a moment.
    NotNow(String),
    /// Refused, because the stream takes no batches now.
    NoBatches(String),
    /// Refused.
    Refused(AppendError),
}

#[derive(Deserialize)]
struct Ack<'a> {
    #[serde(default)]
    seq: u64,
    /// How many messages a batch had; only in the receipt of one.
    count: Option<usize>,
    #[serde(default)]
    duplicate: bool,
    #[serde(borrow)]
    error: Option<Refusal<'a>>,
}

#[derive(Deserialize)]
struct Refusal<'a> {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    err_code: u64,
    #[serde(default, borrow)]
    description: std::borrow::Cow<'a, str>,
}

pub(super) const NO_RESPONDERS: &str = "no stream takes the subject";

pub(super) fn receipt(message: &Message, limit: usize) -> Receipt {
    if message.status == Some(StatusCode::NO_RESPONDERS) {
        return Receipt::NotNow(NO_RESPONDERS.to_owned());
    }
    match serde_json::from_slice::<Ack<'_>>(&message.payload) {
        Ok(Ack {
            error: Some(refusal), ..
        }) => refused(&refusal, limit),
        Ok(Ack { seq: 0, .. }) | Err(_) => Receipt::NotNow("the answer cannot be read".to_owned()),
        Ok(Ack {
            seq, duplicate: true, ..
        }) => Receipt::Duplicate(seq),
        Ok(Ack {
            seq,
            duplicate: false,
            ..
        }) => Receipt::Stored(seq),
    }
}

/// The answer to a batch of so many events. A receipt for another number is no receipt: a server that does not know
/// batches stores their messages one by one, and acknowledges the last.
pub(super) fn batch_receipt(message: &Message, events: usize, limit: usize) -> Receipt {
    match receipt(message, limit) {
        Receipt::Stored(seq) => match serde_json::from_slice::<Ack<'_>>(&message.payload) {
            Ok(Ack {
                count: Some(count), ..
            }) if count == events && seq >= events as u64 => Receipt::Stored(seq),
            Ok(_) | Err(_) => Receipt::NoBatches("the answer to a batch is no receipt for it".to_owned()),
        },
        Receipt::Duplicate(_) => Receipt::NoBatches("the answer to a batch is no receipt for it".to_owned()),
        other => other,
    }
}

fn refused(refusal: &Refusal<'_>, limit: usize) -> Receipt {
    let description = refusal.description.clone().into_owned();
    match ErrorCode(refusal.err_code) {
        ErrorCode::STREAM_STORE_FAILED
        | ErrorCode::STORAGE_RESOURCES_EXCEEDED
        | ErrorCode::INSUFFICIENT_RESOURCES
        | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED => Receipt::Refused(AppendError::StreamFull(description)),
        ErrorCode::STREAM_NOT_MATCH => Receipt::Refused(AppendError::WrongStream(description)),
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM | ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM => {
            Receipt::Refused(AppendError::TooLarge { limit })
        }
        ErrorCode::ATOMIC_PUBLISH_DISABLED | ErrorCode::ATOMIC_PUBLISH_TOO_LARGE_BATCH => {
            Receipt::NoBatches(description)
        }
        // In a cluster: the first copy of the id is stored at this moment, or the leader is not ready yet.
        ErrorCode::STREAM_DUPLICATE_MESSAGE_CONFLICT => Receipt::NotNow(description),
        _ if refusal.code == 503 || refusal.code == 429 || refusal.code == 408 => {
            Receipt::NotNow(description)
        }
        ErrorCode(code) => Receipt::Refused(AppendError::Refused { code, description }),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn message(payload: &str) -> Message {
        Message {
            subject: "_INBOX.x.1.0".into(),
            reply: None,
            payload: Bytes::copy_from_slice(payload.as_bytes()),
            headers: None,
            status: None,
            description: None,
            length: payload.len(),
        }
    }

    fn read(payload: &str) -> Receipt {
        receipt(&message(payload), 1000)
    }

    #[test]
    fn receipts_are_told_apart() {
        assert_eq!(read(r#"{"stream":"A","seq":7}"#), Receipt::Stored(7));
        assert_eq!(
            read(r#"{"stream":"A","seq":7,"duplicate": true}"#),
            Receipt::Duplicate(7)
        );
        assert_eq!(
            read(r#"{"stream":"A","seq":9,"batch":"x","count":3}"#),
            Receipt::Stored(9)
        );
    }

    #[test]
    fn a_batch_is_acknowledged_as_a_whole_or_not_at_all() {
        let batch = |payload: &str| batch_receipt(&message(payload), 3, 1000);
        assert_eq!(
            batch(r#"{"stream":"A","seq":9,"batch":"x","count":3}"#),
            Receipt::Stored(9)
        );
        for other in [
            r#"{"stream":"A","seq":9}"#,
            r#"{"stream":"A","seq":9,"batch":"x","count":2}"#,
            r#"{"stream":"A","seq":2,"batch":"x","count":3}"#,
            r#"{"stream":"A","seq":9,"duplicate":true}"#,
        ] {
            assert!(matches!(batch(other), Receipt::NoBatches(_)), "{other}");
        }
        let rejected = r#"{"error":{"code":400,"err_code":10201,"description":"d"}}"#;
        assert!(matches!(batch(rejected), Receipt::Refused(_)));
    }

    #[test]
    fn refusals_are_told_apart() {
        let error = |code, err_code| {
            read(&format!(
                r#"{{"error":{{"code":{code},"err_code":{err_code},"description":"d"}}}}"#
            ))
        };
        assert_eq!(
            error(503, 10077),
            Receipt::Refused(AppendError::StreamFull("d".to_owned()))
        );
        assert_eq!(
            error(400, 10060),
            Receipt::Refused(AppendError::WrongStream("d".to_owned()))
        );
        assert_eq!(
            error(400, 10054),
            Receipt::Refused(AppendError::TooLarge { limit: 1000 })
        );
        assert_eq!(error(409, 10158), Receipt::NotNow("d".to_owned()));
        assert_eq!(error(429, 10167), Receipt::NotNow("d".to_owned()));
        assert_eq!(error(503, 10008), Receipt::NotNow("d".to_owned()));
        assert_eq!(error(400, 10174), Receipt::NoBatches("d".to_owned()));
        let sealed = AppendError::Refused {
            code: 10109,
            description: "d".to_owned(),
        };
        assert_eq!(error(400, 10109), Receipt::Refused(sealed));
    }

    #[test]
    fn an_answer_that_cannot_be_read_confirms_nothing() {
        for odd in ["", "{}", "[]", "null", r#"{"seq":0}"#, r#"{"seq":"7"}"#, "+OK"] {
            assert!(matches!(read(odd), Receipt::NotNow(_)), "{odd}");
        }
        let nobody = Message {
            status: Some(StatusCode::NO_RESPONDERS),
            ..message("")
        };
        assert!(matches!(receipt(&nobody, 1000), Receipt::NotNow(_)));
    }
}
