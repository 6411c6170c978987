//! How things stand.

use std::collections::BTreeMap;
use std::time::Duration;

use database::DatabaseError;
use serde::Serialize;
use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Submissions, count, query};

/// So many answers in a row that could not be used are worth a look.
pub const UNUSABLE: i32 = 3;

/// Outstanding is what should have been settled by now: asked for at least once, or due.
const COUNTS: &str = "
select count(*) filter (where state = 'OPEN'),
       count(*) filter (where state = 'OVERDUE'),
       count(*) filter (where state = 'GONE'),
       count(*) filter (where state = 'LOST'),
       count(*) filter (where state = 'TOO_LARGE'),
       count(*) filter (where task_id is null),
       count(*) filter (where waiting and (checks > 0 or next_check_at <= now())),
       count(*) filter (where waiting and appended_seq is not null),
       count(*) filter (where waiting and critical_at is not null),
       count(*) filter (where waiting and unusable_answers >= $1)
  from submitted_tasks
 cross join lateral (select state in ('OPEN', 'OVERDUE') as waiting) w
 where state <> 'SETTLED'";

/// One that the provider must know, if it knows any of ours: by its own word it was created not long ago, where a submission may
/// have been recorded long after. Looked for among the latest, so that what was settled over years is not gone through.
const KNOWN: &str = "
select s.task_id
  from (select task_id, created_at from submitted_tasks
         where state = 'SETTLED' and task_id is not null
         order by submission_id desc
         limit 1000) s
  join answers a on a.task_id = s.task_id
 where coalesce(a.created_at, s.created_at) > now() - make_interval(secs => $1)
 order by coalesce(a.created_at, s.created_at) desc
 limit 1";

const STATES: &str = "select state, count(*) from submitted_tasks group by state order by state";

/// Whatever time of creation the application wrote into a row, it can be read and printed.
const LISTED: &str = "
select submission_id, task_id, idempotency_key, greatest(least(created_at, '9999-12-31Z'), '0001-01-01Z'), checks,
       checked_at, last_error
  from submitted_tasks
 where state <> 'SETTLED' and ";

const LISTED_ORDER: &str = "
 order by created_at, submission_id
 limit $1";

const UNSUBMITTED: &str = "
select a.task_id, a.job_key, a.received_at, count(*) over ()
  from answers a
 where not exists (select from submitted_tasks s where s.task_id = a.task_id)
 order by a.received_at, a.task_id
 limit $1";

/// What is not settled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// In state OPEN.
    pub open: u64,
    /// In state OVERDUE.
    pub overdue: u64,
    /// In state GONE.
    pub gone: u64,
    /// In state LOST.
    pub lost: u64,
    /// In state `TOO_LARGE`.
    pub too_large: u64,
    /// Without a task id.
    pub unknown: u64,
    /// Past their first check, and neither settled nor given up.
    pub outstanding: u64,
    /// Of these, those whose result is on the stream already.
    pub appended: u64,
    /// Of these, those reported as critical.
    pub critical: u64,
    /// Of these, those with answers that could not be used, several in a row.
    pub unusable: u64,
}

/// A submission in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Which.
    pub submission_id: i64,
    /// Its task.
    pub task_id: Option<String>,
    /// Its key.
    pub idempotency_key: Option<String>,
    /// When it was submitted.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// How often it was asked for.
    pub checks: i32,
    /// When last.
    #[serde(with = "time::serde::rfc3339::option")]
    pub checked_at: Option<OffsetDateTime>,
    /// Why that gave nothing.
    pub last_error: Option<String>,
}

/// An answer that nobody recorded a submission for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unsubmitted {
    /// Its task.
    pub task_id: String,
    /// Its job.
    pub job_key: String,
    /// When it came.
    #[serde(with = "time::serde::rfc3339")]
    pub received_at: OffsetDateTime,
}

/// How many there are, and the oldest of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct List<T> {
    /// All.
    pub count: u64,
    /// The oldest.
    pub oldest: Vec<T>,
}

/// What an operator wants to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How many submissions are in each state.
    pub states: BTreeMap<String, u64>,
    /// Past the horizon, and still asked for.
    pub overdue: List<Listed>,
    /// Of these, those that wait for far too long.
    pub critical: List<Listed>,
    /// Unknown to the provider.
    pub gone: List<Listed>,
    /// Given up.
    pub lost: List<Listed>,
    /// With an answer over the limit.
    pub too_large: List<Listed>,
    /// With answers that could not be used, several in a row.
    pub unusable: List<Listed>,
    /// Without a task id.
    pub unknown_ids: List<Listed>,
    /// Answers without a submission.
    pub unsubmitted: List<Unsubmitted>,
}

