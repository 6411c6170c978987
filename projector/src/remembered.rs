//! The row of `projection`: what the database knows of its stream. The one place that reads and writes it.

use schemas::job_key::Rules;
use serde_json::Value;
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

const OTHERS: &str = "select stream from projection where stream <> $1 order by stream limit 1";

const RECALL: &str = "
select stream_created, floor_seq, floor_msg_id, rules from projection where stream = $1 for update";

const RAISE: &str = "
update projection set floor_seq = $2, floor_msg_id = $3 where stream = $1 and floor_seq < $2";

const CHANGE_RULES: &str = "update projection set rules = $2 where stream = $1";

const SETTLE: &str = "
insert into projection as p (stream, stream_created, floor_seq, floor_msg_id, rules) values ($1, $2, $3, $4, $5)
    on conflict (stream) do update
   set stream_created = excluded.stream_created,
       floor_seq = case when $6 and p.floor_seq > excluded.floor_seq then p.floor_seq else excluded.floor_seq end,
       floor_msg_id = case when $6 and p.floor_seq > excluded.floor_seq then p.floor_msg_id else excluded.floor_msg_id end,
       rules = excluded.rules";

/// In `projection.rules`, beside the rules.
const CHANGING: &str = "changing";

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
    /// Whether a rebuild is making the rows anew under these rules. Some may still be those of others.
    pub changing: bool,
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
    let rules_json = write_rules(rules, false);
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
    row.check_rules(rules)?;
    if row.changing {
        return Err(DatabaseError::Unexpected(
            "its rows are being made anew under other rules: that takes `projector rebuild` to its end",
        )
        .into());
    }
    Ok(row)
}

/// Another stream that rows came from.
///
/// # Errors
/// When the database fails.
pub async fn other_stream(client: &Client, stream: &str) -> Result<Option<String>, DatabaseError> {
    let attempt = "looking for another stream in `projection`";
    let rows = client.query_typed(OTHERS, &[(&stream, Type::TEXT)]).await;
    let rows = rows.map_err(DatabaseError::of(attempt))?;
    let name = rows.first().map(|row| row.try_get(0)).transpose();
    name.map_err(DatabaseError::of(attempt))
}

impl Remembered {
    /// Whether the rows were made under these rules.
    ///
    /// # Errors
    /// When they were not.
    pub fn check_rules(&self, rules: Rules) -> Result<(), Unfit> {
        let text = |rules: Rules| format!("rerun_suffix = {}", rules.rerun_suffix);
        if self.rules == rules {
            return Ok(());
        }
        Err(Unfit::Rules {
            found: text(self.rules),
            wanted: text(rules),
        })
    }
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
    let (rules, changing) = read_rules(rules).ok_or(DatabaseError::Unexpected(
        "`projection.rules` holds no rules that this build knows",
    ))?;
    Ok(Some(Remembered {
        stream_created,
        floor: u64::try_from(floor).unwrap_or_default(),
        floor_msg_id,
        rules,
        changing,
        new: false,
    }))
}

/// Beside the rules, whether a rebuild changes to them: a build that does not know that word does not know these rules either,
/// and keeps off.
fn read_rules(mut json: Value) -> Option<(Rules, bool)> {
    let changing = match json.as_object_mut()?.remove(CHANGING) {
        None => false,
        Some(Value::Bool(changing)) => changing,
        Some(_) => return None,
    };
    Some((serde_json::from_value(json).ok()?, changing))
}

fn write_rules(rules: Rules, changing: bool) -> Value {
    let mut json = serde_json::to_value(rules).expect("rules are plain data");
    if changing {
        json[CHANGING] = Value::Bool(true);
    }
    json
}

/// Whether the rows may be written to under these rules now: not when there are others, and not when a rebuild is about to
/// put others in force. Asked behind the writing, in its transaction, so that a rebuild can wait for those that were not
/// told.
///
/// # Errors
/// When the database fails.
pub async fn rules_stand(client: &Client, stream: &str, rules: Rules) -> Result<bool, DatabaseError> {
    let row = look(client, stream).await?;
    Ok(row.is_none_or(|row| row.rules == rules && !row.changing))
}

/// Says that the rows are being made anew under `rules`.
///
/// # Errors
/// When the database fails.
pub async fn change_rules(client: &Client, stream: &str, rules: Rules) -> Result<(), DatabaseError> {
    let rules = write_rules(rules, true);
    let changed = client
        .execute_typed(CHANGE_RULES, &[(&stream, Type::TEXT), (&rules, Type::JSONB)])
        .await;
    changed
        .map(drop)
        .map_err(DatabaseError::of("changing the rules in `projection`"))
}

/// What a rebuild has made true of a stream.
#[derive(Debug, Clone)]
pub struct Settled<'s> {
    /// The stream's name.
    pub stream: &'s str,
    /// When it was created.
    pub stream_created: OffsetDateTime,
    /// Every event up to this sequence is in the tables.
    pub floor: u64,
    /// Message id of the event there.
    pub floor_msg_id: Option<String>,
    /// The rules that the rows were made under.
    pub rules: Rules,
    /// Whether what was remembered before was of this very stream: a higher floor then stays.
    pub same_stream: bool,
}

/// Notes what the rows were made from, whatever was noted before.
///
/// # Errors
/// When the database fails.
pub async fn settle(client: &Client, settled: &Settled<'_>) -> Result<(), DatabaseError> {
    let floor = i64::try_from(settled.floor).unwrap_or(i64::MAX);
    let rules = write_rules(settled.rules, false);
    let values: [(&(dyn ToSql + Sync), Type); 6] = [
        (&settled.stream, Type::TEXT),
        (&settled.stream_created, Type::TIMESTAMPTZ),
        (&floor, Type::INT8),
        (&settled.floor_msg_id, Type::TEXT),
        (&rules, Type::JSONB),
        (&settled.same_stream, Type::BOOL),
    ];
    let settled = client.execute_typed(SETTLE, &values).await;
    settled.map(drop).map_err(DatabaseError::of(
        "noting in `projection` what the rows were made from",
    ))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_read_as_they_were_written_and_unknown_ones_are_not() {
        for rerun_suffix in [true, false] {
            let rules = Rules { rerun_suffix };
            for changing in [true, false] {
                assert_eq!(read_rules(write_rules(rules, changing)), Some((rules, changing)));
            }
            assert_eq!(write_rules(rules, false), json!({"rerun_suffix": rerun_suffix}));
        }
        for unknown in [
            json!({"rerun_suffix": true, "fold_case": true}),
            json!({"rerun_suffix": true, "changing": "now"}),
            json!(7),
        ] {
            assert_eq!(read_rules(unknown), None);
        }
    }
}
