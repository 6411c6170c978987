//! From a body to its event.

use bytes::Bytes;
use time::format_description::well_known::Rfc3339;

use super::percent::{encode_attribute, encode_id};
use super::{Event, Headers, Kind, MsgId, Source, Trace, Via, header};
use crate::delivery::{self, Delivery, OpenStatus, Problem, TaskId, TaskResult, Unreadable};

/// What a body turned out to be, with the event to append.
#[derive(Debug, Clone)]
pub enum Classified {
    /// A sample from the dashboard: acknowledge, append nothing.
    Test,
    /// A task that has ended.
    Result {
        /// What to append.
        event: Event,
        /// What could not be taken as sent; the event is stored all the same.
        problems: Vec<Problem>,
    },
    /// A task that has not ended, or whose status is unknown.
    NonFinal {
        /// What to append.
        event: Event,
        /// Which task.
        task_id: TaskId,
        /// How it stands.
        status: OpenStatus,
    },
    /// No task can be read from it.
    Quarantine {
        /// What to append.
        event: Event,
        /// Why.
        reason: Unreadable,
    },
}

impl Classified {
    /// What to append; None for a test.
    pub fn into_event(self) -> Option<Event> {
        match self {
            Self::Test => None,
            Self::Result { event, .. } | Self::NonFinal { event, .. } | Self::Quarantine { event, .. } => {
                Some(event)
            }
        }
    }
}

/// Reads a verified body and builds its event. The body is shared, not copied.
pub fn classify(body: Bytes, via: Via, source: &Source, trace: Trace) -> Classified {
    let envelope = Envelope { via, source, trace };
    match delivery::read(&body) {
        Ok(Delivery::Test) => Classified::Test,
        Ok(Delivery::Result(result)) => {
            let headers = result_headers(&result);
            let (kind, msg_id) = (result.status.into(), MsgId::of_task(&result.task_id));
            let problems = result.problems;
            let event = envelope.event(kind, msg_id, headers, body);
            Classified::Result { event, problems }
        }
        Ok(Delivery::NonFinal { task_id, status }) => {
            let headers = vec![(header::CE_TASKID, encode_id(task_id.as_str()).into_owned().into())];
            let msg_id = MsgId::of_nonfinal(&body);
            let event = envelope.event(Kind::NonFinal, msg_id, headers, body);
            Classified::NonFinal {
                event,
                task_id,
                status,
            }
        }
        Err(reason) => {
            let headers = vec![(header::REASON, reason.as_str().into())];
            let msg_id = MsgId::of_quarantine(&body);
            let event = envelope.event(Kind::Quarantine, msg_id, headers, body);
            Classified::Quarantine { event, reason }
        }
    }
}

fn result_headers(result: &TaskResult<'_>) -> Headers {
    let mut headers = Vec::with_capacity(12);
    headers.push((
        header::CE_TASKID,
        encode_id(result.task_id.as_str()).into_owned().into(),
    ));
    if let Some(key) = &result.idempotency_key {
        headers.push((header::CE_SUBJECT, encode_attribute(key).into_owned().into()));
    }
    if let Some(time) = result.created_at.and_then(|at| at.format(&Rfc3339).ok()) {
        headers.push((header::CE_TIME, time.into()));
    }
    headers
}

/// What every event of a request has in common.
struct Envelope<'s> {
    via: Via,
    source: &'s Source,
    trace: Trace,
}

impl Envelope<'_> {
    fn event(self, kind: Kind, msg_id: MsgId, mut headers: Headers, body: Bytes) -> Event {
        let media_type = match kind {
            Kind::Quarantine => "application/octet-stream",
            Kind::Completed | Kind::Failed | Kind::NonFinal => "application/json",
        };
        headers.extend([
            (header::CE_SPECVERSION, "1.0".into()),
            (header::CE_ID, msg_id.as_str().to_owned().into()),
            (header::CE_SOURCE, self.source.header().to_owned().into()),
            (header::CE_TYPE, kind.ce_type().into()),
            (header::CE_DATACONTENTTYPE, media_type.into()),
            (header::VIA, self.via.as_str().into()),
        ]);
        let Trace {
            webhook_id,
            traceparent,
        } = self.trace;
        headers.extend(webhook_id.map(|id| (header::WEBHOOK_ID, id.into())));
        headers.extend(traceparent.map(|context| (header::TRACEPARENT, context.into())));
        Event {
            kind,
            msg_id,
            headers,
            body,
        }
    }
}
