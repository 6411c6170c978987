//! Is the message that the broker has the event that it calls a duplicate?

use bytes::Bytes;
use schemas::event::{Event, Fact};

/// What comparing a read message with an event gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The same result.
    Same,
    /// Another one, or none: the event is not on the stream.
    Other,
}

/// Compares an event with the message found under the sequence that its id should have, of which the id and the
/// body are given; None when there is no message. Equal bytes are the same result at no cost; only others are read.
pub(super) fn compare(event: &Event, found: Option<(Option<&str>, &Bytes)>) -> Verdict {
    let Some((Some(id), body)) = found else {
        return Verdict::Other;
    };
    if id != event.msg_id.as_str() {
        return Verdict::Other;
    }
    if *body == event.body {
        return Verdict::Same;
    }
    match event.fact() {
        Some(fact) if Fact::read(body).as_ref() == Some(&fact) => Verdict::Same,
        Some(_) => Verdict::Other,
        // The id of what is no result is made of its body: with that id, it is the same.
        None => Verdict::Same,
    }
}
