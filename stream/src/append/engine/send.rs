//! Sending: what goes out, and when.

use std::time::Instant;

use async_nats::Subject;
use async_nats::message::OutboundMessage;

use super::entry::{Batch, Phase};
use super::{Engine, MOST_OUTPUT, Token};
use crate::append::pace::{BATCH_BYTES, BATCH_EVENTS, Decision, Queue, Way};
use crate::append::wire;
use crate::stored;

impl Engine {
    /// Sends what is to be sent now. To be called after everything else, and when [`Engine::wake`] says so.
    pub(in crate::append) fn pump(&mut self, now: Instant) {
        self.expire(now);
        self.retry(now);
        self.wake = None;
        if self.disconnected.is_some() {
            return;
        }
        while let Some(first) = self.waiting.front()
            && self.output.len() < MOST_OUTPUT
        {
            let since = self.entries[first].since;
            let queue = Queue {
                waiting: self.waiting.len(),
                batchable: self.batchable(),
                since,
            };
            let decision = self.pace.decide(queue, now);
            self.metrics
                .batching
                .set(i64::from(self.pace.way() == Way::Batch));
            match decision {
                Decision::Hold(until) => {
                    self.wake = until;
                    return;
                }
                Decision::Plain(events) => {
                    self.pace.sent(decision, now);
                    for token in self.take(events) {
                        self.paced(token, Way::Plain, now);
                        self.publish(token);
                    }
                }
                Decision::Batch(events) => {
                    self.pace.sent(decision, now);
                    let tokens = self.take(events);
                    self.publish_batch(tokens, now);
                }
            }
        }
    }

    /// When [`Engine::pump`] has to be called at the latest.
    pub(in crate::append) fn next_wake(&self) -> Option<Instant> {
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        let retry = self.retries.front().map(|(at, _)| *at);
        [deadline, retry, self.wake].into_iter().flatten().min()
    }

    /// How many of the events that wait fit into one batch.
    pub(super) fn batchable(&self) -> usize {
        // A message near the limit has no room for the headers of a batch; one of those goes by itself.
        let fits = |size: usize| size + wire::BATCH_HEADERS <= self.fixed.max_message;
        let mut bytes = 0;
        let sizes = self
            .waiting
            .iter()
            .take(BATCH_EVENTS)
            .map(|token| self.entries[token].size);
        if self.waiting_bytes <= BATCH_BYTES
            && self.waiting_bytes + wire::BATCH_HEADERS <= self.fixed.max_message
        {
            return self.waiting.len().min(BATCH_EVENTS);
        }
        sizes
            .take_while(|size| {
                bytes += size;
                bytes <= BATCH_BYTES && fits(*size)
            })
            .count()
            .max(1)
    }

    pub(super) fn take(&mut self, events: usize) -> Vec<Token> {
        let tokens: Vec<_> = self.waiting.drain(..events.min(self.waiting.len())).collect();
        let bytes: usize = tokens.iter().map(|token| self.entries[token].size).sum();
        self.waiting_bytes -= bytes;
        tokens
    }

    pub(super) fn paced(&mut self, token: Token, way: Way, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.paced = Some((way, now));
        }
    }

    /// Publishes one event by itself.
    pub(super) fn publish(&mut self, token: Token) {
        let message = self.message(token, None);
        self.output.push_back(message);
    }

    pub(super) fn publish_batch(&mut self, tokens: Vec<Token>, now: Instant) {
        let batch = self.token();
        let id = format!("{}{}", self.fixed.batch_prefix, batch.0);
        self.metrics.batch_events.observe(tokens.len() as f64);
        let mut deadline = now;
        for (index, token) in tokens.iter().enumerate() {
            self.paced(*token, Way::Batch, now);
            deadline = deadline.max(self.entries[token].deadline);
            let last = index + 1 == tokens.len();
            let mut message = self.message(*token, Some(batch).filter(|_| last));
            let headers = message.headers.get_or_insert_default();
            wire::put_into_batch(headers, &id, index + 1, last);
            if !last {
                message.reply = None;
            }
            self.output.push_back(message);
        }
        self.deadlines.insert((deadline, batch));
        self.batches.insert(
            batch,
            Batch {
                members: tokens,
                deadline,
            },
        );
    }

    /// The message that publishes an event; a receipt for the whole batch goes to the batch.
    pub(super) fn message(&mut self, token: Token, batch: Option<Token>) -> OutboundMessage {
        let entry = self
            .entries
            .get_mut(&token)
            .expect("only events with an entry are published");
        entry.phase = Phase::Publishing;
        let headers = match entry.headers.take() {
            Some(headers) => headers,
            None => wire::headers(entry.published(), &self.fixed.stream),
        };
        let reply = match batch {
            Some(batch) => reply_subject(&self.fixed.inbox, batch, 0),
            None => reply_subject(&self.fixed.inbox, token, entry.step),
        };
        OutboundMessage {
            subject: Subject::from(self.fixed.subjects.of(entry.event.kind)),
            reply: Some(reply),
            payload: entry.event.body.clone(),
            headers: Some(headers),
        }
    }

    pub(super) fn read(&mut self, token: Token, seq: u64) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        entry.phase = Phase::Reading(seq);
        entry.step += 1;
        self.metrics.reads.inc();
        self.output.push_back(OutboundMessage {
            subject: self.fixed.read_subject.clone(),
            reply: Some(reply_subject(&self.fixed.inbox, token, entry.step)),
            payload: stored::request_body(seq),
            headers: None,
        });
    }

    pub(super) fn retry(&mut self, now: Instant) {
        while let Some((at, token)) = self.retries.front().copied()
            && at <= now
        {
            self.retries.pop_front();
            if self.disconnected.is_some() {
                continue; // all of them begin again with the next connection
            }
            match self.entries.get(&token).map(|entry| entry.phase) {
                Some(Phase::Publishing) => {
                    self.metrics.republished.inc();
                    self.publish(token);
                }
                Some(Phase::Reading(seq)) => self.read(token, seq),
                Some(Phase::Waiting | Phase::Comparing) | None => {}
            }
        }
    }
}

fn reply_subject(inbox: &str, token: Token, step: u32) -> Subject {
    Subject::from(format!("{inbox}.{}.{step}", token.0))
}
