//! Messages in hand.

use std::ops::Range;
use std::sync::Arc;

use stream::StoredEvent;

use crate::decode::{Decoded, Decoder, Message};
use crate::outcome::{Acknowledgment, Outcome};
use crate::rows::{ParkedRow, ResultRow};

/// One message and what it turned out to be.
#[derive(Debug, Clone)]
pub struct Item {
    /// As the stream holds it.
    pub event: StoredEvent,
    /// For the tables.
    pub decoded: Decoded,
}

/// Messages that were fetched together. Clones share them.
#[derive(Debug, Clone)]
pub struct Batch(Arc<Vec<Item>>);

impl Batch {
    /// Reads the messages. Takes processor time: not for a thread that serves others.
    pub fn decode(decoder: &Decoder, events: Vec<StoredEvent>) -> Self {
        let items = events.into_iter().map(|event| {
            let decoded = decoder.decode(Message::of(&event));
            Item { event, decoded }
        });
        Self(Arc::new(items.collect()))
    }

    /// The messages.
    pub fn items(&self) -> &[Item] {
        &self.0
    }

    /// All of them, as something to be cut in halves.
    pub fn messages(&self) -> Messages {
        Messages {
            batch: self.clone(),
            range: 0..self.0.len(),
        }
    }

    /// Whether both are the same messages in hand.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Some messages of a batch, behind each other.
#[derive(Debug)]
pub struct Messages {
    batch: Batch,
    range: Range<usize>,
}

impl Messages {
    /// The messages.
    pub fn items(&self) -> &[Item] {
        &self.batch.items()[self.range.clone()]
    }

    /// The first half and the second one, which is no shorter.
    pub fn halves(&self) -> (Self, Self) {
        let middle = self.range.start + self.range.len() / 2;
        let of = |range| Self {
            batch: self.batch.clone(),
            range,
        };
        (of(self.range.start..middle), of(middle..self.range.end))
    }
}

impl Item {
    /// The result in it.
    pub fn result(&self) -> Option<&ResultRow> {
        self.decoded.result()
    }

    /// What there is to park.
    pub fn parked(&self) -> Option<&ParkedRow> {
        self.decoded.parked()
    }

    /// Tells the broker what became of it. One that does not get there means that the message comes again; the only
    /// failure here is a client that has ended, with the process.
    pub async fn acknowledge(&self, outcome: Outcome) {
        let acker = &self.event.acker;
        let _ = match outcome.acknowledgment() {
            Acknowledgment::Ack => acker.ack().await,
            Acknowledgment::Later(after) => acker.nak(after).await,
        };
    }
}
