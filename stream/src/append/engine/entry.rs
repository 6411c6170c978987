//! What is known about one event, or one batch, that is under way.

use std::time::Instant;

use async_nats::HeaderMap;
use bytes::Bytes;
use schemas::event::Event;
use tokio::sync::oneshot;

use super::{Answer, Request, Token};
use crate::append::pace::Way;
use crate::append::recent::{Fingerprint, IdKey};
use crate::append::verdict::{self, Verdict};

/// A comparison to be made outside of the engine.
#[derive(Debug)]
pub(in crate::append) struct Comparison {
    pub(super) token: Token,
    pub(super) step: u32,
    pub(super) seq: u64,
    pub(super) event: Event,
    pub(super) subject: String,
    /// The broker's answer to the request for the message.
    pub(super) answer: Bytes,
}

/// A comparison that was made.
#[derive(Debug)]
pub(in crate::append) struct Compared {
    pub(super) token: Token,
    pub(super) step: u32,
    pub(super) seq: u64,
    pub(super) verdict: Verdict,
}

impl Comparison {
    pub(in crate::append) fn make(self) -> Compared {
        let Self {
            token,
            step,
            seq,
            event,
            subject,
            answer,
        } = self;
        Compared {
            token,
            step,
            seq,
            verdict: verdict::judge(&event, &subject, &answer),
        }
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) event: Event,
    /// The event under its second id, once its own turned out to belong to another result.
    pub(super) divergent: Option<Event>,
    pub(super) headers: Option<HeaderMap>,
    pub(super) fingerprint: Fingerprint,
    pub(super) key: IdKey,
    pub(super) size: usize,
    pub(super) since: Instant,
    pub(super) deadline: Instant,
    pub(super) callers: Callers,
    /// Events with the same id and another body, which begin when this one is done.
    pub(super) followers: Vec<Request>,
    pub(super) phase: Phase,
    /// Counts the questions put to the broker. Answers to earlier ones are not answers to the present one.
    pub(super) step: u32,
    /// Counted by the pace as outstanding since then.
    pub(super) paced: Option<(Way, Instant)>,
    /// Why the broker could not take it.
    pub(super) refusal: Option<String>,
}

impl Entry {
    /// The event as it is published: under its own id, or under its second one.
    pub(super) fn published(&self) -> &Event {
        self.divergent.as_ref().unwrap_or(&self.event)
    }
}

/// Almost always one.
#[derive(Debug)]
pub(super) struct Callers {
    pub(super) first: oneshot::Sender<Answer>,
    /// Those who brought the same event while it was under way.
    pub(super) others: Vec<oneshot::Sender<Answer>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Waiting,
    Publishing,
    /// The message under this sequence is being read.
    Reading(u64),
    /// The message under this sequence is being compared.
    Comparing,
}

/// Events that were published together.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) members: Vec<Token>,
    /// When the last of its events expires.
    pub(super) deadline: Instant,
}
