//! Setting messages aside: what an operator is told, and the row for a message that only the database could refuse.

use schemas::delivery::TaskId;
use schemas::timestamp::cut_to_microseconds;
use tracing::info;

use crate::batch::Item;
use crate::decode::Message;
use crate::rows::ParkedRow;
use database::DatabaseError;

/// The reason of a message whose data the database refuses.
pub const DATABASE_REFUSES: &str = "database_refuses";

/// What the database says about it.
pub fn detail_of(error: &DatabaseError) -> String {
    let code = error.code().map_or("unknown", |code| code.code());
    let message = error.server_message().unwrap_or_default();
    format!("{code}: {message}")
}

/// Says once that a message was parked.
pub fn log_parked(row: &ParkedRow) {
    let task = row.task_id.as_ref().map(|id| id.as_str());
    info!(
        stream.seq = row.stream_seq,
        task.id = task,
        reason = row.reason,
        detail = row.detail,
        "parked a message"
    );
}

/// The row for a message whose data the database refuses.
pub fn poison(item: &Item, error: &DatabaseError) -> ParkedRow {
    let task_id = item.result().map(|row| &row.task_id);
    refused(&Message::of(&item.event), task_id, error)
}

/// The row for a result whose data the database refuses.
pub fn refused(message: &Message, task_id: Option<&TaskId>, error: &DatabaseError) -> ParkedRow {
    ParkedRow {
        stream_seq: message.seq,
        subject: message.subject.clone(),
        task_id: task_id.cloned(),
        reason: DATABASE_REFUSES,
        detail: Some(detail_of(error)),
        body: message.body.clone(),
        parked_at: cut_to_microseconds(message.time),
    }
}
