//! What a message from the stream is: a result, something to count, or something to set aside.
//!
//! The body is read again, by the same function that ingress used. A message whose subject or id does not agree with its
//! body was not written by a program of ours, whatever it says; unless an older one filed this very body as not final or
//! unreadable, and this one can read it.

use std::borrow::Cow;

use bytes::Bytes;
use schemas::delivery::{self, Delivery, Problem, Problems, TaskId, TaskResult, Unreadable};
use schemas::digest::ResponseDigest;
use schemas::event::{Fact, Subjects, Via, check_other, check_result, header, is_filed_unread};
use schemas::job_key::{Rules, job_key};
use schemas::timestamp::cut_to_microseconds;
use schemas::winner::{Provenance, TaskRank};
use stream::{ReadEvent, StoredEvent, UnreadableHeaders};
use time::OffsetDateTime;

use crate::jsonb;
use crate::rows::{ParkedRow, ResultRow};

/// What there is to know about a message before its body is read.
#[derive(Debug, Clone)]
pub struct Message {
    /// The subject it stands on.
    pub subject: String,
    /// Its message id.
    pub msg_id: Option<String>,
    /// Its header that says what brought it.
    pub via: Option<Via>,
    /// Why its headers cannot be read.
    pub unreadable: Option<UnreadableHeaders>,
    /// Its sequence on the stream.
    pub seq: u64,
    /// The stream's timestamp.
    pub time: OffsetDateTime,
    /// The body.
    pub body: Bytes,
}

impl Message {
    /// One that was delivered.
    pub fn of(event: &StoredEvent) -> Self {
        let (msg_id, via) = id_and_via(event.header_pairs());
        Self {
            subject: event.subject.clone(),
            msg_id,
            via,
            unreadable: event.unreadable,
            seq: event.seq,
            time: event.time,
            body: event.body.clone(),
        }
    }
}

impl From<ReadEvent> for Message {
    fn from(event: ReadEvent) -> Self {
        let (msg_id, via) = id_and_via(event.header_pairs());
        Self {
            subject: event.subject,
            msg_id,
            via,
            unreadable: event.unreadable,
            seq: event.seq,
            time: event.time,
            body: event.body,
        }
    }
}

/// As [`schemas::event::Received`] reads them, and nothing else: to read all of the headers costs as much as to read a short
/// body.
fn id_and_via<'h>(headers: impl Iterator<Item = (&'h str, &'h str)>) -> (Option<String>, Option<Via>) {
    let (mut msg_id, mut via) = (None, None);
    for (name, value) in headers {
        if msg_id.is_none() && name.eq_ignore_ascii_case(header::MSG_ID) {
            msg_id = Some(value.to_owned());
        } else if via.is_none() && name.eq_ignore_ascii_case(header::VIA) {
            via = value.parse().ok();
        }
        if msg_id.is_some() && via.is_some() {
            break;
        }
    }
    (msg_id, via)
}

/// What a message turned out to be.
#[derive(Debug, Clone)]
pub enum Decoded {
    /// A result, for the tables.
    Result(Box<ResultRow>),
    /// A task that has not ended: counted, and done with.
    NonFinal {
        /// Its sequence on the stream.
        seq: u64,
        /// The stream's timestamp, cut to what a column holds.
        time: OffsetDateTime,
    },
    /// Set aside.
    Parked(Box<ParkedRow>),
}

impl Decoded {
    /// The result in it.
    pub fn result(&self) -> Option<&ResultRow> {
        match self {
            Self::Result(row) => Some(row),
            Self::NonFinal { .. } | Self::Parked(_) => None,
        }
    }

    /// What there is to park.
    pub fn parked(&self) -> Option<&ParkedRow> {
        match self {
            Self::Parked(row) => Some(row),
            Self::NonFinal { .. } | Self::Result(_) => None,
        }
    }

    /// Its sequence on the stream.
    pub fn seq(&self) -> u64 {
        match self {
            Self::Result(row) => row.provenance.stream_seq,
            Self::NonFinal { seq, .. } => *seq,
            Self::Parked(row) => row.stream_seq,
        }
    }
}

/// Reads messages of one deployment.
#[derive(Debug, Clone)]
pub struct Decoder {
    /// The subjects of the deployment.
    pub subjects: Subjects,
    /// How a key becomes a job key.
    pub rules: Rules,
}

