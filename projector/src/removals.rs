//! Every statement that takes rows away: of a parked event that can be read by now, and of a task that is to be forgotten.
//!
//! `parked` comes first: whoever makes a row of a parked event takes it off that list before, so an erasure that waits for it
//! there finds the row afterwards. Projecting takes locks the other way round; a deadlock is tried again by both sides.

use schemas::delivery::{FinalStatus, TaskId};
use schemas::winner::JobRank;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::parked::rows::Place;
use crate::statements::{execute, query};
use database::DatabaseError;

const UNPARK: &str = "delete from parked where stream_created = $1 and stream_seq = $2";

const RELABEL: &str = "
update parked set reason = $3, detail = $4, task_id = $5 where stream_created = $1 and stream_seq = $2";

const TAKE_ANSWER: &str = "delete from answers where task_id = $1";

/// A task can be the winner of a job that its row does not stand in.
const TAKE_WINS: &str = "delete from winners where task_id = $1 returning job_key";

const WINS: &str = "select job_key from winners where task_id = $1";

const OTHERS: &str = "
select job_key, task_id, status, created_at, stream_seq from answers where job_key = any($1) and task_id <> $2";

const TAKE_PARKED: &str = "
delete from parked where task_id = $1 or (stream_created = $2 and stream_seq = any($3))";

/// Also what was found to be a submission of the same task; the column came with version 2.
const TAKE_SUBMISSIONS: &str = "
delete from submitted_tasks s
 where s.task_id = $1
    or (to_jsonb(s) ->> 'same_as')::bigint in (select o.submission_id from submitted_tasks o where o.task_id = $1)";

const FORGET_FLOOR: &str = "update projection set floor_msg_id = null where floor_msg_id = any($1)";

const COUNT: &str = "
select (select count(*) from answers where task_id = $1),
       (select count(*) from parked where task_id = $1 or (stream_created = $2 and stream_seq = any($3))),
       (select count(*) from submitted_tasks s where s.task_id = $1
            or (to_jsonb(s) ->> 'same_as')::bigint in (select o.submission_id from submitted_tasks o where o.task_id = $1))";

/// What a task leaves in the tables, or has left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traces {
    /// Rows of `answers`.
    pub answers: u64,
    /// Jobs that it is the winner of.
    pub wins: Vec<String>,
    /// Rows of `parked`.
    pub parked: u64,
    /// Rows of `submitted_tasks`.
    pub submissions: u64,
}

