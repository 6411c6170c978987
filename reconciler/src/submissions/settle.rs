//! What changes by itself: rows that came, and time that passed.

use std::time::Duration;

use database::DatabaseError;
use tokio_postgres::types::Type;

use super::{Submissions, count, query, seconds, seq};

/// Most rows that one transaction looks for, or changes.
const AT_ONCE: i64 = 5_000;

/// The next ones to be asked for: what has its row is not to be.
const DUE: &str = "
  select submission_id from submitted_tasks
   where state in ('OPEN', 'OVERDUE') and task_id is not null and next_check_at <= now() and submission_id > $2
   order by next_check_at
   limit $1";

/// All of them, some at a time.
const BEHIND: &str = "
  select submission_id from submitted_tasks
   where state <> 'SETTLED' and submission_id > $2
   order by submission_id
   limit $1";

/// A submission in whatever state is settled by the row of its task: a delivery that comes late still wins. Of what was parked, only
/// what the database refused, or what was appended for this very submission, is the task's: the rest says of itself which task
/// it is about, and a client of the broker without the secret can say anything.
const SETTLE: &str = "), answered as (
  select s.submission_id, p.reason as parked, a.via
    from looked_at l
    join submitted_tasks s on s.submission_id = l.submission_id
    left join answers a on a.task_id = s.task_id
    left join lateral (select reason from parked
                        where a.task_id is null and task_id = s.task_id
                          and (reason = 'database_refuses' or stream_seq = s.appended_seq)
                        limit 1) p on true
   where s.state <> 'SETTLED' and (a.task_id is not null or p.reason is not null)
     for update of s skip locked), settled as (
update submitted_tasks s
   set state = 'SETTLED', settled_at = now(), last_error = 'parked: ' || answered.parked
  from answered
 where s.submission_id = answered.submission_id
returning answered.via)
select count(*), count(*) filter (where via = 'reconciler'), (select count(*) from looked_at), (select max(submission_id) from looked_at)
  from settled";

const OVERDUE: &str = "
with late as (
  select submission_id from submitted_tasks
   where state = 'OPEN' and created_at < now() - make_interval(secs => $1)
   limit $2
     for update skip locked)
update submitted_tasks s set state = 'OVERDUE' from late where s.submission_id = late.submission_id
returning s.submission_id";

/// Given up once the provider was asked for it in vain when it could keep the result no longer, or said before that it does not know
/// it. One that is due is asked for first, also when somebody made it so by hand. What is on the stream is not lost: it waits for its
/// row.
const LOST: &str = "
with late as (
  select submission_id from submitted_tasks
   where state in ('OPEN', 'OVERDUE') and created_at < now() - make_interval(secs => $1)
     and (task_id is null
          or next_check_at > now() and (not_found > 0 or created_at <= checked_at - make_interval(secs => $1)))
     and (appended_seq is null or appended_seq <= $3 or appended_seq > $4)
   limit $2
     for update skip locked)
update submitted_tasks s
   set state = 'LOST', last_error = coalesce(s.last_error, case when s.task_id is null then 'its task id never became known' end)
  from late
 where s.submission_id = late.submission_id
returning s.submission_id";

/// Reported once, by whoever finds it.
const CRITICAL: &str = "
with late as (
  select submission_id from submitted_tasks
   where state in ('OPEN', 'OVERDUE') and critical_at is null and created_at < now() - make_interval(secs => $1)
   limit $2
     for update skip locked)
update submitted_tasks s set critical_at = now() from late where s.submission_id = late.submission_id
returning s.submission_id";

/// How many were settled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settled {
    /// All.
    pub all: u64,
    /// Those whose row came by a reconciler.
    pub recovered: u64,
    /// The last one that was looked at, when there may be more behind it.
    pub more_behind: Option<i64>,
}

/// How many got older than they should.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Aged {
    /// Past the horizon.
    pub overdue: u64,
    /// Far past it, and reported now.
    pub critical: u64,
    /// Given up.
    pub lost: u64,
}

/// The ages that matter.
#[derive(Debug, Clone, Copy)]
pub struct Ages {
    /// Of an overdue one.
    pub overdue: Duration,
    /// Of a critical one.
    pub critical: Duration,
    /// Of a lost one.
    pub lost: Duration,
}

impl Submissions {
    /// Settles what has its row among those that are due next.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn settle_due(&self) -> Result<Settled, DatabaseError> {
        self.settle(DUE, 0).await
    }

    /// Settles what has its row among some of all, behind the submission `after`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn settle_behind(&self, after: i64) -> Result<Settled, DatabaseError> {
        self.settle(BEHIND, after).await
    }

    async fn settle(&self, which: &str, after: i64) -> Result<Settled, DatabaseError> {
        let attempt = "settling submissions";
        let statement = format!("with looked_at as materialized ({which}{SETTLE}");
        let rows = self
            .query(
                attempt,
                &statement,
                &[(&AT_ONCE, Type::INT8), (&after, Type::INT8)],
            )
            .await?;
        let row = rows
            .first()
            .ok_or(DatabaseError::Unexpected("a count gave no row"))?;
        let last: Option<i64> = row.try_get(3).map_err(DatabaseError::of(attempt))?;
        let looked_at = count(row, 2, attempt)?;
        Ok(Settled {
            all: count(row, 0, attempt)?,
            recovered: count(row, 1, attempt)?,
            more_behind: last.filter(|_| looked_at == AT_ONCE.unsigned_abs()),
        })
    }

    /// Moves on what got too old. `floor` and `last_seq`: see [`super::Claim`].
    ///
    /// # Errors
    /// When the database fails.
    pub async fn age(&self, ages: Ages, floor: u64, last_seq: u64) -> Result<Aged, DatabaseError> {
        let attempt = "looking at the age of submissions";
        let (overdue, critical, lost) = (seconds(ages.overdue), seconds(ages.critical), seconds(ages.lost));
        let (floor, last_seq) = (seq(floor), seq(last_seq));
        self.database
            .transaction(async |client, _| {
                let moved = async |statement, age: &f64| {
                    query(
                        client,
                        attempt,
                        statement,
                        &[(age, Type::FLOAT8), (&AT_ONCE, Type::INT8)],
                    )
                    .await
                    .map(|rows| rows.len() as u64)
                };
                let overdue = moved(OVERDUE, &overdue).await?;
                let critical = moved(CRITICAL, &critical).await?;
                let lost = query(
                    client,
                    attempt,
                    LOST,
                    &[
                        (&lost, Type::FLOAT8),
                        (&AT_ONCE, Type::INT8),
                        (&floor, Type::INT8),
                        (&last_seq, Type::INT8),
                    ],
                )
                .await?;
                Ok(Aged {
                    overdue,
                    critical,
                    lost: lost.len() as u64,
                })
            })
            .await
    }
}
