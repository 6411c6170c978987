//! Writing down what came of a check.

use std::time::Duration;

use database::DatabaseError;
use tokio_postgres::types::{ToSql, Type};

use super::{Due, Submissions, seconds, seq};

/// Only while the claim is ours, and the row still waits: it may have been settled in between, or our lease have ended and another
/// be asking.
const OURS: &str = "
 where submission_id = $1 and next_check_at = $2 and state in ('OPEN', 'OVERDUE')
returning state, unusable_answers";

/// The provider answered about the task.
const ANSWERED: &str = "
update submitted_tasks
   set checked_at = now(), next_check_at = now() + make_interval(secs => $3), last_error = $4,
       appended_seq = coalesce($5, appended_seq), not_found = 0, not_found_since = null,
       unusable_answers = case when $6 then least(unusable_answers, 2147483646) + 1 else 0 end";

/// It said that it knows no such task. Said often enough and for long enough, that is believed.
const NOT_FOUND: &str = "
update submitted_tasks
   set checked_at = now(), next_check_at = now() + make_interval(secs => $3), last_error = $4,
       not_found = least(not_found, 2147483646) + 1, not_found_since = coalesce(not_found_since, now()), unusable_answers = 0,
       state = case when $5 and not_found >= $6 - 1 and coalesce(not_found_since, now()) <= now() - make_interval(secs => $7)
                    then 'GONE' else state end";

/// Nothing came of it.
const FAILED: &str = "
update submitted_tasks
   set checked_at = now(), next_check_at = now() + make_interval(secs => $3), last_error = $4";

/// It is not asked for any more.
const ENDED: &str = "
update submitted_tasks
   set checked_at = now(), next_check_at = now() + make_interval(secs => $3), last_error = $4, state = $5";

/// It was not asked for after all, or not so that it counts.
const RELEASED: &str = "
update submitted_tasks
   set checks = greatest(checks - 1, 0), next_check_at = coalesce($3, now() + make_interval(secs => $4)),
       last_error = coalesce($5, last_error)";

/// What came of a check.
#[derive(Debug)]
pub enum Note<'a> {
    /// Its result is on the stream.
    Appended {
        /// There.
        seq: u64,
    },
    /// It has not ended; with a word about that, if there is one.
    Open(Option<&'a str>),
    /// The answer could not be used, for this reason.
    Unusable(&'a str),
    /// The provider knows no such task.
    NotFound {
        /// Whether the provider can be believed.
        believed: bool,
        /// How often in a row it must say so.
        checks: i32,
        /// Over at least this time.
        over: Duration,
    },
    /// The provider has deleted it for ever.
    Gone,
    /// Its answer is over the limit.
    TooLarge(&'a str),
    /// Nothing came of it, for this reason.
    Failed(&'a str),
    /// It was not asked for: due again as it was.
    Released,
    /// The provider did not want to be asked: due again after this time, behind what is due already.
    Refused(&'a str),
}

/// What a row is after a note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    /// The state.
    pub state: String,
    /// How many answers in a row could not be used.
    pub unusable: i32,
}

impl Submissions {
    /// Writes down what came of the check of `due`, and when to check again: after `next`. None when the row was not ours any
    /// more.
    ///
    /// # Errors
    /// When the database fails. The row is due again when its lease ends.
    pub async fn note(
        &self,
        due: &Due,
        note: &Note<'_>,
        next: Duration,
    ) -> Result<Option<Noted>, DatabaseError> {
        let next = seconds(next);
        let none: Option<&str> = None;
        let head: [(&(dyn ToSql + Sync), Type); 3] = [
            (&due.submission, Type::INT8),
            (&due.lease, Type::TIMESTAMPTZ),
            (&next, Type::FLOAT8),
        ];
        let [submission, lease, next] = head;
        let answered = async |error: &(dyn ToSql + Sync), appended: Option<i64>, unusable: bool| {
            let rest: [(&(dyn ToSql + Sync), Type); 6] = [
                submission.clone(),
                lease.clone(),
                next.clone(),
                (error, Type::TEXT),
                (&appended, Type::INT8),
                (&unusable, Type::BOOL),
            ];
            self.write(ANSWERED, &rest).await
        };
        match *note {
            Note::Appended { seq: at } => answered(&none, Some(seq(at)), false).await,
            Note::Open(word) => answered(&word, None, false).await,
            Note::Unusable(reason) => answered(&reason, None, true).await,
            Note::NotFound {
                believed,
                checks,
                over,
            } => {
                let parameters: [(&(dyn ToSql + Sync), Type); 7] = [
                    submission,
                    lease,
                    next,
                    (&"the provider knows no such task (404)", Type::TEXT),
                    (&believed, Type::BOOL),
                    (&checks, Type::INT4),
                    (&seconds(over), Type::FLOAT8),
                ];
                self.write(NOT_FOUND, &parameters).await
            }
            Note::Gone => {
                self.end(
                    &[submission, lease, next],
                    "the provider has deleted it for ever (410)",
                    "GONE",
                )
                .await
            }
            Note::TooLarge(reason) => self.end(&[submission, lease, next], reason, "TOO_LARGE").await,
            Note::Failed(reason) => {
                self.write(FAILED, &[submission, lease, next, (&reason, Type::TEXT)])
                    .await
            }
            Note::Released | Note::Refused(_) => {
                let (was_due, reason) = match *note {
                    Note::Refused(reason) => (None, Some(reason)),
                    _ => (Some(due.was_due), None),
                };
                let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
                    submission,
                    lease,
                    (&was_due, Type::TIMESTAMPTZ),
                    next,
                    (&reason, Type::TEXT),
                ];
                self.write(RELEASED, &parameters).await
            }
        }
    }

    async fn end(
        &self,
        head: &[(&(dyn ToSql + Sync), Type); 3],
        reason: &str,
        state: &str,
    ) -> Result<Option<Noted>, DatabaseError> {
        let [submission, lease, next] = head.clone();
        let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
            submission,
            lease,
            next,
            (&reason, Type::TEXT),
            (&state, Type::TEXT),
        ];
        self.write(ENDED, &parameters).await
    }

    async fn write(
        &self,
        change: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Option<Noted>, DatabaseError> {
        let attempt = "noting what came of a check";
        let rows = self
            .query(attempt, &format!("{change}{OURS}"), parameters)
            .await?;
        rows.first()
            .map(|row| {
                Ok(Noted {
                    state: row.try_get(0)?,
                    unusable: row.try_get(1)?,
                })
            })
            .transpose()
            .map_err(DatabaseError::of(attempt))
    }
}
