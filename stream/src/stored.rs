//! A message as the stream holds it, read by its sequence.
//!
//! It is asked for through the API, which answers in JSON with headers and body in base64. A direct read would be
//! cheaper, and sends the headers as they are: whoever may publish can store some that the client cannot read, and over
//! those it ends its connection.

mod headers;

use async_nats::HeaderMap;
use async_nats::jetstream::stream::RawMessage;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use time::OffsetDateTime;

pub use headers::UnreadableHeaders;

/// A message and its place.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) subject: String,
    pub(crate) headers: Result<HeaderMap, UnreadableHeaders>,
    pub(crate) body: Bytes,
    pub(crate) seq: u64,
    pub(crate) time: OffsetDateTime,
}

/// What the broker answers to the request for a message.
#[derive(Debug)]
pub(crate) enum Reading {
    /// The message.
    Found(Stored),
    /// There is no message under that sequence.
    Gone,
    /// The broker cannot say now.
    NotNow(String),
}

/// The request, without the prefix of the API.
pub(crate) fn request(stream: &str) -> String {
    format!("STREAM.MSG.GET.{stream}")
}

/// Its body.
pub(crate) fn request_body(seq: u64) -> Bytes {
    Bytes::from(format!(r#"{{"seq":{seq}}}"#))
}

#[derive(Deserialize)]
struct Answer {
    message: Option<RawMessage>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    code: u16,
    #[serde(default)]
    description: String,
}

/// Reads the answer. Takes time in proportion to the message.
pub(crate) fn read(answer: &[u8]) -> Reading {
    let unreadable =
        |error: &dyn std::error::Error| Reading::NotNow(format!("the answer is unreadable: {error}"));
    match serde_json::from_slice(answer) {
        Ok(Answer {
            error: Some(error), ..
        }) if error.code == 404 => Reading::Gone,
        Ok(Answer {
            error: Some(error), ..
        }) => Reading::NotNow(error.description),
        Ok(Answer {
            message: Some(raw), ..
        }) => match Stored::decode(raw) {
            Ok(stored) => Reading::Found(stored),
            Err(error) => unreadable(&error),
        },
        Ok(Answer {
            message: None,
            error: None,
        }) => Reading::NotNow("the answer is empty".to_owned()),
        Err(error) => unreadable(&error),
    }
}

impl Stored {
    pub(crate) fn decode(raw: RawMessage) -> Result<Self, base64::DecodeError> {
        let headers = STANDARD.decode(raw.headers.unwrap_or_default())?;
        Ok(Self {
            subject: raw.subject,
            headers: headers::read(&headers),
            body: STANDARD.decode(raw.payload)?.into(),
            seq: raw.sequence,
            time: raw.time,
        })
    }

    /// A header's value; of several, the first.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let headers = self.headers.as_ref().ok()?;
        headers.get(name).map(|value| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_with_its_headers_and_its_body() {
        let answer = br#"{"type":"x","message":{"subject":"a","seq":3,"hdrs":"TkFUUy8xLjANCk5hdHMtTXNnLUlkOiB0LTENCg0K","data":"e30=","time":"2026-01-01T00:00:00.000000009Z"}}"#;
        let Reading::Found(stored) = read(answer) else {
            panic!("not found")
        };
        assert_eq!((stored.subject.as_str(), stored.seq), ("a", 3));
        assert_eq!(stored.header("Nats-Msg-Id"), Some("t-1"));
        assert_eq!(stored.body, "{}");
        assert_eq!(stored.time.nanosecond(), 9);
    }

    #[test]
    fn a_message_without_headers_or_body_is_one() {
        let Reading::Found(stored) =
            read(br#"{"message":{"subject":"a","seq":3,"time":"2026-01-01T00:00:00Z"}}"#)
        else {
            panic!("not found")
        };
        assert!(stored.headers.is_ok_and(|headers| headers.is_empty()));
        assert_eq!(stored.body, "");
    }

    #[test]
    fn only_a_message_that_is_not_there_is_gone() {
        let gone = br#"{"error":{"code":404,"err_code":10037,"description":"no message found"}}"#;
        assert!(matches!(read(gone), Reading::Gone));
        for other in [
            r#"{"error":{"code":503,"err_code":10008,"description":"busy"}}"#,
            r#"{"message":{"subject":"a","seq":3,"data":"#,
            r#"{"message":{"subject":"a","seq":3,"data":"%","time":"2026-01-01T00:00:00Z"}}"#,
            "{}",
            "",
        ] {
            assert!(matches!(read(other.as_bytes()), Reading::NotNow(_)), "{other}");
        }
    }
}
