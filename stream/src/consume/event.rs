//! A stored event on its way to a consumer, and the ways to acknowledge it.

use std::time::Duration;

use async_nats::jetstream::AckKind;
use async_nats::{Client, HeaderMap, Message, PublishError, Subject};
use bytes::Bytes;
use schemas::event::header;
use time::OffsetDateTime;

use super::api::Api;
use crate::stored::{Stored, UnreadableHeaders};

/// An event as the stream holds it.
#[derive(Clone, Debug)]
pub struct StoredEvent {
    /// The subject it was published to.
    pub subject: String,
    /// Its headers; none when they cannot be read.
    pub headers: HeaderMap,
    /// Why its headers cannot be read. Programs of ours write none such.
    pub unreadable: Option<UnreadableHeaders>,
    /// Its body.
    pub body: Bytes,
    /// Its sequence on the stream.
    pub seq: u64,
    /// When the stream took it, by the broker's clock.
    pub time: OffsetDateTime,
    /// How often it was delivered by now, this time included; 1 at first.
    pub delivered: u64,
    /// Its message id.
    pub msg_id: Option<String>,
    /// Acknowledges it.
    pub acker: Acker,
}

impl StoredEvent {
    /// The headers as pairs of name and value, for [`schemas::event::Received::from_headers`].
    pub fn header_pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers
            .iter()
            .flat_map(|(name, values)| values.iter().map(|value| (name.as_ref(), value.as_str())))
    }

    /// Reads a message as a pull consumer sends it; None when it is none. What the broker says about a request has no
    /// place for an answer; whether there is a status says nothing, for a stored message may have one of its own.
    pub(super) fn read(message: Message, client: &Client) -> Option<Self> {
        let reply = message.reply.clone()?;
        let place = Place::read(&reply)?;
        let headers = message.headers.unwrap_or_default();
        Some(Self {
            subject: message.subject.as_str().to_owned(),
            msg_id: headers.get(header::MSG_ID).map(|id| id.as_str().to_owned()),
            headers,
            unreadable: None,
            body: message.payload,
            seq: place.seq,
            time: place.time,
            delivered: place.delivered,
            acker: Acker {
                client: client.clone(),
                reply,
            },
        })
    }

    /// A message that was delivered to nobody who is left, read from the stream.
    pub(super) fn recovered(stored: Stored, api: &Api, client: &Client) -> Self {
        let Api { stream, durable, .. } = api;
        let (seq, nanoseconds) = (stored.seq, stored.time.unix_timestamp_nanos());
        let msg_id = stored.header(header::MSG_ID).map(str::to_owned);
        let (headers, unreadable) = match stored.headers {
            Ok(headers) => (headers, None),
            Err(unreadable) => (HeaderMap::new(), Some(unreadable)),
        };
        // The subject that came with the delivery, but for how often it was delivered, and for its number among
        // deliveries, by which the broker does not find a message: none has the number 0.
        let reply = format!("$JS.ACK.{stream}.{durable}.1.{seq}.0.{nanoseconds}.0");
        Self {
            subject: stored.subject,
            headers,
            unreadable,
            body: stored.body,
            seq,
            time: stored.time,
            delivered: 2,
            msg_id,
            acker: Acker {
                client: client.clone(),
                reply: reply.into(),
            },
        }
    }
}

/// Acknowledges one event. An acknowledgment is sent and not waited for: one that is lost means that the event comes
/// again, which whoever consumes at least once has to bear anyway.
#[derive(Clone, Debug)]
pub struct Acker {
    client: Client,
    reply: Subject,
}

impl Acker {
    /// The event is done.
    pub async fn ack(&self) -> Result<(), PublishError> {
        self.send(AckKind::Ack).await
    }

    /// The event is to come again, not before `delay` has passed.
    pub async fn nak(&self, delay: Duration) -> Result<(), PublishError> {
        self.send(AckKind::Nak(Some(delay))).await
    }

    /// The event is still being worked on: its ack wait begins anew.
    pub async fn progress(&self) -> Result<(), PublishError> {
        self.send(AckKind::Progress).await
    }

    async fn send(&self, kind: AckKind) -> Result<(), PublishError> {
        self.client.publish(self.reply.clone(), kind.into()).await
    }
}

/// What the subject for the acknowledgment says:
/// `$JS.ACK.[<domain>.<account>.]<stream>.<consumer>.<delivered>.<seq>.<consumer seq>.<nanoseconds>.<pending>[.<token>]`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// How often it was delivered by now.
    pub(crate) delivered: u64,
    /// On the stream.
    pub(crate) seq: u64,
    /// Among the deliveries of the consumer.
    pub(crate) consumer_seq: u64,
    /// When the stream took it.
    pub(crate) time: OffsetDateTime,
    /// How many events are left to be delivered.
    pub(crate) pending: u64,
}

impl Place {
    pub(crate) fn read(reply: &str) -> Option<Self> {
        let tokens = reply.strip_prefix("$JS.ACK.")?.split('.');
        let names = match tokens.clone().count() {
            7 => 2,
            9.. => 4,
            _ => return None,
        };
        let mut numbers = tokens.skip(names);
        Some(Self {
            delivered: numbers.next()?.parse().ok()?,
            seq: numbers.next()?.parse().ok()?,
            consumer_seq: numbers.next()?.parse().ok()?,
            time: OffsetDateTime::from_unix_timestamp_nanos(numbers.next()?.parse().ok()?).ok()?,
            pending: numbers.next()?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_reply_are_read() {
        let time = OffsetDateTime::from_unix_timestamp_nanos(1_796_047_220_260_703_234).unwrap();
        let place = Some(Place {
            delivered: 2,
            seq: 17,
            consumer_seq: 9,
            time,
            pending: 0,
        });
        assert_eq!(Place::read("$JS.ACK.S.C.2.17.9.1796047220260703234.0"), place);
        assert_eq!(
            Place::read("$JS.ACK._.HASH.S.C.2.17.9.1796047220260703234.0.x"),
            place
        );
        assert_eq!(
            Place::read("$JS.ACK.hub.HASH.S.C.2.17.9.1796047220260703234.0"),
            place
        );
    }

    #[test]
    fn other_replies_are_none() {
        for other in [
            "",
            "_INBOX.x",
            "$JS.ACK.S.C.2.17.9",
            "$JS.ACK.S.C.x.17.9.1.0",
            "$JS.ACK.S.C.2.17.9.1.0.8",
        ] {
            assert_eq!(Place::read(other), None, "{other}");
        }
    }
}
