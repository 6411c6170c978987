//! Having many events delivered, by a consumer that lives as long as the reading. It costs broker and client half of what direct
//! reads cost them. Like those it goes over a connection that nothing else depends on.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, Config, DeliverPolicy};
use async_nats::{Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use super::bulk::{self, BYTES, EVENTS, PATIENCE, Served};
use super::{ReadEvent, Reader};
use crate::connect::{Connection, Settings};
use crate::consume::{Api, Place};

/// The name of the consumer. One, so that rights can be given to it; whoever finds it taken reads in another way.
const NAME: &str = "replay";
/// Whose it is. Two that begin at the same event would otherwise be one, and each miss what the other gets.
const OWNER_KEY: &str = "answerlog.reader";
/// In a word about a request: how many of its events will not come.
const UNSERVED: &str = "Nats-Pending-Messages";
/// When the broker takes it away from a reader that was killed; one that waits for its database for so long begins anew.
const ABANDONED: Duration = Duration::from_secs(60);
/// So many events are asked for before they are needed, so that the broker works on them while others are looked at.
const AHEAD: u64 = EVENTS;
/// How long the consumer may take to go at the end.
const FAREWELL: Duration = Duration::from_secs(1);

/// A connection with a consumer, from which events come in order.
#[derive(Debug)]
pub(super) struct Delivery {
    api: Api,
    connection: Connection,
    connects: u64,
    inbox: String,
    arriving: Subscriber,
    /// Events that were asked for and are to come.
    to_come: u64,
    /// Requests made.
    requests: u64,
    /// The consumer's number for the event that came last.
    delivered: u64,
    /// Nothing is left to be delivered.
    at_end: bool,
    /// Most bytes that a request asks for.
    bytes: usize,
    /// Whether an event came since the last word that one had no room.
    came: bool,
    /// An answer was waited for and not taken: what came of it is lost.
    torn: bool,
}

/// Why there is no consumer.
#[derive(Debug)]
pub(super) enum Unavailable {
    /// There is no broker.
    NoBroker,
    /// Somebody else reads through it.
    Taken,
    /// This user may not make one.
    Forbidden,
}

enum Arrival {
    Event(ReadEvent),
    /// Nothing more comes of a request.
    Over,
    Nothing,
    Broken,
}

impl Delivery {
    /// Events from `first` on.
    pub(super) async fn open(reader: &Reader, settings: &Settings, first: u64) -> Result<Self, Unavailable> {
        let (connection, inbox, arriving) = bulk::connect(settings).await.ok_or(Unavailable::NoBroker)?;
        // What is asked about the consumer must not go down with the connection over which events come.
        let api = Api {
            durable: NAME.to_owned(),
            ..reader.api.clone()
        };
        let config = Config {
            name: Some(NAME.to_owned()),
            ack_policy: AckPolicy::None,
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: first,
            },
            inactive_threshold: ABANDONED,
            memory_storage: true,
            num_replicas: 1,
            metadata: HashMap::from([(OWNER_KEY.to_owned(), inbox.clone())]),
            ..Config::default()
        };
        let created = timeout(PATIENCE, api.create(&config)).await;
        let info = match created {
            Ok(Ok(Some(info))) => info,
            Ok(Ok(None)) => return Err(Unavailable::Taken),
            Ok(Err(error)) => {
                debug!(%error, "reading without a consumer");
                return Err(Unavailable::Forbidden);
            }
            Err(_) => return Err(Unavailable::Forbidden),
        };
        Ok(Self {
            api,
            connects: connection.connects(),
            bytes: connection.max_payload().max(BYTES),
            connection,
            inbox,
            arriving,
            to_come: 0,
            requests: 0,
            came: true,
            delivered: 0,
            at_end: info.num_pending == 0,
            torn: false,
        })
    }

    /// The next events, into `events`; what arrives is in order and counts, whatever comes after.
    pub(super) async fn receive(&mut self, events: &mut Vec<ReadEvent>) -> Served {
        if std::mem::replace(&mut self.torn, true) {
            return Served::Broken;
        }
        let served = self.collect(events).await;
        self.torn = false;
        served
    }

    async fn collect(&mut self, events: &mut Vec<ReadEvent>) -> Served {
        let mut connection = self.connection.clone();
        let mut silence = pin!(sleep(PATIENCE * 2));
        let mut bytes = 0;
        while (events.len() as u64) < EVENTS && bytes < BYTES {
            if self.at_end {
                // Asked once more, it would look again.
                self.at_end = !events.is_empty();
                return if events.is_empty() {
                    Served::Nothing
                } else {
                    Served::Whole
                };
            }
            self.ask().await;
            // Many come at once, and to wait costs more than to take. What was missed shows in their numbers.
            let message = match self.arriving.next().now_or_never() {
                Some(message) => message,
                None => {
                    silence.as_mut().reset(Instant::now() + PATIENCE * 2);
                    tokio::select! {
                        message = self.arriving.next() => message,
                        () = connection.changed() => {
                            if !connection.is_connected() || connection.connects() != self.connects {
                                return Served::Broken;
                            }
                            continue;
                        }
                        () = &mut silence => return Served::Broken,
                    }
                }
            };
            let Some(message) = message else {
                return Served::Broken;
            };
            match self.arrival(message) {
                Arrival::Event(event) => {
                    bytes += event.body.len();
                    events.push(event);
                }
                // The end of the time of a request: nothing came although something was to come.
                Arrival::Over if !events.is_empty() => return Served::Whole,
                Arrival::Over if self.to_come == 0 => return Served::Nothing,
                Arrival::Over | Arrival::Nothing => {}
                Arrival::Broken => return Served::Broken,
            }
        }
        Served::Whole
    }

    async fn ask(&mut self) {
        while self.to_come <= AHEAD {
            self.requests += 1;
            self.to_come += EVENTS;
            let expires = u64::try_from(PATIENCE.as_nanos()).unwrap_or(u64::MAX);
            let body = json!({"batch": EVENTS, "max_bytes": self.bytes, "expires": expires});
            let next = format!("CONSUMER.MSG.NEXT.{}.{NAME}", self.api.stream);
            let subject = self.connection.api(&next);
            let reply = format!("{}.{}", self.inbox, self.requests);
            let client = &self.connection.client;
            // A failure shows when the answer is waited for.
            let _ = client
                .publish_with_reply(subject, reply, Bytes::from(body.to_string()))
                .await;
        }
    }

    /// An event comes under its own subject, a word about a request under that of the request.
    fn arrival(&mut self, message: Message) -> Arrival {
        if let Some(place) = message.reply.as_deref().and_then(Place::read) {
            // What is missing was sent and did not arrive.
            if place.consumer_seq != self.delivered + 1 {
                return Arrival::Broken;
            }
            self.delivered += 1;
            self.to_come = self.to_come.saturating_sub(1);
            self.came = true;
            self.at_end = place.pending == 0;
            return Arrival::Event(ReadEvent::of_delivery(message, &place));
        }
        let Some(status) = message.status else {
            return Arrival::Nothing;
        };
        if status == StatusCode::IDLE_HEARTBEAT {
            return Arrival::Nothing;
        }
        let headers = message.headers.unwrap_or_default();
        let unserved = headers
            .get(UNSERVED)
            .and_then(|number| number.as_str().parse::<u64>().ok());
        self.to_come = self.to_come.saturating_sub(unserved.unwrap_or(0));
        match message.description.as_deref() {
            _ if status == StatusCode::TIMEOUT => Arrival::Over,
            Some("Batch Completed") => Arrival::Nothing,
            Some("Message Size Exceeds MaxBytes") => {
                if !std::mem::take(&mut self.came) {
                    self.bytes = self.bytes.saturating_mul(2);
                }
                Arrival::Nothing
            }
            _ => Arrival::Broken,
        }
    }

    /// Takes the consumer away. Without that the broker does it a little later.
    pub(super) async fn close(self) {
        let _ = timeout(FAREWELL, self.api.delete()).await;
    }
}
