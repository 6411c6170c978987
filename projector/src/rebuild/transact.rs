//! Short transactions on the session of a rebuild, each tried again when another one was in its way.

use std::time::Duration;

use database::{DatabaseError, Session, SessionError, Trouble};
use tokio_postgres::Client;

/// So often a transaction is tried again that met another one, or somebody's lock.
const MOST_TRIES: u32 = 8;

/// Live projectors wait for our rows no longer than this, and we for theirs. A commit that would not survive a crash is not
/// counted upon.
const BEGIN: &str = "
begin isolation level read committed read write;
set local statement_timeout = '20s'; set local lock_timeout = '5s'; set local plan_cache_mode = force_generic_plan;
select set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') = 'off'";

/// Runs `work` in a transaction of its own, as often as it takes.
///
/// # Errors
/// The first failure that trying again does not mend.
pub(super) async fn transact<T>(
    session: &Session,
    work: impl AsyncFn(&Client) -> Result<T, DatabaseError>,
) -> Result<T, SessionError> {
    let mut tries = 0;
    loop {
        let error = match once(session, &work).await {
            Ok(value) => return Ok(value),
            Err(SessionError::Database(error)) => error,
            Err(error @ SessionError::Pooler) => return Err(error),
        };
        let passing = matches!(error.trouble(), Trouble::Contention | Trouble::Timeout);
        tries += 1;
        if !passing || tries == MOST_TRIES {
            return Err(error.into());
        }
        let pause = Duration::from_millis(50).mul_f64(rand::random::<f64>() * f64::from(tries));
        tokio::time::sleep(pause).await;
    }
}

async fn once<T>(
    session: &Session,
    work: &impl AsyncFn(&Client) -> Result<T, DatabaseError>,
) -> Result<T, SessionError> {
    let client = session.client();
    let begun = client.batch_execute(BEGIN).await;
    begun.map_err(DatabaseError::of("beginning a transaction"))?;
    // A pooler would give this transaction a session that does not hold our lock.
    let worked = match session.is_the_same().await {
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
