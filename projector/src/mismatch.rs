//! Whether a stream is another than the one that the rows came from.

use schemas::timestamp::cut_to_microseconds;
use stream::consume::StreamState;
use thiserror::Error;
use time::OffsetDateTime;

use crate::remembered::Remembered;

/// How the stream differs from the one that the database remembers.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Mismatch {
    /// It was created at another time.
    #[error("the rows came from a stream created at {expected}, and this one was created at {found}")]
    Created {
        /// That of the rows.
        expected: OffsetDateTime,
        /// That of this stream.
        found: OffsetDateTime,
    },
    /// It ends before the rows do.
    #[error("the rows reach to sequence {floor}, and the stream ends at {last}: it has lost its end")]
    Short {
        /// How far the rows reach.
        floor: u64,
        /// How far the stream does.
        last: u64,
    },
    /// It holds another message where the rows reach to.
    #[error(
        "at sequence {floor} the stream holds another message than the rows came from: it has lost its end and grown a new one"
    )]
    OtherMessage {
        /// Where.
        floor: u64,
    },
}

impl Mismatch {
    /// Compares; `msg_id_at` gives the message id under a sequence. None when the stream is the same as far as can be told.
    ///
    /// # Errors
    /// Those of `msg_id_at`.
    pub async fn of<E>(
        stream: &StreamState,
        row: &Remembered,
        msg_id_at: impl AsyncFnOnce(u64) -> Result<Option<String>, E>,
    ) -> Result<Option<Self>, E> {
        if row.stream_created != cut_to_microseconds(stream.created) {
            return Ok(Some(Self::Created {
                expected: row.stream_created,
                found: stream.created,
            }));
        }
        if stream.last_seq < row.floor {
            return Ok(Some(Self::Short {
                floor: row.floor,
                last: stream.last_seq,
            }));
        }
        if row.floor > 0
            && let Some(expected) = &row.floor_msg_id
            && let Some(found) = msg_id_at(row.floor).await?
            && found != *expected
        {
            return Ok(Some(Self::OtherMessage { floor: row.floor }));
        }
        Ok(None)
    }
}
