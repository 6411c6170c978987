//! Making the rows anew under other rules.
//!
//! Projectors that were started with the old rules must not write beside a rebuild with new ones. They ask for the rules
//! behind each batch, in its transaction. So first the new rules are put down as those that are being changed to, and
//! then every transaction is waited for that wrote before that could be seen. From then on no projector
//! writes, of either kind, until the rebuild has come to its end; results wait on the stream meanwhile.

use std::time::Duration;

use database::{DatabaseError, Session};
use schemas::job_key::Rules;
use tracing::info;

use super::RebuildError;
use super::transact::Transactions;
use crate::remembered::{Remembered, change_rules};
use crate::statements::query_one;

/// Who writes to the tables now, and since when. Readers hold other locks.
const WRITERS: &str = "
select coalesce(array_agg(distinct l.virtualtransaction), '{}') from pg_locks l
 where l.locktype = 'relation' and l.database = (select oid from pg_database where datname = current_database())
   and l.relation in (to_regclass('answers'), to_regclass('winners'), to_regclass('parked'))
   and l.mode = 'RowExclusiveLock' and l.granted";

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Puts `rules` in force when there are others, or when an earlier change did not come to its end. Gives whether rows may be
/// of other rules now.
pub(super) async fn enforce(
    to: Transactions<'_>,
    stream: &str,
    row: Option<&Remembered>,
    rules: Rules,
) -> Result<bool, RebuildError> {
    let Some(row) = row.filter(|row| row.rules != rules || row.changing) else {
        return Ok(false);
    };
    info!(
        from = ?row.rules,
        to = ?rules,
        "the rows are made anew under other rules; projectors wait until that is done"
    );
    to.run(async |client| change_rules(client, stream, rules).await)
        .await?;
    let mut writers = writers_now(to.session).await?;
    while !writers.is_empty() {
        tokio::time::sleep(PAUSE).await;
        let now = writers_now(to.session).await?;
        writers.retain(|writer| now.contains(writer));
    }
    Ok(true)
}

async fn writers_now(session: &Session) -> Result<Vec<String>, DatabaseError> {
    query_one(session.client(), "looking who writes to the tables", WRITERS, &[]).await
}
