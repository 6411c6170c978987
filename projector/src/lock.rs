//! The lock of the commands that go through the whole stream and then write: one of them at a time for a set of tables. What one
//! has in hand the other would undo.

use std::time::Duration;

use database::{DatabaseError, Session, SessionError};

/// Arbitrary, and must never change.
const LOCK: i32 = 0x7265_6275;
/// Of a further session that writes for the one that holds the lock. It may outlive that one, with a transaction in hand.
const SECOND: i32 = LOCK + 1;
const PAUSE: Duration = Duration::from_millis(100);

/// Takes the lock for as long as the session lives; false when another one still has it after `patience`.
///
/// # Errors
/// When the database fails.
pub(crate) async fn lock(session: &Session, patience: Duration) -> Result<bool, DatabaseError> {
    let given_up = tokio::time::Instant::now() + patience;
    while !(session.try_lock(LOCK).await? && session.is_free(SECOND).await?) {
        if tokio::time::Instant::now() >= given_up {
            return Ok(false);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(true)
}

/// Keeps others from the lock for as long as `second` lives too, which writes for its holder; false when that cannot be.
///
/// # Errors
/// When the database fails, or `holder` is not the session any more that took the lock.
pub(crate) async fn lock_second(holder: &Session, second: &Session) -> Result<bool, SessionError> {
    let locked = second.try_lock(SECOND).await?;
    // Whoever takes the lock behind this one looks for ours.
    holder.is_the_same().await?;
    Ok(locked)
}
