//! Setting rows that are wrong to what the stream says, and taking away those that it says nothing of.
//!
//! Live projectors write at the same time, and what they write from events behind the end of a replay must stay. So each
//! statement decides by the row that it finds, under the lock of that row: one that names an event up to the end of the replay is
//! set to what that replay came to; any other is only ever raised, as projecting does.

use time::OffsetDateTime;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::columns::{AnswerColumns, ParkedColumns, WinnerColumns};
use super::{Parameter, WinnerRow, answer_is_greater, execute, sequence, winner_is_greater, winners_first};
use crate::rows::{ParkedRow, ResultRow};
use database::DatabaseError;

const ANSWERS: &str = concat!(
    upsert_answers!(),
    answer_is_greater!("excluded", "a"),
    "
    or (a.stream_seq <= $12 or a.stream_seq = any($13))
        and ((a.job_key, a.idempotency_key, a.status, a.created_at, a.response_digest, a.problem, a.via, a.stream_seq, a.received_at)
              is distinct from
             (excluded.job_key, excluded.idempotency_key, excluded.status, excluded.created_at, excluded.response_digest,
              excluded.problem, excluded.via, excluded.stream_seq, excluded.received_at)
             or not record_image_eq(row(a.response), row(excluded.response)))"
);

const WINNERS: &str = concat!(
    upsert_winners!(),
    winner_is_greater!("excluded", "w"),
    "
    or (w.stream_seq <= $6 or w.stream_seq = any($7))
        and (w.task_id, w.status, w.created_at, w.stream_seq)
              is distinct from (excluded.task_id, excluded.status, excluded.created_at, excluded.stream_seq)"
);

const PARKED: &str = concat!(
    upsert_parked!(),
    "do update
   set subject = excluded.subject, task_id = excluded.task_id, reason = excluded.reason, detail = excluded.detail,
       body = excluded.body, parked_at = excluded.parked_at
 where (p.subject, p.task_id, p.reason, p.detail, p.body, p.parked_at)
         is distinct from
       (excluded.subject, excluded.task_id, excluded.reason, excluded.detail, excluded.body, excluded.parked_at)"
);

const TAKE_ANSWERS: &str = "
delete from answers a using unnest($1::text[], $2::bigint[]) d (key, stream_seq)
 where a.task_id = d.key and a.stream_seq = d.stream_seq";

const TAKE_WINNERS: &str = "
delete from winners w using unnest($1::text[], $2::bigint[]) d (key, stream_seq)
 where w.job_key = d.key and w.stream_seq = d.stream_seq";

const TAKE_PARKED: &str = "
delete from parked p using unnest($1::timestamptz[], $2::bigint[]) d (stream_created, stream_seq)
 where p.stream_created = d.stream_created and p.stream_seq = d.stream_seq";

const MOVE: &str = "
update answers a set job_key = n.job_key from unnest($1::text[], $2::text[]) n (task_id, job_key) where a.task_id = n.task_id";

const LEAVE: &str = "
delete from winners w using unnest($1::text[], $2::text[]) n (task_id, job_key)
 where w.job_key = n.job_key and w.task_id = n.task_id";

const CROWN: &str = concat!(
    "
insert into winners as w (job_key, task_id, status, created_at, stream_seq)
select distinct on (job_key) job_key, task_id, status, created_at, stream_seq
  from answers where job_key = any($1) order by job_key, ",
    winners_first!(),
    "
    on conflict (job_key) do update
   set task_id = excluded.task_id, status = excluded.status, created_at = excluded.created_at, stream_seq = excluded.stream_seq
 where ",
    winner_is_greater!("excluded", "w"),
    "
    or exists (select from unnest($2::text[], $3::text[]) n (task_id, job_key) where w.job_key = n.job_key and w.task_id = n.task_id)"
);

/// Which rows may be set to something less than they are.
#[derive(Debug, Clone, Default)]
pub struct Settable {
    /// Those that name an event up to this one.
    pub end: u64,
    /// Those that name one of these, though there is no such event.
    pub invented: Vec<i64>,
}

impl Settable {
    /// None: rows are only raised.
    pub fn none() -> Self {
        Self::default()
    }
}

