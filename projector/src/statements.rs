//! Every SQL statement of the projection.
//!
//! A statement takes a whole batch as arrays, one parameter a column, so the number of parameters does not grow
//! with the batch. The rows of a batch come with each key once and in byte order (see [`crate::rows::Folded`]), and the arrays
//! are read in that order.
//!
//! The conditions of the upserts are the winner rule of `schemas::winner` again; a property test holds the two equal.

use bytes::{BufMut, Bytes, BytesMut};
use schemas::winner::JobRank;
use time::OffsetDateTime;
use tokio_postgres::Client;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::rows::{Folded, ParkedRow, ResultRow};
use database::DatabaseError;

/// An event replaces the row of its task when its rank is greater. Of copies, which have equal rank, the one with the
/// earlier stream timestamp gives the row, then the one with the lower sequence: on a live stream the copy that comes later never
/// is, so it rewrites nothing.
const ANSWERS: &str = "
insert into answers as a
       (task_id, job_key, idempotency_key, status, created_at, response, response_digest, problem, via, stream_seq, received_at)
select unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::text[]), unnest($5::timestamptz[]),
       unnest($6::jsonb[]), unnest($7::bytea[]), unnest($8::text[]), unnest($9::text[]), unnest($10::bigint[]),
       unnest($11::timestamptz[])
    on conflict (task_id) do update
   set job_key = excluded.job_key, idempotency_key = excluded.idempotency_key, status = excluded.status,
       created_at = excluded.created_at, response = excluded.response, response_digest = excluded.response_digest,
       problem = excluded.problem, via = excluded.via, stream_seq = excluded.stream_seq, received_at = excluded.received_at
 where (excluded.status = 'COMPLETED', coalesce(excluded.created_at, '-infinity'), excluded.response_digest)
     > (a.status = 'COMPLETED', coalesce(a.created_at, '-infinity'), a.response_digest)
    or ((excluded.status, coalesce(excluded.created_at, '-infinity'), excluded.response_digest)
      = (a.status, coalesce(a.created_at, '-infinity'), a.response_digest)
        and (excluded.received_at, excluded.stream_seq) < (a.received_at, a.stream_seq))";

const ANSWERS_TYPES: [Type; 11] = [
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TIMESTAMPTZ_ARRAY,
    Type::JSONB_ARRAY,
    Type::BYTEA_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::TIMESTAMPTZ_ARRAY,
];

/// An event makes its task the winner of its job when it stands higher than the event that did so before.
const WINNERS: &str = "
insert into winners as w (job_key, task_id, status, created_at, stream_seq)
select unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::timestamptz[]), unnest($5::bigint[])
    on conflict (job_key) do update
   set task_id = excluded.task_id, status = excluded.status, created_at = excluded.created_at, stream_seq = excluded.stream_seq
 where (excluded.status = 'COMPLETED', coalesce(excluded.created_at, '-infinity'), excluded.task_id)
     > (w.status = 'COMPLETED', coalesce(w.created_at, '-infinity'), w.task_id)
    or ((excluded.status, coalesce(excluded.created_at, '-infinity'), excluded.task_id)
      = (w.status, coalesce(w.created_at, '-infinity'), w.task_id)
        and excluded.stream_seq < w.stream_seq)";

const WINNERS_TYPES: [Type; 5] = [
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TIMESTAMPTZ_ARRAY,
    Type::INT8_ARRAY,
];

/// One event is parked once, however often it is delivered.
const PARKED: &str = "
insert into parked (stream_created, stream_seq, subject, task_id, reason, detail, body, parked_at)
select $1::timestamptz, p.* from unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::timestamptz[]) p
    on conflict (stream_created, stream_seq) do nothing
returning stream_seq";

const PARKED_TYPES: [Type; 8] = [
    Type::TIMESTAMPTZ,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::BYTEA_ARRAY,
    Type::TIMESTAMPTZ_ARRAY,
];

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
    let task_id: Vec<_> = rows.iter().map(|row| row.task_id.as_str()).collect();
    let job_key: Vec<_> = rows.iter().map(|row| row.job_key.as_str()).collect();
    let idempotency_key: Vec<_> = rows.iter().map(|row| row.idempotency_key.as_deref()).collect();
    let status: Vec<_> = rows.iter().map(|row| row.rank.status.as_str()).collect();
    let created_at: Vec<_> = rows.iter().map(|row| row.rank.created_at).collect();
    let response: Vec<_> = rows.iter().map(|row| row.response.as_ref().map(Jsonb)).collect();
    let digest: Vec<_> = rows
        .iter()
        .map(|row| row.rank.digest.as_bytes().as_slice())
        .collect();
    let problem: Vec<_> = rows.iter().map(|row| row.problem.as_deref()).collect();
    let via: Vec<_> = rows.iter().map(|row| row.via.as_str()).collect();
    let stream_seq: Vec<_> = rows
        .iter()
        .map(|row| sequence(row.provenance.stream_seq))
        .collect();
    let received_at: Vec<_> = rows.iter().map(|row| row.provenance.received_at).collect();
    let values: [&(dyn ToSql + Sync); 11] = [
        &task_id,
        &job_key,
        &idempotency_key,
        &status,
        &created_at,
        &response,
        &digest,
        &problem,
        &via,
        &stream_seq,
        &received_at,
    ];
    execute(client, "writing answers", ANSWERS, &values, &ANSWERS_TYPES).await
}

