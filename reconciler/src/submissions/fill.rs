//! Finding the task ids of submissions that were recorded without.
//!
//! A create call that timed out and whose repetition got 409 leaves a key and no id. The delivery brings both.

use std::time::Duration;

use database::DatabaseError;
use schemas::job_key::{self, Rules};
use service::Chain;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tracing::warn;

use super::{Submissions, count, seconds};

/// How many are gone through in one transaction.
const PAGE: i64 = 1_000;
/// Somebody recorded an id at the same moment as we found it: the next try sees it.
const ATTEMPTS: u32 = 3;

const RULES: &str = "select rules from projection where stream = $1";

const UNKNOWN: &str = "
select submission_id, idempotency_key from submitted_tasks
 where task_id is null and state <> 'SETTLED' and submission_id > $1
 order by submission_id
 limit $2";

/// Answers are looked for by job, which has the index, and then told apart by key. A key may serve again once the provider has
/// forgotten its task, so the answer must be from about the time of the submission. Where another submission has the task
/// already, or several wait for the same one, one keeps the id and the others name it.
const FILL: &str = "
with unknown as (
  select s.submission_id, s.idempotency_key, s.created_at, u.job_key
    from unnest($1::bigint[], $2::text[]) u (submission_id, job_key)
    join submitted_tasks s on s.submission_id = u.submission_id
   where s.task_id is null and s.state <> 'SETTLED'
   order by s.submission_id
     for update of s skip locked), found as (
  select distinct on (u.submission_id) u.submission_id, a.task_id, o.submission_id as owner
    from unknown u
    join answers a on a.job_key = u.job_key and a.idempotency_key = u.idempotency_key
    left join submitted_tasks o on o.task_id = a.task_id
   where a.created_at is null
      or u.created_at between a.created_at - make_interval(secs => $3) and a.created_at + make_interval(secs => $3)
   order by u.submission_id, o.submission_id is not null, a.created_at desc nulls last, a.task_id desc), owned as (
  select submission_id, task_id, coalesce(owner, min(submission_id) over (partition by task_id)) as owner from found), filled as (
update submitted_tasks s
   set task_id = case when o.owner = o.submission_id then o.task_id end, same_as = nullif(o.owner, o.submission_id),
       state = 'SETTLED', settled_at = now(), last_error = null
  from owned o
 where s.submission_id = o.submission_id
returning s.same_as)
select count(*), count(same_as) from filled";

/// How many ids were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filled {
    /// All.
    pub all: u64,
    /// Those of tasks that another submission has.
    pub merged: u64,
}

/// Some that have no id.
#[derive(Debug)]
pub struct Page {
    /// The last of them: the next page begins behind it.
    pub last: i64,
    submissions: Vec<i64>,
    keys: Vec<String>,
}

impl Submissions {
    /// The rules under which the rows of `stream` were made. None when there are none yet.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rules(&self, stream: &str) -> Result<Option<Rules>, DatabaseError> {
        let attempt = "reading the rules of the projection";
        let rows = self.query(attempt, RULES, &[(&stream, Type::TEXT)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let rules: serde_json::Value = row.try_get(0).map_err(DatabaseError::of(attempt))?;
        serde_json::from_value(rules)
            .map(Some)
            .map_err(|_| DatabaseError::Unexpected("the rules in `projection` are not those of this version"))
    }

    /// The next ones without an id, behind the submission `after`. None when there are no more.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn unknown_after(&self, after: i64) -> Result<Option<Page>, DatabaseError> {
        let attempt = "reading submissions without a task id";
        let rows = self
            .query(attempt, UNKNOWN, &[(&after, Type::INT8), (&PAGE, Type::INT8)])
            .await?;
        let read = || -> Result<_, tokio_postgres::Error> {
            let submissions = rows
                .iter()
                .map(|row| row.try_get(0))
                .collect::<Result<Vec<i64>, _>>()?;
            let keys = rows.iter().map(|row| row.try_get(1)).collect::<Result<_, _>>()?;
            Ok((submissions, keys))
        };
        let (submissions, keys) = read().map_err(DatabaseError::of(attempt))?;
        Ok(submissions.last().copied().map(|last| Page {
            last,
            submissions,
            keys,
        }))
    }

    /// Fills in the ids that the rows tell, and settles those submissions. `within`: how far an answer's creation may be from the
    /// submission.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn fill(&self, page: &Page, rules: Rules, within: Duration) -> Result<Filled, DatabaseError> {
        let attempt = "filling in task ids";
        let job_keys: Vec<&str> = page.keys.iter().map(|key| job_key::of_key(rules, key)).collect();
        let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
            (&page.submissions, Type::INT8_ARRAY),
            (&job_keys, Type::TEXT_ARRAY),
            (&seconds(within), Type::FLOAT8),
        ];
        let mut attempts = 1;
        let rows = loop {
            match self.query(attempt, FILL, &parameters).await {
                Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) && attempts < ATTEMPTS => {
                    attempts += 1;
                }
                Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                    warn!(error = %Chain(&error), "task ids are recorded as fast as they are found; looking again later");
                    return Ok(Filled::default());
                }
                other => break other?,
            }
        };
        let row = rows
            .first()
            .ok_or(DatabaseError::Unexpected("a count gave no row"))?;
        Ok(Filled {
            all: count(row, 0, attempt)?,
            merged: count(row, 1, attempt)?,
        })
    }
}
