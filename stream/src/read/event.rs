//! An event as it was read, without a consumer.

use async_nats::header::{NATS_SEQUENCE, NATS_SUBJECT, NATS_TIME_STAMP};
use async_nats::{HeaderMap, HeaderName, Message};
use bytes::Bytes;
use schemas::event::header;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::consume::Place;
use crate::stored::{Stored, UnreadableHeaders};

/// An event as the stream holds it.
#[derive(Clone, Debug)]
pub struct ReadEvent {
    /// The subject it was published to.
    pub subject: String,
    /// Its headers; none when they cannot be read. A direct read adds some of the broker's own.
    pub headers: HeaderMap,
    /// Why its headers cannot be read. Programs of ours write none such.
    pub unreadable: Option<UnreadableHeaders>,
    /// Its body.
    pub body: Bytes,
    /// Its sequence on the stream.
    pub seq: u64,
    /// When the stream took it, by the broker's clock.
    pub time: OffsetDateTime,
}

impl ReadEvent {
    /// The headers as pairs of name and value, for [`schemas::event::Received::from_headers`].
    pub fn header_pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers
            .iter()
            .flat_map(|(name, values)| values.iter().map(|value| (name.as_ref(), value.as_str())))
    }

    /// Its message id.
    pub fn msg_id(&self) -> Option<&str> {
        self.headers.get(header::MSG_ID).map(|id| id.as_str())
    }

    pub(super) fn of_stored(stored: Stored) -> Self {
        let (headers, unreadable) = match stored.headers {
            Ok(headers) => (headers, None),
            Err(unreadable) => (HeaderMap::new(), Some(unreadable)),
        };
        Self {
            subject: stored.subject,
            headers,
            unreadable,
            body: stored.body,
            seq: stored.seq,
            time: stored.time,
        }
    }

    /// An event that a consumer delivered.
    pub(super) fn of_delivery(message: Message, place: &Place) -> Self {
        Self {
            subject: message.subject.as_str().to_owned(),
            headers: message.headers.unwrap_or_default(),
            unreadable: None,
            body: message.payload,
            seq: place.seq,
            time: place.time,
        }
    }

    /// Takes the event out of an answer to a direct read; None when it holds none, and then it stays as it is.
    pub(super) fn of_answer(message: &mut Message) -> Option<Self> {
        let (subject, seq, time) = message.headers.as_ref().and_then(place)?;
        Some(Self {
            subject,
            headers: message.headers.take().unwrap_or_default(),
            unreadable: None,
            body: std::mem::take(&mut message.payload),
            seq,
            time,
        })
    }
}

/// Subject, sequence and time that the broker gives an event that it answers with.
fn place(headers: &HeaderMap) -> Option<(String, u64, OffsetDateTime)> {
    let subject = own(headers, NATS_SUBJECT)?.to_owned();
    let seq = own(headers, NATS_SEQUENCE)?.parse().ok()?;
    let time = OffsetDateTime::parse(own(headers, NATS_TIME_STAMP)?, &Rfc3339).ok()?;
    Some((subject, seq, time))
}

/// A header that the broker adds to those of the event: behind them, so that of several the last one is the broker's, and
/// whatever a publisher wrote counts for nothing.
fn own(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get_all(name).last().map(|value| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_publisher_says_of_place_and_time_does_not_count() {
        let mut headers = HeaderMap::new();
        for (name, forged, real) in [
            (NATS_SEQUENCE, "7", "12"),
            (NATS_SUBJECT, "answers.quarantine", "answers.nonfinal"),
            (
                NATS_TIME_STAMP,
                "2000-01-01T00:00:00Z",
                "2026-11-30T12:00:00.123456789Z",
            ),
        ] {
            headers.append(name.clone(), forged);
            headers.append(name, real);
        }
        let mut message = Message {
            subject: "_INBOX.1".into(),
            reply: None,
            payload: Bytes::from_static(b"body"),
            headers: Some(headers),
            status: None,
            description: None,
            length: 0,
        };
        let event = ReadEvent::of_answer(&mut message).unwrap();
        assert_eq!((event.seq, event.subject.as_str()), (12, "answers.nonfinal"));
        assert_eq!(event.time.nanosecond(), 123_456_789);
    }
}
