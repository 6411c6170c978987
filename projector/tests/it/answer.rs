//! Bodies as the provider sends them, with the fields that a test is about.

use bytes::Bytes;

/// A body. Fields hold JSON text.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) task: String,
    pub(crate) status: &'static str,
    pub(crate) key: String,
    pub(crate) created: String,
    pub(crate) response: String,
    pub(crate) envelope: String,
}

impl Answer {
    /// A COMPLETED answer of noon, without a key.
    pub(crate) fn of(task: &str) -> Self {
        Self {
            task: serde_json::to_string(task).unwrap(),
            status: "COMPLETED",
            key: "null".to_owned(),
            created: "\"2026-11-30T12:00:00.000Z\"".to_owned(),
            response: r#"{"result":{"text":"Three makers come up most often."}}"#.to_owned(),
            envelope: String::new(),
        }
    }

    pub(crate) fn failed(mut self) -> Self {
        self.status = "FAILED";
        self.response = r#"{"error":{"code":"QUEUE_WAIT_EXCEEDED","message":"waited"}}"#.to_owned();
        self
    }

    pub(crate) fn status(mut self, status: &'static str) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn key(mut self, key: &str) -> Self {
        self.key = serde_json::to_string(key).unwrap();
        self
    }

    /// `createdAt`, as JSON text.
    pub(crate) fn created(mut self, json: &str) -> Self {
        json.clone_into(&mut self.created);
        self
    }

    /// `response`, as JSON text.
    pub(crate) fn response(mut self, json: impl Into<String>) -> Self {
        self.response = json.into();
        self
    }

    /// More members of the envelope, as JSON text that ends with a comma.
    pub(crate) fn envelope(mut self, json: &str) -> Self {
        json.clone_into(&mut self.envelope);
        self
    }

    pub(crate) fn body(&self) -> Bytes {
        let Self {
            task,
            status,
            key,
            created,
            response,
            envelope,
        } = self;
        Bytes::from(format!(
            r#"{{{envelope}"task":{{"id":{task},"status":"{status}","createdAt":{created},"idempotencyKey":{key}}},"response":{response}}}"#
        ))
    }
}
