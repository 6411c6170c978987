//! The row of `projection`: what the database knows of its stream. The one place that reads and writes it.

use schemas::job_key::Rules;
use time::OffsetDateTime;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use crate::fit::{FitError, Unfit};
use database::DatabaseError;

const REMEMBER: &str = "
insert into projection (stream, stream_created, floor_seq, floor_msg_id, rules) values ($1, $2, 0, null, $3)
    on conflict (stream) do nothing";

const LOOK: &str = "
select stream_created, floor_seq, floor_msg_id, rules from projection where stream = $1";

const RECALL: &str = "
select stream_created, floor_seq, floor_msg_id, rules from projection where stream = $1 for update";

const RAISE: &str = "
update projection set floor_seq = $2, floor_msg_id = $3 where stream = $1 and floor_seq < $2";

/// What the database knows of one stream: a row of `projection`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// When the stream was created that the rows came from.
    pub stream_created: OffsetDateTime,
    /// Every event up to this sequence is in the tables.
    pub floor: u64,
    /// Message id of the event there.
    pub floor_msg_id: Option<String>,
    /// The rules that the rows were made under.
    pub rules: Rules,
    /// It was not there before.
    pub new: bool,
}

/// The row of a stream, locked until the end of the caller's transaction; added when there is none.
///
/// # Errors
/// When the row was made under other rules, or the database fails.
pub async fn remember(
    client: &Client,
    stream: &str,
    stream_created: OffsetDateTime,
    rules: Rules,
) -> Result<Remembered, FitError> {
    let rules_json = serde_json::to_value(rules).expect("rules are plain data");
    let added = client
        .execute_typed(
            REMEMBER,
            &[
                (&stream, Type::TEXT),
                (&stream_created, Type::TIMESTAMPTZ),
                (&rules_json, Type::JSONB),
            ],
        )
        .await
        .map_err(DatabaseError::of("adding the row of this stream to `projection`"))?;
    let mut row = recall(client, stream).await?.ok_or(DatabaseError::Unexpected(
        "the row of this stream in `projection` is gone",
    ))?;
    row.new = added == 1;
    if row.rules != rules {
        let text = |rules: Rules| format!("rerun_suffix = {}", rules.rerun_suffix);
        return Err(Unfit::Rules {
            found: text(row.rules),
            wanted: text(rules),
        }
        .into());
    }
    Ok(row)
}

/// Reads the row and locks it; `None` when there is none.
///
/// # Errors
/// When the database fails.
pub async fn recall(client: &Client, stream: &str) -> Result<Option<Remembered>, DatabaseError> {
    read(client, RECALL, stream).await
}

/// Reads the row and leaves it to others; `None` when there is none.
///
/// # Errors
/// When the database fails.
pub async fn look(client: &Client, stream: &str) -> Result<Option<Remembered>, DatabaseError> {
    read(client, LOOK, stream).await
}

async fn read(client: &Client, statement: &str, stream: &str) -> Result<Option<Remembered>, DatabaseError> {
    let attempt = "reading `projection`";
    let rows = client
        .query_typed(statement, &[(&stream, Type::TEXT)])
        .await
        .map_err(DatabaseError::of(attempt))?;
    let Some(row) = rows.first() else { return Ok(None) };
    let columns = || -> Result<_, tokio_postgres::Error> {
        Ok((
            row.try_get(0)?,
            row.try_get::<_, i64>(1)?,
            row.try_get(2)?,
            row.try_get(3)?,
        ))
    };
    let (stream_created, floor, floor_msg_id, rules) = columns().map_err(DatabaseError::of(attempt))?;
    Ok(Some(Remembered {
        stream_created,
        floor: u64::try_from(floor).unwrap_or_default(),
        floor_msg_id,
        rules: serde_json::from_value(rules).map_err(|_| {
            DatabaseError::Unexpected("`projection.rules` holds no rules that this build knows")
        })?,
        new: false,
    }))
}

/// Raises the floor in the row, which must be locked.
///
/// # Errors
/// When the database fails.
pub async fn raise(
    client: &Client,
    stream: &str,
    floor: u64,
    msg_id: Option<&str>,
) -> Result<(), DatabaseError> {
    let floor = i64::try_from(floor).unwrap_or(i64::MAX);
    let values: [(&(dyn ToSql + Sync), Type); 3] =
        [(&stream, Type::TEXT), (&floor, Type::INT8), (&msg_id, Type::TEXT)];
    let raised = client.execute_typed(RAISE, &values).await;
    raised
        .map(drop)
        .map_err(DatabaseError::of("raising the floor in `projection`"))
}
