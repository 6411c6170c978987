//! What a body says about the task that was asked for.

use bytes::Bytes;
use schemas::delivery::{OpenStatus, TaskId, Unreadable};
use schemas::event::{Classified, Event, MsgId, Source, Trace, Via, classify};
use thiserror::Error;

/// What a body turned out to be.
#[derive(Debug)]
pub enum Judged {
    /// The task's result: the same event that a delivery of it would have become.
    Result(Box<Event>),
    /// The task has not ended.
    Open(OpenStatus),
    /// Nothing that could be used: it carries no signature, so it is not stored under any name.
    Unusable(Unusable),
}

/// Why an answer cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unusable {
    /// It is about another task, or says not about which.
    #[error("the answer is about another task than the one asked for")]
    OtherTask,
    /// It is a sample.
    #[error("the answer says that it is a test")]
    Test,
    /// It is none.
    #[error("the answer cannot be read: {0}")]
    Malformed(Unreadable),
}

impl Unusable {
    /// The stable name, for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OtherTask => "other_task",
            Self::Test => "test",
            Self::Malformed(_) => "malformed",
        }
    }
}

/// Reads the answer to a question about `asked`.
pub fn judge(asked: &TaskId, body: Bytes, source: &Source) -> Judged {
    match classify(body, Via::Reconciler, source, Trace::default()) {
        Classified::Test => Judged::Unusable(Unusable::Test),
        Classified::Result { event, .. } if event.msg_id == MsgId::of_task(asked) => {
            Judged::Result(Box::new(event))
        }
        Classified::NonFinal { task_id, status, .. } if task_id == *asked => Judged::Open(status),
        Classified::Result { .. } | Classified::NonFinal { .. } => Judged::Unusable(Unusable::OtherTask),
        Classified::Quarantine {
            reason: Unreadable::MissingTaskId,
            ..
        } => Judged::Unusable(Unusable::OtherTask),
        Classified::Quarantine { reason, .. } => Judged::Unusable(Unusable::Malformed(reason)),
    }
}

#[cfg(test)]
mod tests {
    use schemas::event::Kind;

    use super::*;

    fn of(body: &'static str) -> Judged {
        judge(
            &"t/1".parse().unwrap(),
            Bytes::from_static(body.as_bytes()),
            &Source::default(),
        )
    }

    fn unusable(body: &'static str) -> Unusable {
        match of(body) {
            Judged::Unusable(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_result_becomes_the_event_that_a_delivery_becomes() {
        let body = r#"{"task":{"id":"t/1","status":"FAILED"},"response":{"error":{}},"webhook":{"delivered":false}}"#;
        let Judged::Result(event) = of(body) else {
            panic!("no result")
        };
        let delivered = classify(
            Bytes::from_static(body.as_bytes()),
            Via::Webhook,
            &Source::default(),
            Trace::default(),
        );
        let delivered = delivered.into_event().unwrap();
        assert_eq!((event.kind, &event.msg_id), (Kind::Failed, &delivered.msg_id));
        assert_eq!(event.body, delivered.body);
        assert!(event.headers.contains(&("Answers-Via", "reconciler".into())));
    }

    #[test]
    fn a_task_that_has_not_ended_is_told_apart() {
        for (body, status) in [
            (r#"{"task":{"id":"t/1","status":"QUEUED"}}"#, "QUEUED"),
            (r#"{"task":{"id":"t/1","status":"CANCELLED"}}"#, "CANCELLED"),
        ] {
            assert!(
                matches!(of(body), Judged::Open(found) if found.as_str() == status),
                "{body}"
            );
        }
    }

    #[test]
    fn what_is_not_about_the_task_is_never_used() {
        for body in [
            r#"{"task":{"id":"t/2","status":"COMPLETED"},"response":{}}"#,
            r#"{"task":{"id":"t/2","status":"QUEUED"}}"#,
            r#"{"task":{"status":"COMPLETED"},"response":{}}"#,
            r#"{"success":false,"error":{"code":"X"}}"#,
        ] {
            assert_eq!(unusable(body), Unusable::OtherTask, "{body}");
        }
        assert_eq!(
            unusable(r#"{"test":true,"task":{"id":"t/1","status":"COMPLETED"}}"#),
            Unusable::Test
        );
        for body in [
            "",
            "<html>",
            r#"{"task":{"id":"t/1","status":"COMPL"#,
            "[]",
            r#"{"task":{"id":"t/1"}}"#,
        ] {
            assert!(matches!(unusable(body), Unusable::Malformed(_)), "{body}");
        }
    }
}