async fn winners(client: &Client, rows: &[&ResultRow]) -> Result<u64, DatabaseError> {
    if rows.is_empty() {
        return Ok(0);
    }
    let job_key: Vec<_> = rows.iter().map(|row| row.job_key.as_str()).collect();
    let task_id: Vec<_> = rows.iter().map(|row| row.task_id.as_str()).collect();
    let status: Vec<_> = rows.iter().map(|row| row.rank.status.as_str()).collect();
    let created_at: Vec<_> = rows.iter().map(|row| row.rank.created_at).collect();
    let stream_seq: Vec<_> = rows
        .iter()
        .map(|row| sequence(row.provenance.stream_seq))
        .collect();
    let values: [&(dyn ToSql + Sync); 5] = [&job_key, &task_id, &status, &created_at, &stream_seq];
    execute(client, "writing winners", WINNERS, &values, &WINNERS_TYPES).await
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
    let job_key: Vec<_> = rows.iter().map(|row| row.job).collect();
    let task_id: Vec<_> = rows.iter().map(|row| row.rank.task_id.as_str()).collect();
    let status: Vec<_> = rows.iter().map(|row| row.rank.status.as_str()).collect();
    let created_at: Vec<_> = rows.iter().map(|row| row.rank.created_at).collect();
    let stream_seq: Vec<_> = rows.iter().map(|row| sequence(row.stream_seq)).collect();
    let values: [&(dyn ToSql + Sync); 5] = [&job_key, &task_id, &status, &created_at, &stream_seq];
    execute(client, "writing winners", WINNERS, &values, &WINNERS_TYPES).await
}

async fn parked(
    client: &Client,
    stream_created: OffsetDateTime,
    rows: &[&ParkedRow],
) -> Result<Vec<u64>, DatabaseError> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let stream_seq: Vec<_> = rows.iter().map(|row| sequence(row.stream_seq)).collect();
    // Of all that is parked only a subject can hold a NUL: the broker takes any from whoever may publish.
    let subject: Vec<_> = rows
        .iter()
        .map(|row| row.subject.replace('\0', "\u{FFFD}"))
        .collect();
    let task_id: Vec<_> = rows
        .iter()
        .map(|row| row.task_id.as_ref().map(|id| id.as_str()))
        .collect();
    let reason: Vec<_> = rows.iter().map(|row| row.reason).collect();
    let detail: Vec<_> = rows.iter().map(|row| row.detail.as_deref()).collect();
    let body: Vec<_> = rows.iter().map(|row| row.body.as_ref()).collect();
    let parked_at: Vec<_> = rows.iter().map(|row| row.parked_at).collect();
    let values: [&(dyn ToSql + Sync); 8] = [
        &stream_created,
        &stream_seq,
        &subject,
        &task_id,
        &reason,
        &detail,
        &body,
        &parked_at,
    ];
    let attempt = "parking messages";
    let new = client
        .query_typed(PARKED, &typed(&values, &PARKED_TYPES))
        .await
        .map_err(DatabaseError::of(attempt))?;
    new.iter()
        .map(|row| row.try_get::<_, i64>(0).map(i64::unsigned_abs))
        .collect::<Result<_, _>>()
        .map_err(DatabaseError::of(attempt))
}

/// Runs a statement without a name, so that nothing of it stays on the session.
async fn execute<const N: usize>(
    client: &Client,
    attempt: &'static str,
    statement: &str,
    values: &[&(dyn ToSql + Sync); N],
    types: &[Type; N],
) -> Result<u64, DatabaseError> {
    client
        .execute_typed(statement, &typed(values, types))
        .await
        .map_err(DatabaseError::of(attempt))
}

/// Each value with the type of its parameter.
fn typed<'v, const N: usize>(
    values: &[&'v (dyn ToSql + Sync); N],
    types: &[Type; N],
) -> Vec<(&'v (dyn ToSql + Sync), Type)> {
    values.iter().copied().zip(types.iter().cloned()).collect()
}

/// Postgres has no unsigned integers. A stream that counts past `i64::MAX` takes 29,000 years at ten million events a second.
fn sequence(stream_seq: u64) -> i64 {
    i64::try_from(stream_seq).expect("no stream gets that long")
}

/// JSON text for a parameter of type `jsonb`: in its binary form a version byte, then the text, which is parsed
/// once, by the server.
#[derive(Debug)]
struct Jsonb<'b>(&'b Bytes);

impl ToSql for Jsonb<'_> {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.put_u8(1);
        out.put_slice(self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::JSONB
    }

    to_sql_checked!();
}
