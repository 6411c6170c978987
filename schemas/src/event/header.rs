//! Names of the headers of an event. NATS compares them byte for byte: they are written exactly so.

/// The message id, by which the broker tells duplicates.
pub const MSG_ID: &str = "Nats-Msg-Id";
/// `webhook` or `reconciler`.
pub const VIA: &str = "Answers-Via";
/// Why a body was quarantined.
pub const REASON: &str = "Answers-Reason";
/// The delivery's id from its unsigned header: for tracing only.
pub const WEBHOOK_ID: &str = "Answers-Webhook-Id";
/// W3C trace context from the unsigned request headers.
pub const TRACEPARENT: &str = "traceparent";
/// CloudEvents: `1.0`.
pub const CE_SPECVERSION: &str = "ce-specversion";
/// CloudEvents: the message id.
pub const CE_ID: &str = "ce-id";
/// CloudEvents: a setting.
pub const CE_SOURCE: &str = "ce-source";
/// CloudEvents: `dev.answerline.task.completed`, `….failed`, ….
pub const CE_TYPE: &str = "ce-type";
/// CloudEvents: `task.createdAt`, when it is a timestamp.
pub const CE_TIME: &str = "ce-time";
/// CloudEvents: the idempotency key as sent.
pub const CE_SUBJECT: &str = "ce-subject";
/// CloudEvents: the media type of the body.
pub const CE_DATACONTENTTYPE: &str = "ce-datacontenttype";
/// CloudEvents extension: the task id.
pub const CE_TASKID: &str = "ce-taskid";
