//! The lock of the commands that go through the whole stream and then write: one of them at a time for a set of tables. What one
//! has in hand the other would undo.

use std::time::Duration;

use database::{DatabaseError, Session};

/// Arbitrary, and must never change.
const LOCK: i32 = 0x7265_6275;
const PAUSE: Duration = Duration::from_millis(100);

/// Takes the lock for as long as the session lives; false when another one still has it after `patience`.
///
/// # Errors
/// When the database fails.
pub(crate) async fn lock(session: &Session, patience: Duration) -> Result<bool, DatabaseError> {
    let given_up = tokio::time::Instant::now() + patience;
    while !session.try_lock(LOCK).await? {
        if tokio::time::Instant::now() >= given_up {
            return Ok(false);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(true)
}
