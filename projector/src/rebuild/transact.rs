//! Short transactions on the session of a rebuild, each tried again when another one was in its way, and cut in halves when it is
//! too much at once.

use std::time::Duration;

use database::{DatabaseError, Session, SessionError, Trouble};
use tokio_postgres::Client;

use super::RebuildError;

/// So often a transaction is tried again that met another one, or somebody's lock.
const MOST_TRIES: u32 = 8;
/// So often one that cannot be cut any more may be too slow.
const MOST_TIMEOUTS: u32 = 3;

/// Transactions on one session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transactions<'s> {
    pub(super) session: &'s Session,
    /// How long one statement may take.
    pub(super) statement: Duration,
}

impl Transactions<'_> {
    /// Runs `work` in a transaction of its own, as often as it takes.
    ///
    /// # Errors
    /// The first failure that trying again does not mend.
    pub(super) async fn run<T>(
        &self,
        work: impl AsyncFn(&Client) -> Result<T, DatabaseError>,
    ) -> Result<T, SessionError> {
        self.attempt(MOST_TIMEOUTS, work).await
    }

    /// The same for what is better done in another way when it is too slow: that is not tried again.
    ///
    /// # Errors
    /// The first failure that trying again does not mend, a time limit among them.
    pub(super) async fn run_while_quick<T>(
        &self,
        work: impl AsyncFn(&Client) -> Result<T, DatabaseError>,
    ) -> Result<T, SessionError> {
        self.attempt(1, work).await
    }

    /// Does `work` to all of `rows`, and tells `done` what came of each part. A part that is too slow, or in which there is something that
    /// the database does not do, is cut in halves; what is to become of a single row of that kind is for `alone` to say.
    ///
    /// # Errors
    /// The first failure that neither trying again nor cutting mends, and what `alone` gives.
    pub(super) async fn in_parts<R, T>(
        &self,
        rows: &[R],
        work: impl AsyncFn(&Client, &[R]) -> Result<T, DatabaseError>,
        mut done: impl FnMut(&[R], T),
        mut alone: impl AsyncFnMut(&R, DatabaseError) -> Result<(), RebuildError>,
    ) -> Result<(), RebuildError> {
        let mut parts = vec![rows];
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            // Each try of what is too slow costs a whole time limit, and half of it may well be done within that.
            let most_timeouts = if part.len() > 1 { 1 } else { MOST_TIMEOUTS };
            let worked = self.attempt(most_timeouts, async |client| work(client, part).await);
            match (part, worked.await) {
                (part, Ok(value)) => done(part, value),
                ([row], Err(SessionError::Database(error))) if is_of_rows(&error) => {
                    alone(row, error).await?
                }
                (part, Err(SessionError::Database(error))) if is_of_rows(&error) => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                (_, Err(error)) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn attempt<T>(
        &self,
        most_timeouts: u32,
        work: impl AsyncFn(&Client) -> Result<T, DatabaseError>,
    ) -> Result<T, SessionError> {
        let (mut tries, mut timeouts) = (0, 0);
        loop {
            let error = match self.once(&work).await {
                Ok(value) => return Ok(value),
                Err(SessionError::Database(error)) => error,
                Err(error @ SessionError::Pooler) => return Err(error),
            };
            let passing = matches!(error.trouble(), Trouble::Contention | Trouble::Timeout);
            tries += 1;
            timeouts += u32::from(error.was_too_slow());
            if !passing || tries == MOST_TRIES || timeouts == most_timeouts {
                return Err(error.into());
            }
            let pause = Duration::from_millis(50).mul_f64(rand::random::<f64>() * f64::from(tries));
            tokio::time::sleep(pause).await;
        }
    }

    async fn once<T>(
        &self,
        work: &impl AsyncFn(&Client) -> Result<T, DatabaseError>,
    ) -> Result<T, SessionError> {
        let client = self.session.client();
        let begun = client.batch_execute(&self.begin()).await;
        begun.map_err(DatabaseError::of("beginning a transaction"))?;
        // A pooler would give this transaction a session that does not hold our lock, or its holder's.
        let worked = match self.session.is_the_same().await {
            Ok(()) => work(client).await.map_err(SessionError::from),
            Err(error) => Err(error),
        };
        match worked {
            Ok(value) => {
                let committed = client.batch_execute("commit").await;
                committed.map_err(DatabaseError::of("committing"))?;
                Ok(value)
            }
            Err(error) => {
                // The first error tells more than this one.
                let _ = client.batch_execute("rollback").await;
                Err(error)
            }
        }
    }

    /// Live projectors wait for our rows no longer than this, and we for theirs. A commit that would not survive a crash is not
    /// counted upon. A server that became read-only is left so.
    fn begin(&self) -> String {
        format!(
            "begin isolation level read committed;
             set local statement_timeout = {}; set local lock_timeout = {}; set local plan_cache_mode = force_generic_plan;
             select set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') = 'off'",
            self.statement.as_millis(),
            (self.statement / 4).as_millis(),
        )
    }
}

/// Whether it is about what was to be written, so that less of it may go where all of it does not.
fn is_of_rows(error: &DatabaseError) -> bool {
    error.trouble() == Trouble::Data || error.was_too_slow() || error.is_of_a_reference()
}