impl Decoder {
    /// Reads one message. Takes time in proportion to its body, and never fails: what cannot be read is parked.
    pub fn decode(&self, message: Message) -> Decoded {
        let body = message.body.clone();
        let read = delivery::read(&body);
        if let Some(why) = message.unreadable {
            // Its id is unknown then, and so is who put it there.
            let task_id = task_of(&read);
            return park(message, "unreadable_headers", task_id, Some(why.to_string()));
        }
        let Ok(kind) = self.subjects.parse(&message.subject) else {
            let task_id = task_of(&read);
            return park(message, "foreign_subject", task_id, None);
        };
        let id = message.msg_id.as_deref().unwrap_or_default();
        match read {
            Ok(Delivery::Result(result)) => {
                let fact = Fact::of(&result);
                match check_result(kind, id, &fact) {
                    Err(disagreement) if !is_filed_unread(kind, id, &body) => {
                        return park(message, disagreement.as_str(), Some(fact.task_id), None);
                    }
                    Ok(()) | Err(_) => {}
                }
                match message.via {
                    Some(via) => Decoded::Result(Box::new(self.row(&message, via, fact.digest, result))),
                    None => park(message, "unknown_origin", Some(fact.task_id), None),
                }
            }
            Ok(Delivery::NonFinal { .. }) if is_filed_unread(kind, id, &body) => nonfinal(&message),
            other => match (check_other(kind, id, &body, &other), &other) {
                (Ok(()), Ok(_)) => nonfinal(&message),
                (Ok(()), Err(unreadable)) => park(message, unreadable.as_str(), None, None),
                (Err(disagreement), Err(unreadable)) => {
                    park(message, unreadable.as_str(), None, Some(disagreement.to_string()))
                }
                (Err(disagreement), Ok(_)) => {
                    let task_id = task_of(&other);
                    park(message, disagreement.as_str(), task_id, None)
                }
            },
        }
    }

    fn row(&self, message: &Message, via: Via, digest: ResponseDigest, result: TaskResult<'_>) -> ResultRow {
        let received_at = cut_to_microseconds(message.time);
        let (created_at, in_future) = delivery::not_after(result.created_at, received_at);
        let (response, unkept) = match result.response {
            Some(raw) => {
                let (text, problem) = jsonb::screen(raw.get());
                let text = text.map(|text| match text {
                    Cow::Borrowed(text) => message.body.slice_ref(text.as_bytes()),
                    Cow::Owned(text) => Bytes::from(text),
                });
                (text, problem)
            }
            None => (None, None),
        };
        let problems: Vec<Problem> = result.problems.into_iter().chain(in_future).collect();
        ResultRow {
            job_key: job_key(self.rules, result.idempotency_key.as_deref(), &result.task_id).to_owned(),
            task_id: result.task_id,
            idempotency_key: result.idempotency_key,
            rank: TaskRank {
                status: result.status,
                created_at,
                digest,
            },
            response,
            problem: problem_text(&problems, unkept),
            via,
            provenance: Provenance {
                received_at,
                stream_seq: message.seq,
            },
        }
    }
}

/// The task that a body speaks of, when that can be told.
fn task_of(read: &Result<Delivery<'_>, Unreadable>) -> Option<TaskId> {
    match read {
        Ok(Delivery::Result(TaskResult { task_id, .. }) | Delivery::NonFinal { task_id, .. }) => {
            Some(task_id.clone())
        }
        Ok(Delivery::Test) | Err(_) => None,
    }
}

fn nonfinal(message: &Message) -> Decoded {
    Decoded::NonFinal {
        seq: message.seq,
        time: cut_to_microseconds(message.time),
    }
}

fn park(message: Message, reason: &'static str, task_id: Option<TaskId>, detail: Option<String>) -> Decoded {
    Decoded::Parked(Box::new(ParkedRow {
        stream_seq: message.seq,
        subject: message.subject,
        task_id,
        reason,
        detail,
        body: message.body,
        parked_at: cut_to_microseconds(message.time),
    }))
}

fn problem_text(problems: &[Problem], unkept: Option<jsonb::Problem>) -> Option<String> {
    match (problems, unkept) {
        ([], None) => None,
        ([], Some(unkept)) => Some(unkept.to_string()),
        (problems, None) => Some(Problems(problems).to_string()),
        (problems, Some(unkept)) => Some(format!("{}; {unkept}", Problems(problems))),
    }
}
