//! Is the message that the broker has the event that it calls a duplicate?

use bytes::Bytes;
use schemas::event::{Event, Fact, Kind};

/// What comparing a message with an event gives.
#[derive(Debug, Clone)]
pub(super) enum Verdict {
    /// The same result.
    Same,
    /// Another one, or none: the event is not on the stream, and goes there as this one, under its second id.
    Other(Box<Event>),
    /// The event is not on the stream, and has no second id.
    Lost,
}

/// A message that was read back.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) id: Option<String>,
    pub(super) body: Bytes,
}

/// Compares an event with the message found under the sequence that its id should have; None when there is no
/// message. Equal bytes are the same result at no cost; only others are read.
pub(super) fn compare(event: &Event, found: Option<&Found>) -> Verdict {
    let found = found.filter(|found| found.id.as_deref() == Some(event.msg_id.as_str()));
    if found.is_some_and(|found| found.body == event.body) {
        return Verdict::Same;
    }
    if matches!(event.kind, Kind::NonFinal | Kind::Quarantine) {
        // The id of what is no result is made of its body: with that id, it is the same.
        return if found.is_some() {
            Verdict::Same
        } else {
            Verdict::Lost
        };
    }
    match event.fact() {
        Some(fact) if found.and_then(|found| Fact::read(&found.body)).as_ref() == Some(&fact) => {
            Verdict::Same
        }
        Some(_) => Verdict::Other(Box::new(event.clone().into_divergent())),
        None => Verdict::Lost,
    }
}
