//! Every SQL statement of the projection.
//!
//! A statement takes a whole batch as arrays, one parameter a column, so the number of parameters does not grow
//! with the batch. The rows of a batch come with each key once and in byte order (see [`crate::rows::Folded`]), and the arrays
//! are read in that order.
//!
//! The conditions of the upserts are the winner rule, see `rule`. [`set`] is for rows that are wrong: a maximum
//! alone never gets smaller.

macro_rules! upsert_answers {
    () => {
        "
insert into answers as a
       (task_id, job_key, idempotency_key, status, created_at, response, response_digest, problem, via, stream_seq, received_at)
select unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::text[]), unnest($5::timestamptz[]),
       unnest($6::jsonb[]), unnest($7::bytea[]), unnest($8::text[]), unnest($9::text[]), unnest($10::bigint[]),
       unnest($11::timestamptz[])
    on conflict (task_id) do update
   set job_key = excluded.job_key, idempotency_key = excluded.idempotency_key, status = excluded.status,
       created_at = excluded.created_at, response = excluded.response, response_digest = excluded.response_digest,
       problem = excluded.problem, via = excluded.via, stream_seq = excluded.stream_seq, received_at = excluded.received_at
 where "
    };
}

macro_rules! upsert_winners {
    () => {
        "
insert into winners as w (job_key, task_id, status, created_at, stream_seq)
select unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::timestamptz[]), unnest($5::bigint[])
    on conflict (job_key) do update
   set task_id = excluded.task_id, status = excluded.status, created_at = excluded.created_at, stream_seq = excluded.stream_seq
 where "
    };
}

macro_rules! upsert_parked {
    () => {
        "
insert into parked as p (stream_created, stream_seq, subject, task_id, reason, detail, body, parked_at)
select $1::timestamptz, n.* from unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::timestamptz[]) n
    on conflict (stream_created, stream_seq) "
    };
}

mod columns;
pub(crate) mod copy;
mod rule;
pub mod set;

use schemas::winner::JobRank;
use time::OffsetDateTime;
use tokio_postgres::types::FromSqlOwned;
use tokio_postgres::{Client, Row};

use crate::rows::{Folded, ParkedRow, ResultRow};
use columns::{AnswerColumns, ParkedColumns, WinnerColumns};
pub(crate) use columns::{Jsonb, Parameter, WinnerRow, sequence, without_nul};
use database::DatabaseError;
pub(crate) use rule::{answer_is_greater, winner_is_greater, winners_first};

/// An event replaces the row of its task when it is greater.
const ANSWERS: &str = concat!(upsert_answers!(), answer_is_greater!("excluded", "a"));

/// An event makes its task the winner of its job when it stands higher than the event that did so before.
const WINNERS: &str = concat!(upsert_winners!(), winner_is_greater!("excluded", "w"));

/// One event is parked once, however often it is delivered.
const PARKED: &str = concat!(upsert_parked!(), "do nothing returning stream_seq");

/// A plan for the values of one batch would be no better, and is made from a copy of all of them.
const PLAN: &str = "set local plan_cache_mode = force_generic_plan";

/// How many rows a batch changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changed {
    /// Rows of `answers` inserted or replaced.
    pub answers: u64,
    /// Rows of `winners` inserted or replaced.
    pub winners: u64,
    /// Sequences of the messages that were not parked before.
    pub parked: Vec<u64>,
}

/// Brings a batch into the tables, inside a transaction of the caller's.
///
/// # Errors
/// The first statement that failed.
pub async fn apply(
    client: &Client,
    stream_created: OffsetDateTime,
    batch: &Folded<'_>,
) -> Result<Changed, DatabaseError> {
    // Sent one behind the other, without waiting in between.
    let (planned, answers) = tokio::join!(
        biased;
        client.batch_execute(PLAN),
        answers(client, &batch.answers),
    );
    planned.map_err(DatabaseError::of("beginning a batch"))?;
    Ok(Changed {
        answers: answers?,
        winners: winners(client, &batch.winners).await?,
        parked: parked(client, stream_created, &batch.parked).await?,
    })
}

async fn answers(client: &Client, rows: &[&ResultRow]) -> Result<u64, DatabaseError> {
    if rows.is_empty() {
        return Ok(0);
    }
    let columns = AnswerColumns::of(rows);
    execute(client, "writing answers", ANSWERS, &columns.parameters()).await
}

async fn winners(client: &Client, rows: &[&ResultRow]) -> Result<u64, DatabaseError> {
    if rows.is_empty() {
        return Ok(0);
    }
    let columns = WinnerColumns::of(rows.iter().map(|row| WinnerRow::of(row)));
    execute(client, "writing winners", WINNERS, &columns.parameters()).await
}

/// A task that becomes the winner of a job.
#[derive(Debug)]
pub struct Crowned<'c> {
    /// The job.
    pub job: &'c str,
    /// The task, and where it stands.
    pub rank: &'c JobRank,
    /// The event that says so.
    pub stream_seq: u64,
}

/// Makes these tasks the winners of their jobs, where they stand higher than the winners that are there. Jobs come once each.
///
/// # Errors
/// When the database fails.
pub async fn crown(client: &Client, crowned: &[Crowned<'_>]) -> Result<u64, DatabaseError> {
    let mut rows: Vec<&Crowned<'_>> = crowned.iter().collect();
    rows.sort_by_key(|row| row.job);
    let columns = WinnerColumns::of(rows.iter().map(|row| WinnerRow {
        job_key: row.job,
        task_id: row.rank.task_id.as_str(),
        status: row.rank.status.as_str(),
        created_at: row.rank.created_at,
        stream_seq: row.stream_seq,
    }));
    execute(client, "writing winners", WINNERS, &columns.parameters()).await
}

async fn parked(
    client: &Client,
    stream_created: OffsetDateTime,
    rows: &[&ParkedRow],
) -> Result<Vec<u64>, DatabaseError> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let columns = ParkedColumns::of(stream_created, rows);
    let attempt = "parking messages";
    let new = query(client, attempt, PARKED, &columns.parameters()).await?;
    new.iter()
        .map(|row| row.try_get::<_, i64>(0).map(i64::unsigned_abs))
        .collect::<Result<_, _>>()
        .map_err(DatabaseError::of(attempt))
}

/// Runs a statement without a name, so that nothing of it stays on the session; gives its rows.
pub(crate) async fn query(
    client: &Client,
    attempt: &'static str,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>, DatabaseError> {
    let rows = client.query_typed(statement, parameters).await;
    rows.map_err(DatabaseError::of(attempt))
}

/// The same of a statement that gives one row of one column; gives that.
pub(crate) async fn query_one<T: FromSqlOwned>(
    client: &Client,
    attempt: &'static str,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> Result<T, DatabaseError> {
    let row = client
        .query_typed_one(statement, parameters)
        .await
        .map_err(DatabaseError::of(attempt))?;
    row.try_get(0).map_err(DatabaseError::of(attempt))
}

/// The same of a statement that gives no rows; gives how many it changed.
pub(crate) async fn execute(
    client: &Client,
    attempt: &'static str,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> Result<u64, DatabaseError> {
    let executed = client.execute_typed(statement, parameters).await;
    executed.map_err(DatabaseError::of(attempt))
}
