//! What the answers of the broker mean.

use std::time::{Duration, Instant};

use async_nats::{Message, StatusCode};
use bytes::Bytes;

use super::entry::{Compared, Comparison, Entry, Phase};
use super::{Engine, Token};
use crate::append::outcome::{AppendError, Appended};
use crate::append::verdict::Verdict;
use crate::append::wire::{self, Receipt};

/// The pause before an event is published again that the broker could not take.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Bodies from this size on are compared outside of the engine, so that they hold nobody up.
const LARGE_BODY: usize = 64 * 1024;

impl Engine {
    /// An answer of the broker.
    pub(in crate::append) fn replied(&mut self, message: Message, now: Instant) {
        let Some((token, step)) = parse_reply(&self.fixed.inbox, &message.subject) else {
            return;
        };
        if let Some(batch) = self.batches.remove(&token) {
            self.deadlines.remove(&(batch.deadline, token));
            return self.batch_replied(batch.members, &message, now);
        }
        // Too late, or the answer to an earlier question: the event has gone on without it.
        let Some(entry) = self.entries.get_mut(&token).filter(|entry| entry.step == step) else {
            return;
        };
        match entry.phase {
            Phase::Publishing => {
                let receipt = wire::receipt(&message, self.fixed.max_message);
                self.settle(token, !matches!(receipt, Receipt::NotNow(_)), now);
                self.received(token, receipt, now);
            }
            Phase::Reading(_) if message.status == Some(StatusCode::NO_RESPONDERS) => {
                self.later(token, wire::NO_RESPONDERS.to_owned(), now);
            }
            Phase::Reading(seq) => self.compare(token, seq, message.payload, now),
            Phase::Waiting | Phase::Comparing => {}
        }
    }

    fn received(&mut self, token: Token, receipt: Receipt, now: Instant) {
        let divergent = self
            .entries
            .get(&token)
            .is_some_and(|entry| entry.divergent.is_some());
        match receipt {
            Receipt::Stored(seq) if divergent => self.finish(token, Ok(Appended::Divergent { seq }), now),
            Receipt::Stored(seq) => self.finish(token, Ok(Appended::Stored { seq }), now),
            Receipt::Duplicate(seq) => self.read(token, seq),
            Receipt::NotNow(reason) | Receipt::NoBatches(reason) => self.later(token, reason, now),
            Receipt::Refused(error) => self.finish(token, Err(error), now),
        }
    }

    fn batch_replied(&mut self, members: Vec<Token>, message: &Message, now: Instant) {
        match wire::batch_receipt(message, members.len(), self.fixed.max_message) {
            Receipt::Stored(last) => {
                let first = last - (members.len() as u64 - 1);
                for (seq, token) in (first..).zip(members) {
                    self.settle(token, true, now);
                    self.finish(token, Ok(Appended::Stored { seq }), now);
                }
            }
            refusal => {
                if let Receipt::NoBatches(_) = refusal {
                    self.pace.allow_batches(false);
                }
                self.metrics.rejected_batches.inc();
                // Still outstanding for the pace: what this costs is part of what batches cost.
                for token in members {
                    if self.entries.contains_key(&token) {
                        self.publish(token);
                    }
                }
            }
        }
    }

    fn compare(&mut self, token: Token, seq: u64, answer: Bytes, now: Instant) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        entry.phase = Phase::Comparing;
        let (step, event) = (entry.step, entry.published());
        let is_large = event.body.len().max(answer.len()) >= LARGE_BODY;
        let event = event.clone();
        let subject = self.fixed.subjects.of(event.kind).to_owned();
        let comparison = Comparison {
            token,
            step,
            seq,
            event,
            subject,
            answer,
        };
        if is_large {
            self.comparisons.push(comparison);
        } else {
            self.compared(comparison.make(), now);
        }
    }

    /// The result of a comparison.
    pub(in crate::append) fn compared(&mut self, compared: Compared, now: Instant) {
        let Compared {
            token,
            step,
            seq,
            verdict,
        } = compared;
        let current = |entry: &&mut Entry| entry.step == step && entry.phase == Phase::Comparing;
        let Some(entry) = self.entries.get_mut(&token).filter(current) else {
            return;
        };
        match verdict {
            Verdict::Same => self.finish(token, Ok(Appended::Duplicate { seq }), now),
            Verdict::Other(second) if entry.divergent.is_none() => {
                entry.divergent = Some(*second);
                // Those prepared with the event name its first id, and are still there when a remembered id led here
                // at once.
                entry.headers = None;
                entry.step += 1;
                self.publish(token);
            }
            // A message under the second id that is gone as well leaves nothing to try.
            Verdict::Other(_) => self.finish(token, Err(AppendError::Vanished), now),
            Verdict::NotNow(reason) => {
                entry.phase = Phase::Reading(seq);
                self.later(token, reason, now);
            }
        }
    }

    fn later(&mut self, token: Token, reason: String, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.refusal = Some(reason);
            self.retries.push_back((now + RETRY_PAUSE, token));
        }
    }
}

fn parse_reply(inbox: &str, subject: &str) -> Option<(Token, u32)> {
    let (token, step) = subject.strip_prefix(inbox)?.strip_prefix('.')?.split_once('.')?;
    Some((Token(token.parse().ok()?), step.parse().ok()?))
}
