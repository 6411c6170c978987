//! Is the message that the broker has the event that it calls a duplicate?

use schemas::event::{Event, Fact, Kind, Via, header};

use crate::stored::{self, Reading, Stored};

/// What comparing a message with an event gives.
#[derive(Debug, Clone)]
pub(super) enum Verdict {
    /// The same result.
    Same,
    /// Another one, or none: the event is not on the stream, and goes there as this one, under its second id.
    Other(Box<Event>),
    /// The broker cannot show the message now.
    NotNow(String),
}

/// Compares an event with the message that the broker shows in `answer`, of the sequence that the event's id should
/// have. Equal bytes are the same result at no cost; only others are read.
pub(super) fn judge(event: &Event, subject: &str, answer: &[u8]) -> Verdict {
    let same = match stored::read(answer) {
        Reading::NotNow(reason) => return Verdict::NotNow(reason),
        Reading::Gone => false,
        Reading::Found(found) => stands_for(&found, event, subject) && holds(&found, event),
    };
    if same {
        Verdict::Same
    } else {
        Verdict::Other(Box::new(event.clone().into_divergent()))
    }
}

/// Whether whoever reads the stream takes the message for what the event is: one that only has its id, and was put
/// there by somebody else in another way, is set aside.
fn stands_for(found: &Stored, event: &Event, subject: &str) -> bool {
    found.subject == subject
        && found.header(header::MSG_ID) == Some(event.msg_id.as_str())
        && found
            .header(header::VIA)
            .is_some_and(|via| via.parse::<Via>().is_ok())
}

fn holds(found: &Stored, event: &Event) -> bool {
    found.body == event.body
        || match event.kind {
            Kind::Completed | Kind::Failed => event
                .fact()
                .is_some_and(|fact| Fact::read(&found.body) == Some(fact)),
            Kind::NonFinal | Kind::Quarantine => false,
        }
}
