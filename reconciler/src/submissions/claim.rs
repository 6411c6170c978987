//! Taking what is due, so that nobody else asks for it meanwhile.

use std::time::Duration;

use database::DatabaseError;
use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Submissions, query, seconds, seq};

/// The next check moves ahead by the lease: whoever looks meanwhile does not find the row due, and when this process dies it is due
/// again after that. One that was appended waits for its row, as long as its event is one that the projectors have yet to reach.
///
/// The application fills these columns too, with whatever it likes: no value of one row may stop the statement for all of them, or be
/// one that cannot be read here (`-infinity`).
const CLAIM: &str = "
with due as (
  select submission_id, next_check_at
    from submitted_tasks
   where state in ('OPEN', 'OVERDUE') and task_id is not null and next_check_at <= now()
     and (appended_seq is null or appended_seq <= $2 or appended_seq > $3)
     and not exists (select from provider_pause where provider = $4 and paused_until > now())
   order by next_check_at
   limit $1
     for update skip locked)
update submitted_tasks s
   set next_check_at = now() + make_interval(secs => $5), checks = least(s.checks, 2147483646) + 1
  from due
 where s.submission_id = due.submission_id
returning s.submission_id, s.task_id, s.next_check_at,
          greatest(due.next_check_at, '2000-01-01 00:00Z'), s.checks, s.created_at < now() - make_interval(secs => $6)";

/// How long the pause lasts, if there is one. After five seconds it is looked at again: whoever made it by hand may take it back, and
/// need not have given it an end.
const PAUSED: &str = "
select extract(epoch from least(paused_until, now() + interval '5 seconds') - now())::float8
  from provider_pause
 where provider = $1 and paused_until > now()";

/// What may be taken.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Most rows.
    pub most: usize,
    /// For how long they are ours.
    pub lease: Duration,
    /// Up to which sequence of the stream the projectors are done.
    pub floor: u64,
    /// Where the stream ends: what is said to be beyond was on another one.
    pub last_seq: u64,
    /// How long the provider keeps results.
    pub kept: Duration,
}

/// What was taken.
#[derive(Debug)]
pub enum Claimed {
    /// These, fewer than were asked for when no more are due.
    Due(Vec<Due>),
    /// Nothing: the provider told one of us to leave it alone for so long.
    Paused(Duration),
}

/// A submission in our hands.
#[derive(Debug, Clone)]
pub struct Due {
    /// Which.
    pub submission: i64,
    /// Its task, as it was recorded.
    pub task_id: String,
    /// Until when it is ours. Also what shows that it still is.
    pub lease: OffsetDateTime,
    /// When it was due.
    pub was_due: OffsetDateTime,
    /// How often it was asked for, this time included.
    pub checks: u32,
    /// Older than the provider keeps results.
    pub expired: bool,
}

impl Submissions {
    /// Takes what has been due for the longest time. The claim is committed when this returns, so nothing is locked while the
    /// provider is asked.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn claim(&self, claim: Claim) -> Result<Claimed, DatabaseError> {
        let attempt = "claiming what is due";
        let most = i64::try_from(claim.most).unwrap_or(i64::MAX);
        let (lease, kept) = (seconds(claim.lease), seconds(claim.kept));
        let (floor, last_seq) = (seq(claim.floor), seq(claim.last_seq));
        self.database
            .transaction(async |client, _| {
                let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 6] = [
                    (&most, Type::INT8),
                    (&floor, Type::INT8),
                    (&last_seq, Type::INT8),
                    (&self.provider, Type::TEXT),
                    (&lease, Type::FLOAT8),
                    (&kept, Type::FLOAT8),
                ];
                let rows = query(client, attempt, CLAIM, &parameters).await?;
                if rows.is_empty() {
                    let paused = query(client, attempt, PAUSED, &[(&self.provider, Type::TEXT)]).await?;
                    if let Some(row) = paused.first() {
                        let rest: f64 = row.try_get(0).map_err(DatabaseError::of(attempt))?;
                        return Ok(Claimed::Paused(Duration::from_secs_f64(rest.max(0.0))));
                    }
                }
                let due = rows.iter().map(Due::read).collect::<Result<_, _>>();
                Ok(Claimed::Due(due.map_err(DatabaseError::of(attempt))?))
            })
            .await
    }
}

impl Due {
    fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self {
            submission: row.try_get(0)?,
            task_id: row.try_get(1)?,
            lease: row.try_get(2)?,
            was_due: row.try_get(3)?,
            checks: u32::try_from(row.try_get::<_, i32>(4)?).unwrap_or_default(),
            expired: row.try_get(5)?,
        })
    }
}