impl Traces {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The events of a task on the stream: by stream, creation time and sequence.
#[derive(Debug, Clone)]
pub struct Events {
    /// When the stream was created.
    pub stream_created: time::OffsetDateTime,
    /// Their sequences.
    pub seqs: Vec<i64>,
    /// Their message ids.
    pub msg_ids: Vec<String>,
}

/// Takes a parked event off the list; false when it is not there any more.
///
/// # Errors
/// When the database fails.
pub async fn unpark(client: &Client, place: Place) -> Result<bool, DatabaseError> {
    let values: [(&(dyn ToSql + Sync), Type); 2] = [(&place.0, Type::TIMESTAMPTZ), (&place.1, Type::INT8)];
    let taken = execute(client, "unparking a message", UNPARK, &values).await?;
    Ok(taken > 0)
}

/// Notes for what reason it stays there by now; false when it is not there any more.
///
/// # Errors
/// When the database fails.
pub async fn relabel(
    client: &Client,
    place: Place,
    reason: &str,
    detail: Option<&str>,
    task: Option<&TaskId>,
) -> Result<bool, DatabaseError> {
    let task = task.map(|id| id.as_str());
    let values: [(&(dyn ToSql + Sync), Type); 5] = [
        (&place.0, Type::TIMESTAMPTZ),
        (&place.1, Type::INT8),
        (&reason, Type::TEXT),
        (&detail, Type::TEXT),
        (&task, Type::TEXT),
    ];
    let changed = execute(client, "noting the reason of a parked message", RELABEL, &values).await?;
    Ok(changed > 0)
}

/// What the tables hold of a task.
///
/// # Errors
/// When the database fails.
pub async fn traces(client: &Client, task: &TaskId, events: &Events) -> Result<Traces, DatabaseError> {
    let attempt = "looking for the rows of the task";
    let task = task.as_str();
    let values: [(&(dyn ToSql + Sync), Type); 3] = [
        (&task, Type::TEXT),
        (&events.stream_created, Type::TIMESTAMPTZ),
        (&events.seqs, Type::INT8_ARRAY),
    ];
    let counts = query(client, attempt, COUNT, &values).await?;
    let wins = query(client, attempt, WINS, &[(&task, Type::TEXT)]).await?;
    let read = || -> Result<Traces, tokio_postgres::Error> {
        let count = |column: usize| -> Result<u64, tokio_postgres::Error> {
            let row = counts
                .first()
                .map(|row| row.try_get::<_, i64>(column))
                .transpose()?;
            Ok(row.unwrap_or_default().unsigned_abs())
        };
        Ok(Traces {
            answers: count(0)?,
            wins: keys(&wins)?,
            parked: count(1)?,
            submissions: count(2)?,
        })
    };
    read().map_err(DatabaseError::of(attempt))
}

/// Takes everything of a task out of the tables, inside a transaction of the caller's, and says what that was. The jobs that
/// it won are left without a winner: the caller sees to that in the same transaction.
///
/// # Errors
/// When the database fails.
pub async fn take(client: &Client, task: &TaskId, events: &Events) -> Result<Traces, DatabaseError> {
    let attempt = "erasing the rows of the task";
    let task = task.as_str();
    let of_task: [(&(dyn ToSql + Sync), Type); 1] = [(&task, Type::TEXT)];
    let parked: [(&(dyn ToSql + Sync), Type); 3] = [
        (&task, Type::TEXT),
        (&events.stream_created, Type::TIMESTAMPTZ),
        (&events.seqs, Type::INT8_ARRAY),
    ];
    let parked = execute(client, attempt, TAKE_PARKED, &parked).await?;
    let answers = execute(client, attempt, TAKE_ANSWER, &of_task).await?;
    let wins = query(client, attempt, TAKE_WINS, &of_task).await?;
    let submissions = execute(client, attempt, TAKE_SUBMISSIONS, &of_task).await?;
    execute(
        client,
        attempt,
        FORGET_FLOOR,
        &[(&events.msg_ids, Type::TEXT_ARRAY)],
    )
    .await?;
    Ok(Traces {
        answers,
        wins: keys(&wins).map_err(DatabaseError::of(attempt))?,
        parked,
        submissions,
    })
}

/// The rows of other tasks in these jobs, as contenders: job key, rank, sequence.
///
/// # Errors
/// When the database fails.
pub async fn others(
    client: &Client,
    jobs: &[String],
    task: &TaskId,
) -> Result<Vec<(String, JobRank, u64)>, DatabaseError> {
    let attempt = "looking for other tasks of the jobs";
    let task = task.as_str();
    let values: [(&(dyn ToSql + Sync), Type); 2] = [(&jobs, Type::TEXT_ARRAY), (&task, Type::TEXT)];
    let rows = query(client, attempt, OTHERS, &values).await?;
    let mut others = Vec::with_capacity(rows.len());
    for row in &rows {
        let read = || -> Result<_, tokio_postgres::Error> {
            Ok((
                row.try_get(0)?,
                row.try_get::<_, String>(1)?,
                row.try_get::<_, String>(2)?,
                row.try_get(3)?,
                row.try_get::<_, i64>(4)?,
            ))
        };
        let (job, task_id, status, created_at, seq) = read().map_err(DatabaseError::of(attempt))?;
        let unexpected = || DatabaseError::Unexpected("a row of `answers` holds what no projector writes");
        let rank = JobRank {
            status: status.parse::<FinalStatus>().map_err(|_| unexpected())?,
            created_at,
            task_id: task_id.parse().map_err(|_| unexpected())?,
        };
        others.push((job, rank, seq.unsigned_abs()));
    }
    Ok(others)
}

fn keys(rows: &[Row]) -> Result<Vec<String>, tokio_postgres::Error> {
    rows.iter().map(|row| row.try_get(0)).collect()
}