/// Sets rows of `answers`: each task once, in byte order. Gives how many were not so already.
///
/// # Errors
/// When the database fails.
pub async fn answers(
    client: &Client,
    rows: &[&ResultRow],
    settable: &Settable,
) -> Result<u64, DatabaseError> {
    let columns = AnswerColumns::of(rows);
    let end = sequence(settable.end);
    let mut parameters = columns.parameters();
    let settable: [Parameter<'_>; 2] = [(&end, Type::INT8), (&settable.invented, Type::INT8_ARRAY)];
    parameters.extend(settable);
    execute(client, "setting answers", ANSWERS, &parameters).await
}

/// Sets rows of `winners`: each job once, in byte order. Gives how many were not so already.
///
/// # Errors
/// When the database fails.
pub(crate) async fn winners(
    client: &Client,
    rows: &[WinnerRow<'_>],
    settable: &Settable,
) -> Result<u64, DatabaseError> {
    let columns = WinnerColumns::of(rows.iter().copied());
    let end = sequence(settable.end);
    let mut parameters = columns.parameters();
    let settable: [Parameter<'_>; 2] = [(&end, Type::INT8), (&settable.invented, Type::INT8_ARRAY)];
    parameters.extend(settable);
    execute(client, "setting winners", WINNERS, &parameters).await
}

/// Sets rows of `parked`, by sequence. Gives how many were not so already.
///
/// # Errors
/// When the database fails.
pub async fn parked(
    client: &Client,
    stream_created: OffsetDateTime,
    rows: &[&ParkedRow],
) -> Result<u64, DatabaseError> {
    let columns = ParkedColumns::of(stream_created, rows);
    execute(client, "setting parked messages", PARKED, &columns.parameters()).await
}

/// A table whose rows are maxima over events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maxima {
    /// One row a task.
    Answers,
    /// One row a job.
    Winners,
}

impl Maxima {
    /// The name of the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answers => "answers",
            Self::Winners => "winners",
        }
    }
}

/// Takes rows away, by key, that still name these events.
///
/// # Errors
/// When the database fails.
pub async fn take(client: &Client, table: Maxima, keys: &[&str], seqs: &[i64]) -> Result<u64, DatabaseError> {
    let parameters: [Parameter<'_>; 2] = [(&keys, Type::TEXT_ARRAY), (&seqs, Type::INT8_ARRAY)];
    let (attempt, statement) = match table {
        Maxima::Answers => ("taking answers away", TAKE_ANSWERS),
        Maxima::Winners => ("taking winners away", TAKE_WINNERS),
    };
    execute(client, attempt, statement, &parameters).await
}

/// Takes rows of `parked` away.
///
/// # Errors
/// When the database fails.
pub async fn take_parked(
    client: &Client,
    created: &[OffsetDateTime],
    seqs: &[i64],
) -> Result<u64, DatabaseError> {
    let parameters: [Parameter<'_>; 2] = [(&created, Type::TIMESTAMPTZ_ARRAY), (&seqs, Type::INT8_ARRAY)];
    execute(client, "taking parked messages away", TAKE_PARKED, &parameters).await
}

/// A task that belongs to another job than its row says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The task.
    pub task_id: String,
    /// The job that its row says.
    pub from: String,
    /// Its job.
    pub to: String,
}

/// What becomes of a winner whose task has moved to another job, when no task of its own is left to take its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It goes.
    Goes,
    /// It stays, because another table refers to it.
    Stays,
}

/// Moves these tasks to their jobs, and has the jobs that they leave and come to won by the greatest of their rows. Gives how many
/// rows it moved. Nobody else may write meanwhile.
///
/// # Errors
/// When the database fails.
pub async fn rekey(client: &Client, moved: &[Moved], left: Left) -> Result<u64, DatabaseError> {
    let attempt = "giving rows their job keys";
    let column = |of: fn(&Moved) -> &str| moved.iter().map(of).collect::<Vec<&str>>();
    let (tasks, from, to) = (column(|m| &m.task_id), column(|m| &m.from), column(|m| &m.to));
    let jobs = [from.clone(), to.clone()].concat();
    let moves: [Parameter<'_>; 2] = [(&tasks, Type::TEXT_ARRAY), (&to, Type::TEXT_ARRAY)];
    let leaves: [Parameter<'_>; 2] = [(&tasks, Type::TEXT_ARRAY), (&from, Type::TEXT_ARRAY)];
    let crowns: [Parameter<'_>; 3] = [
        (&jobs, Type::TEXT_ARRAY),
        (&tasks, Type::TEXT_ARRAY),
        (&from, Type::TEXT_ARRAY),
    ];
    let changed = execute(client, attempt, MOVE, &moves).await?;
    execute(client, attempt, CROWN, &crowns).await?;
    if left == Left::Goes {
        execute(client, attempt, LEAVE, &leaves).await?;
    }
    Ok(changed)
}
