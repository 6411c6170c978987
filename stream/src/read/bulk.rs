//! Direct reads of many events an answer. They send headers as they are, and over some the client ends its connection, or
//! itself: so they go over a connection that nothing else depends on.

use std::time::Duration;

use async_nats::{Message, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::ReadEvent;
use crate::connect::{self, Connection, Settings};

/// Most events that one request asks for.
pub(super) const EVENTS: u64 = 1_000;
/// Most bytes that one request asks for; one event of any size always comes.
pub(super) const BYTES: usize = 8 << 20;
/// How long the broker may be silent, at the beginning and in the middle of an answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A connection for direct reads, with at most one request under way.
#[derive(Debug)]
pub(super) struct Bulk {
    connection: Connection,
    connects: u64,
    subject: String,
    inbox: String,
    answers: Subscriber,
    /// The number of the last request. Answers to earlier ones count for nothing.
    request: u64,
    asked_from: Option<u64>,
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Served {
    /// It is answered; nothing more comes of it.
    Whole,
    /// There is nothing (more) where this was asked.
    Nothing,
    /// The answer broke off, with the connection or without a word.
    Broken,
    /// The broker says no.
    Refused(String),
}

impl Bulk {
    /// None when there is no broker.
    pub(super) async fn open(settings: &Settings, stream: &str) -> Option<Self> {
        let (connection, inbox, answers) = connect(settings).await?;
        Some(Self {
            connects: connection.connects(),
            subject: connection.api(&format!("DIRECT.GET.{stream}")),
            connection,
            inbox,
            answers,
            request: 0,
            asked_from: None,
        })
    }

    /// Asks for events from `first` on, unless that is asked already. A failure shows when the answer is waited for.
    pub(super) async fn ask(&mut self, first: u64, last: u64) {
        if self.asked_from == Some(first) {
            return;
        }
        self.request += 1;
        self.asked_from = Some(first);
        let batch = EVENTS.min(last - first + 1);
        let body = json!({"seq": first, "batch": batch, "max_bytes": BYTES}).to_string();
        let reply = format!("{}.{}", self.inbox, self.request);
        let client = &self.connection.client;
        let _ = client
            .publish_with_reply(self.subject.clone(), reply, Bytes::from(body))
            .await;
    }

    /// Collects the answer to the last request into `events`. Whatever part of one arrives is in order and counts.
    pub(super) async fn receive(&mut self, events: &mut Vec<ReadEvent>) -> Served {
        // Should this future be dropped in the middle of the answer, the next request is a new one.
        self.asked_from = None;
        let reply = format!("{}.{}", self.inbox, self.request);
        let mut connection = self.connection.clone();
        loop {
            let message = tokio::select! {
                message = self.answers.next() => message,
                () = connection.changed() => {
                    if !connection.is_connected() || connection.connects() != self.connects {
                        return Served::Broken;
                    }
                    continue;
                }
                () = sleep(PATIENCE) => return Served::Broken,
            };
            let Some(mut message) = message else {
                return Served::Broken;
            };
            if message.subject.as_str() != reply {
                continue;
            }
            match ReadEvent::of_answer(&mut message) {
                Some(event) => events.push(event),
                None => return served(&message),
            }
        }
    }
}

/// A connection of one's own, and a subscription to `<inbox>.*` on it; None when there is no broker.
pub(super) async fn connect(settings: &Settings) -> Option<(Connection, String, Subscriber)> {
    let connecting = connect::connect(settings, "reading the stream");
    let connection = timeout(PATIENCE, connecting).await.ok()?.ok()?;
    let inbox = connection.client.new_inbox();
    let answers = connection.client.subscribe(format!("{inbox}.*")).await.ok()?;
    Some((connection, inbox, answers))
}

/// What a word of the broker's says about the request.
fn served(message: &Message) -> Served {
    match message.status.map(|status| status.as_u16()) {
        Some(204) => Served::Whole,
        Some(404) => Served::Nothing,
        Some(503) | None => Served::Broken,
        Some(status) => {
            let description = message.description.as_deref().unwrap_or_default();
            Served::Refused(format!("{status} {description}"))
        }
    }
}
