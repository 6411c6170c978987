//! Finding the task ids of submissions that were recorded without.
//!
//! A create call that timed out and whose repetition got 409 leaves a key and no id. The delivery brings both.

use std::time::Duration;

use database::{Database, DatabaseError};
use schemas::job_key::{self, Rules};
use service::Chain;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tracing::warn;

use super::{Submissions, count, query, seconds};

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
      or a.created_at between u.created_at - make_interval(secs => $3) and u.created_at + make_interval(secs => $3)
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

impl Submissions {
    /// Fills in the ids that the rows of `stream` tell, and settles those submissions. `within`: how far an answer's creation may be
    /// from the submission.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn fill(&self, stream: &str, within: Duration) -> Result<Filled, DatabaseError> {
        let Some(rules) = self.rules(stream).await? else {
            // Nothing was projected yet.
            return Ok(Filled::default());
        };
        let mut filled = Filled::default();
        let mut after = 0;
        loop {
            let page = self.page(after).await?;
            let Some((last, _)) = page.last() else {
                return Ok(filled);
            };
            after = *last;
            let found = fill_page(&self.database, &page, rules, within).await?;
            filled.all += found.all;
            filled.merged += found.merged;
        }
    }

    async fn rules(&self, stream: &str) -> Result<Option<Rules>, DatabaseError> {
        let attempt = "reading the rules of the projection";
        let rows = self.query(attempt, RULES, &[(&stream, Type::TEXT)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let rules: serde_json::Value = row.try_get(0).map_err(DatabaseError::of(attempt))?;
        serde_json::from_value(rules)
            .map(Some)
            .map_err(|_| DatabaseError::Unexpected("the rules in `projection` are not those of this version"))
    }

    /// The next ones, with their keys.
    async fn page(&self, after: i64) -> Result<Vec<(i64, String)>, DatabaseError> {
        let attempt = "reading submissions without a task id";
        let rows = self
            .query(attempt, UNKNOWN, &[(&after, Type::INT8), (&PAGE, Type::INT8)])
            .await?;
        rows.iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
            .collect::<Result<_, _>>()
            .map_err(DatabaseError::of(attempt))
    }
}

async fn fill_page(
    database: &Database,
    page: &[(i64, String)],
    rules: Rules,
    within: Duration,
) -> Result<Filled, DatabaseError> {
    let attempt = "filling in task ids";
    let submissions: Vec<i64> = page.iter().map(|(submission, _)| *submission).collect();
    let job_keys: Vec<&str> = page.iter().map(|(_, key)| job_key::of_key(rules, key)).collect();
    let within = seconds(within);
    let mut attempts = 0;
    loop {
        let filled = database
            .transaction(async |client, _| {
                query(
                    client,
                    attempt,
                    FILL,
                    &[
                        (&submissions, Type::INT8_ARRAY),
                        (&job_keys, Type::TEXT_ARRAY),
                        (&within, Type::FLOAT8),
                    ],
                )
                .await
            })
            .await;
        attempts += 1;
        match filled {
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                if attempts >= ATTEMPTS {
                    warn!(error = %Chain(&error), "task ids are recorded as fast as they are found; looking again later");
                    return Ok(Filled::default());
                }
            }
            Err(error) => return Err(error),
            Ok(rows) => {
                let row = rows
                    .first()
                    .ok_or(DatabaseError::Unexpected("a count gave no row"))?;
                return Ok(Filled {
                    all: count(row, 0, attempt)?,
                    merged: count(row, 1, attempt)?,
                });
            }
        }
    }
}