impl Submissions {
    /// What is not settled.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn counts(&self) -> Result<Counts, DatabaseError> {
        let attempt = "counting submissions";
        let rows = self.query(attempt, COUNTS, &[(&UNUSABLE, Type::INT4)]).await?;
        Counts::read(&rows, attempt)
    }

    /// A task that was answered and is younger than `age`: the provider should still have it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn known_task(&self, age: Duration) -> Result<Option<String>, DatabaseError> {
        let attempt = "looking for a task that the provider must know";
        let rows = self
            .query(attempt, KNOWN, &[(&super::seconds(age), Type::FLOAT8)])
            .await?;
        rows.first()
            .map(|row| row.try_get(0))
            .transpose()
            .map_err(DatabaseError::of(attempt))
    }

    /// What an operator wants to know, with up to `most` in each list.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn report(&self, most: u32) -> Result<Report, DatabaseError> {
        let attempt = "reading the report";
        let most = i64::from(most);
        self.database
            .transaction(async |client, _| {
                let unusable = format!("state in ('OPEN', 'OVERDUE') and unusable_answers >= {UNUSABLE}");
                // Most lists are empty, and to find that out by each of them means to go through all that is not settled.
                let counts = query(client, attempt, COUNTS, &[(&UNUSABLE, Type::INT4)]).await?;
                let counts = Counts::read(&counts, attempt)?;
                let list = async |count: u64, condition: &str| {
                    if count == 0 {
                        return Ok(List::of(0, Vec::new()));
                    }
                    let statement = format!("{LISTED}{condition}{LISTED_ORDER}");
                    let rows = query(client, attempt, &statement, &[(&most, Type::INT8)]).await?;
                    let listed = rows.iter().map(Listed::read).collect::<Result<_, _>>();
                    Ok::<_, DatabaseError>(List::of(count, listed.map_err(DatabaseError::of(attempt))?))
                };
                let states = query(client, attempt, STATES, &[]).await?;
                let states = states
                    .iter()
                    .map(|row| {
                        Ok((
                            row.try_get(0).map_err(DatabaseError::of(attempt))?,
                            count(row, 1, attempt)?,
                        ))
                    })
                    .collect::<Result<_, DatabaseError>>()?;
                let unsubmitted = query(client, attempt, UNSUBMITTED, &[(&most, Type::INT8)]).await?;
                Ok(Report {
                    states,
                    overdue: list(counts.overdue, "state = 'OVERDUE'").await?,
                    critical: list(
                        counts.critical,
                        "state in ('OPEN', 'OVERDUE') and critical_at is not null",
                    )
                    .await?,
                    gone: list(counts.gone, "state = 'GONE'").await?,
                    lost: list(counts.lost, "state = 'LOST'").await?,
                    too_large: list(counts.too_large, "state = 'TOO_LARGE'").await?,
                    unusable: list(counts.unusable, &unusable).await?,
                    unknown_ids: list(counts.unknown, "task_id is null").await?,
                    unsubmitted: List::of(
                        unsubmitted.first().map_or(Ok(0), |row| count(row, 3, attempt))?,
                        unsubmitted
                            .iter()
                            .map(Unsubmitted::read)
                            .collect::<Result<_, _>>()
                            .map_err(DatabaseError::of(attempt))?,
                    ),
                })
            })
            .await
    }
}

impl Counts {
    fn read(rows: &[Row], attempt: &'static str) -> Result<Self, DatabaseError> {
        let row = rows
            .first()
            .ok_or(DatabaseError::Unexpected("a count gave no row"))?;
        let at = |column| count(row, column, attempt);
        Ok(Self {
            open: at(0)?,
            overdue: at(1)?,
            gone: at(2)?,
            lost: at(3)?,
            too_large: at(4)?,
            unknown: at(5)?,
            outstanding: at(6)?,
            appended: at(7)?,
            critical: at(8)?,
            unusable: at(9)?,
        })
    }
}

impl<T> List<T> {
    /// `oldest` may have been read a moment after the count.
    fn of(count: u64, oldest: Vec<T>) -> Self {
        Self {
            count: count.max(oldest.len() as u64),
            oldest,
        }
    }
}

impl Listed {
    fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            submission_id: row.try_get(0)?,
            task_id: row.try_get(1)?,
            idempotency_key: row.try_get(2)?,
            created_at: row.try_get(3)?,
            checks: row.try_get(4)?,
            checked_at: row.try_get(5)?,
            last_error: row.try_get(6)?,
        })
    }
}

impl Unsubmitted {
    fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            task_id: row.try_get(0)?,
            job_key: row.try_get(1)?,
            received_at: row.try_get(2)?,
        })
    }
}
