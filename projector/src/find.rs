//! Finding the events of one task, or of one job. Subjects hold no ids, and the tables know one event of each task, so the
//! whole stream is looked through.

use schemas::delivery::{self, Delivery, TaskId};
use schemas::event::{MsgId, Received};
use schemas::job_key::{Rules, job_key, of_key};
use stream::ReadEvent;
use stream::read::ScanError;

use crate::config::Question;
use crate::decode::{Decoded, Decoder, Message};
use crate::progress::Progress;
use crate::reach::Log;

/// An event that was looked for.
#[derive(Debug)]
pub struct Found {
    /// As the stream holds it.
    pub event: ReadEvent,
    /// What its headers say.
    pub headers: Received,
    /// What a projector makes of it.
    pub decoded: Decoded,
}

/// Which events are looked for.
#[derive(Debug)]
pub struct Matcher<'q> {
    question: &'q Question,
    rules: Rules,
    /// The message id of the task.
    msg_id: Option<MsgId>,
}

impl<'q> Matcher<'q> {
    /// For the events of this task or job.
    pub fn new(question: &'q Question, rules: Rules) -> Self {
        let msg_id = match question {
            Question::Task(id) => Some(MsgId::of_task(id)),
            Question::Job(_) => None,
        };
        Self {
            question,
            rules,
            msg_id,
        }
    }

    /// Whether the body speaks of it, or else the headers do: an event whose two disagree is one to know of as well.
    pub fn matches(&self, event: &ReadEvent) -> bool {
        self.is_in_body(&event.body) || self.is_in_headers(event)
    }

    fn is_in_body(&self, body: &[u8]) -> bool {
        match (delivery::read(body), self.question) {
            (Ok(Delivery::Result(result)), Question::Task(id)) => result.task_id == *id,
            (Ok(Delivery::NonFinal { task_id, .. }), Question::Task(id)) => task_id == *id,
            (Ok(Delivery::Result(result)), Question::Job(key)) => {
                job_key(self.rules, result.idempotency_key.as_deref(), &result.task_id) == key
            }
            (Ok(_) | Err(_), _) => false,
        }
    }

    fn is_in_headers(&self, event: &ReadEvent) -> bool {
        let headers = Received::from_headers(event.header_pairs());
        match self.question {
            Question::Task(id) => {
                headers.task_id.as_deref() == Some(id.as_str())
                    || headers.msg_id.is_some_and(|found| self.is_named(&found))
            }
            Question::Job(key) => headers
                .idempotency_key
                .is_some_and(|sent| of_key(self.rules, &sent) == key),
        }
    }

    /// The task's own id, or that of a divergent result of it.
    fn is_named(&self, msg_id: &str) -> bool {
        let own = self.msg_id.as_ref().map(MsgId::as_str);
        let rest = own.and_then(|own| msg_id.strip_prefix(own));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
    }
}

/// Looks through everything that the stream held when it was reached, and gives what was found and how many events were
/// looked at.
///
/// # Errors
/// When the broker does not give all of it.
pub async fn find(log: &Log, decoder: &Decoder, question: &Question) -> Result<(Vec<Found>, u64), ScanError> {
    let matcher = Matcher::new(question, decoder.rules);
    let mut found = Vec::new();
    let searched = walk(log, |event| {
        if matcher.matches(&event) {
            found.push(Found::of(event, decoder));
        }
    })
    .await?;
    Ok((found, searched))
}

/// Shows every event that the stream held when it was reached to `see`, in order, and says how many there were.
///
/// # Errors
/// When the broker does not give all of them.
pub async fn walk(log: &Log, mut see: impl FnMut(ReadEvent)) -> Result<u64, ScanError> {
    let (first, last) = (log.state.first_seq, log.state.last_seq);
    let mut scan = log.reader.scan(&log.nats, first, last);
    let mut progress = Progress::new("looking through the stream", first, last);
    let mut seen = 0;
    while let Some(events) = scan.next().await? {
        seen += events.len() as u64;
        events.into_iter().for_each(&mut see);
        progress.at(scan.position());
    }
    Ok(seen)
}

impl Found {
    /// Reads it as a projector would.
    pub fn of(event: ReadEvent, decoder: &Decoder) -> Self {
        Self {
            headers: Received::from_headers(event.header_pairs()),
            decoded: decoder.decode(Message::from(event.clone())),
            event,
        }
    }

    /// The task that its body speaks of.
    pub fn task_id(&self) -> Option<&TaskId> {
        match &self.decoded {
            Decoded::Result(row) => Some(&row.task_id),
            Decoded::Parked(row) => row.task_id.as_ref(),
            Decoded::NonFinal { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use async_nats::HeaderMap;
    use bytes::Bytes;
    use time::OffsetDateTime;

    use super::*;

    fn event(msg_id: &str, task: Option<&str>, body: &str) -> ReadEvent {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", msg_id);
        if let Some(task) = task {
            headers.insert("ce-taskid", task);
        }
        ReadEvent {
            subject: "answers.result.completed".to_owned(),
            headers,
            unreadable: None,
            body: Bytes::copy_from_slice(body.as_bytes()),
            seq: 1,
            time: OffsetDateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn an_event_is_of_a_task_by_its_body_its_id_or_its_header() {
        let question = Question::Task("a b".parse().unwrap());
        let matcher = Matcher::new(&question, Rules::default());
        let of = |status: &str| format!(r#"{{"task":{{"id":"\u0061 b","status":"{status}"}}}}"#);
        assert!(matcher.matches(&event("x", None, &of("COMPLETED"))));
        assert!(matcher.matches(&event("x", None, &of("QUEUED"))));
        assert!(matcher.matches(&event("a%20b", None, "")));
        assert!(matcher.matches(&event("a%20b#0123", None, "")));
        assert!(matcher.matches(&event("x", Some("a%20b"), "")));
        let other = r#"{"task":{"id":"a b c","status":"FAILED"}}"#;
        for id in ["a%20b%20c", "a%20bc", "a%20", "quarantine/a%20b"] {
            assert!(!matcher.matches(&event(id, Some("a%20b%20c"), other)), "{id}");
        }
    }

    #[test]
    fn an_event_is_of_a_job_by_its_key_without_rerun_suffix_or_by_the_id_of_a_task_without_key() {
        let with = |key: &str| format!(r#"{{"task":{{"id":"t","status":"FAILED","idempotencyKey":{key}}}}}"#);
        let matches = |job: &str, key: &str| {
            let question = Question::Job(job.to_owned());
            Matcher::new(&question, Rules::default()).matches(&event("t", None, &with(key)))
        };
        assert!(matches("k|DE", r#""k|DE""#));
        assert!(matches("k|DE", r#""k|DE-r2""#));
        assert!(matches("t", "null"));
        assert!(!matches("t", r#""k|DE""#));
        assert!(!matches("k|DE-r2", r#""k|DE-r2""#));
    }
}
