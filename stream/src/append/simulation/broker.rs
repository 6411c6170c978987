//! A broker that does what a real one was seen to do, in virtual time.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use async_nats::message::OutboundMessage;
use async_nats::{Message, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::HOP;

/// What things cost the broker.
#[derive(Clone, Copy)]
pub(super) struct Costs {
    pub(super) plain: Duration,
    pub(super) batch: Duration,
    pub(super) batched: Duration,
}

/// Syncs before it acknowledges.
pub(super) const SYNCED: Costs = Costs {
    plain: Duration::from_micros(200),
    batch: Duration::from_micros(2_200),
    batched: Duration::from_micros(15),
};

/// Acknowledges what is in the page cache; a batch is no cheaper for that.
pub(super) const CACHED: Costs = Costs {
    plain: Duration::from_micros(15),
    ..SYNCED
};

pub(super) struct Stored {
    pub(super) subject: String,
    pub(super) id: String,
    pub(super) body: Bytes,
}

pub(super) struct Broker {
    pub(super) costs: Costs,
    pub(super) arriving: VecDeque<(Instant, OutboundMessage)>,
    pub(super) busy_until: Instant,
    pub(super) stored: Vec<Stored>,
    pub(super) ids: HashMap<String, usize>,
    pub(super) staged: HashMap<String, Vec<Stored>>,
    /// Takes messages and answers nothing.
    pub(super) mute: bool,
}

impl Broker {
    pub(super) fn new(costs: Costs, now: Instant) -> Self {
        Self {
            costs,
            arriving: VecDeque::new(),
            busy_until: now,
            stored: Vec::new(),
            ids: HashMap::new(),
            staged: HashMap::new(),
            mute: false,
        }
    }

    /// When it next has something to do.
    pub(super) fn next(&self) -> Option<Instant> {
        self.arriving.front().map(|(at, _)| self.busy_until.max(*at))
    }

    /// Works through all that has arrived; the answers and when they reach the client.
    pub(super) fn work(&mut self, now: Instant) -> Vec<(Instant, Message)> {
        let mut answers = Vec::new();
        self.busy_until = now;
        while self.arriving.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, message)) = self.arriving.pop_front() else {
                break;
            };
            answers.extend(self.take(message));
        }
        if self.mute {
            answers.clear();
        }
        let at = self.busy_until + HOP;
        answers.into_iter().map(|answer| (at, answer)).collect()
    }

    fn take(&mut self, message: OutboundMessage) -> Option<Message> {
        let headers = message.headers.unwrap_or_default();
        if message.subject.starts_with("$JS.API.") {
            self.busy_until += self.costs.batched;
            return message
                .reply
                .map(|reply| self.read(reply.as_str(), &message.payload));
        }
        let id = headers
            .get(header::NATS_MESSAGE_ID)
            .map(ToString::to_string)
            .unwrap_or_default();
        let coming = Stored {
            subject: message.subject.to_string(),
            id,
            body: message.payload,
        };
        let Some(batch) = headers.get(header::NATS_BATCH_ID).map(ToString::to_string) else {
            self.busy_until += self.costs.plain;
            let text = match self.ids.get(&coming.id) {
                Some(index) => format!(r#"{{"stream":"ANSWERS","seq":{},"duplicate":true}}"#, index + 1),
                None => format!(r#"{{"stream":"ANSWERS","seq":{}}}"#, self.store(coming)),
            };
            return message.reply.map(|reply| answer(reply.as_str(), text));
        };
        self.busy_until += self.costs.batched;
        let staged = self.staged.entry(batch.clone()).or_default();
        staged.push(coming);
        headers.get(header::NATS_BATCH_COMMIT)?;
        self.busy_until += self.costs.batch;
        let staged = self.staged.remove(&batch).unwrap_or_default();
        let text = if staged.iter().any(|coming| self.ids.contains_key(&coming.id)) {
            r#"{"error":{"code":400,"err_code":10201,"description":"batch contains a duplicate"}}"#.to_owned()
        } else {
            let seqs: Vec<_> = staged.into_iter().map(|coming| self.store(coming)).collect();
            let last = seqs.last().copied().unwrap_or_default();
            format!(
                r#"{{"stream":"ANSWERS","seq":{last},"batch":"{batch}","count":{}}}"#,
                seqs.len()
            )
        };
        message.reply.map(|reply| answer(reply.as_str(), text))
    }

    fn store(&mut self, coming: Stored) -> usize {
        self.ids.insert(coming.id.clone(), self.stored.len());
        self.stored.push(coming);
        self.stored.len()
    }

    fn read(&self, reply: &str, request: &[u8]) -> Message {
        let seq: usize = String::from_utf8_lossy(request)
            .replace(|c: char| !c.is_ascii_digit(), "")
            .parse()
            .unwrap();
        let text = match &self.stored[seq - 1] {
            Stored { id, .. } if id.is_empty() => {
                r#"{"error":{"code":404,"err_code":10037,"description":"no message found"}}"#.to_owned()
            }
            Stored { subject, id, body } => {
                let headers = format!("NATS/1.0\r\nNats-Msg-Id: {id}\r\nAnswers-Via: webhook\r\n\r\n");
                format!(
                    r#"{{"message":{{"subject":"{subject}","seq":{seq},"hdrs":"{}","data":"{}","time":"2026-11-30T12:00:00Z"}}}}"#,
                    STANDARD.encode(headers),
                    STANDARD.encode(body)
                )
            }
        };
        answer(reply, text)
    }

    /// The message is deleted; its id stays known.
    pub(super) fn delete(&mut self, seq: usize) {
        self.stored[seq - 1].id.clear();
        self.stored[seq - 1].body.clear();
    }
}

fn answer(reply: &str, text: String) -> Message {
    Message {
        subject: reply.into(),
        reply: None,
        length: text.len(),
        payload: text.into(),
        headers: None,
        status: None,
        description: None,
    }
}
