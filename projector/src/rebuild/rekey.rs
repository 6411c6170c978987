//! The job keys of the rows that are there, made anew under other rules.
//!
//! A row holds what its job key is made of. So each of them is given its new one from the row itself, whether or not the stream still
//! holds its event, and the winners of the jobs that it leaves and comes to are chosen anew among the rows: a fold over the events of a job
//! and one over the rows of its tasks give the same winner, as long as all events of a task have the same key. A task that had won a
//! further job, by a lesser event with another key, is not known by any row to have done so; that winner is left to the comparison, which
//! puts it right while the stream holds the event. This is done behind the fence of `rules`, so nobody else writes, and before
//! anything is compared.

use database::DatabaseError;
use schemas::job_key::{Rules, of_key};
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use tracing::warn;

use super::RebuildError;
use super::transact::Transactions;
use crate::statements::set::{Left, Moved, rekey};
use crate::statements::{Parameter, query};

/// Most rows that are looked at, or changed, at a time.
const MOST_ROWS: i64 = 5_000;

const PAGE: &str = "
select task_id, job_key, idempotency_key from answers where task_id > $1 order by task_id limit $2";

const ATTEMPT: &str = "reading job keys";

/// Gives every row of `answers` its job key under `rules`, and each job its winner. Gives how many rows had another one.
pub(super) async fn rekey_all(to: Transactions<'_>, rules: Rules) -> Result<u64, RebuildError> {
    let (mut after, mut changed) = (String::new(), 0);
    loop {
        let page = page(to.session.client(), &after).await?;
        let Some(last) = page.last() else {
            return Ok(changed);
        };
        after.clone_from(&last.task_id);
        let moved: Vec<Moved> = page.into_iter().filter_map(|row| row.under(rules)).collect();
        let mut held = Vec::new();
        to.in_parts(
            &moved,
            async |client, part| rekey(client, part, Left::Goes).await,
            |_, rows| changed += rows,
            async |row, error| {
                if !error.is_of_a_reference() {
                    return Err(error.into());
                }
                warn!(
                    table = "winners",
                    key = row.from,
                    "the winner of a job without tasks stays: another table refers to it"
                );
                held.push(row.clone());
                Ok(())
            },
        )
        .await?;
        for row in held {
            let row = [row];
            changed += to
                .run(async |client| rekey(client, &row, Left::Stays).await)
                .await?;
        }
    }
}

struct Keys {
    task_id: String,
    job_key: String,
    idempotency_key: Option<String>,
}

impl Keys {
    /// None when its job is the same.
    fn under(self, rules: Rules) -> Option<Moved> {
        let to = match &self.idempotency_key {
            Some(key) => of_key(rules, key).to_owned(),
            None => self.task_id.clone(),
        };
        (to != self.job_key).then_some(Moved {
            task_id: self.task_id,
            from: self.job_key,
            to,
        })
    }
}

async fn page(client: &Client, after: &str) -> Result<Vec<Keys>, DatabaseError> {
    let values: [Parameter<'_>; 2] = [(&after, Type::TEXT), (&MOST_ROWS, Type::INT8)];
    let rows = query(client, ATTEMPT, PAGE, &values).await?;
    let read = |row: &tokio_postgres::Row| -> Result<Keys, tokio_postgres::Error> {
        Ok(Keys {
            task_id: row.try_get(0)?,
            job_key: row.try_get(1)?,
            idempotency_key: row.try_get(2)?,
        })
    };
    rows.iter()
        .map(read)
        .collect::<Result<_, _>>()
        .map_err(DatabaseError::of(ATTEMPT))
}
