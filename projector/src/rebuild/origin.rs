//! Whether the stream at hand is the one that the rows came from. On another one every row would look wrong, and putting
//! that right would take rows away for good.

use database::DatabaseError;
use schemas::timestamp::cut_to_microseconds;
use stream::Reader;
use stream::consume::{ApiError, StreamState};
use thiserror::Error;
use time::OffsetDateTime;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::{RebuildError, sql};
use crate::mismatch::Mismatch;
use crate::remembered::{Remembered, other_stream};
use crate::statements::{Parameter, query_one, sequence};

const OLDEST: &str = "select min(received_at) from answers";

const ANY: &str = "
select exists (select from answers) or exists (select from winners) or exists (select from parked)";

const SOME: &str = "select count(*) from (select from answers limit $1) a";

/// Why the stream is not taken for the one that the rows came from.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Stranger {
    /// It holds nothing, and there are rows.
    #[error("the stream is empty, and there are rows")]
    Empty,
    /// The database remembers one of another name, perhaps beside this one.
    #[error(
        "there are rows that came from the stream {remembered}, which has a row in `projection`; deleting that gives them up"
    )]
    OtherName {
        /// The one that it remembers.
        remembered: String,
    },
    /// It is not the one that the database remembers.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// It began after some of the rows were received.
    #[error("there is a row of {oldest}, and the stream is younger: it begins at {begin}")]
    Younger {
        /// The oldest row.
        oldest: OffsetDateTime,
        /// The beginning of the stream.
        begin: OffsetDateTime,
    },
}

/// What can be told about it before anything is replayed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beginning {
    /// The time of the first message, or of the stream's creation when that is earlier. A mirror is younger than what it
    /// holds.
    pub(super) at: OffsetDateTime,
}

impl Beginning {
    /// Reads the first message.
    pub(super) async fn of(reader: &Reader, state: &StreamState) -> Result<Self, ApiError> {
        let first = match state.events {
            0 => None,
            _ => reader.event(state.first_seq).await?,
        };
        let created = cut_to_microseconds(state.created);
        Ok(Self {
            at: first.map_or(created, |event| cut_to_microseconds(event.time).min(created)),
        })
    }
}

/// What is wrong with the stream, when something is. `row` is what the database remembers of the stream of this name.
pub(super) async fn stranger(
    client: &Client,
    reader: &Reader,
    state: &StreamState,
    row: Option<&Remembered>,
    beginning: Beginning,
) -> Result<Option<Stranger>, RebuildError> {
    if state.events == 0 {
        return Ok(has_rows(client).await?.then_some(Stranger::Empty));
    }
    // Nothing tells which rows came from which of two streams.
    if let Some(remembered) = other_stream(client, reader.stream()).await?
        && has_rows(client).await?
    {
        return Ok(Some(Stranger::OtherName { remembered }));
    }
    let Some(row) = row else {
        // Nobody has accepted a stream for these rows.
        let oldest = oldest(client).await?;
        return Ok(oldest
            .filter(|oldest| *oldest < beginning.at)
            .map(|oldest| Stranger::Younger {
                oldest,
                begin: beginning.at,
            }));
    };
    let at_floor = async |seq| {
        let event = reader.event(seq).await?;
        Ok::<_, ApiError>(event.and_then(|event| event.msg_id().map(ToOwned::to_owned)))
    };
    let mismatch = Mismatch::of(state, row, at_floor).await?;
    Ok(mismatch.map(Stranger::Mismatch))
}

/// Whether there is any row of the projection.
pub(super) async fn has_rows(client: &Client) -> Result<bool, DatabaseError> {
    query_one(client, "looking for rows", ANY, &[]).await
}

/// How many rows a table has.
pub(super) async fn rows(client: &Client, table: &str) -> Result<u64, DatabaseError> {
    count(client, &sql::count(table), &[]).await
}

/// How many rows `answers` has; `most` when there are more.
pub(super) async fn rows_up_to(client: &Client, most: u64) -> Result<u64, DatabaseError> {
    count(client, SOME, &[(&sequence(most), Type::INT8)]).await
}

async fn count(client: &Client, statement: &str, values: &[Parameter<'_>]) -> Result<u64, DatabaseError> {
    let count: i64 = query_one(client, "counting rows", statement, values).await?;
    Ok(count.unsigned_abs())
}

async fn oldest(client: &Client) -> Result<Option<OffsetDateTime>, DatabaseError> {
    query_one(client, "looking for the oldest row", OLDEST, &[]).await
}
