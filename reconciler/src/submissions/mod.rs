//! The rows of `submitted_tasks`, and every statement about them.
//!
//! All times are the database's: `now()` decides what is due, overdue or lost, so reconcilers whose clocks are apart agree.
//! Statements that change several rows pass over those that somebody else has in hand, so reconcilers never wait for
//! each other.

mod claim;
mod count;
mod fill;
mod note;
mod pause;
mod record;
mod settle;

use std::time::Duration;

use database::{Database, DatabaseError};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

pub use claim::{Claim, Claimed, Due};
pub use count::{Counts, List, Listed, Report, UNUSABLE, Unsubmitted};
pub use fill::{Filled, Page};
pub use note::{Note, Noted};
pub use record::Recorded;
pub use settle::{Aged, Ages, Settled};

/// The submissions in one database, as one provider's.
#[derive(Debug, Clone)]
pub struct Submissions {
    database: Database,
    /// Base URL of the provider: whose pauses are kept.
    provider: String,
}

impl Submissions {
    /// Those in `database`, of tasks of the provider at the base URL `provider`.
    pub fn new(database: Database, provider: &str) -> Self {
        Self {
            database,
            provider: provider.to_owned(),
        }
    }

    /// Whether the schema has what is needed here.
    ///
    /// # Errors
    /// See [`database::FitError`].
    pub async fn check(&self) -> Result<(), database::FitError> {
        self.database
            .transaction(async |client, _| database::check_from(schemas::version::RECONCILER, client).await)
            .await
    }

    /// One statement in a transaction of its own.
    async fn query(
        &self,
        attempt: &'static str,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, DatabaseError> {
        self.database
            .transaction(async |client, _| query(client, attempt, statement, parameters).await)
            .await
    }
}

async fn query(
    client: &Client,
    attempt: &'static str,
    statement: &str,
    parameters: &[(&(dyn ToSql + Sync), Type)],
) -> Result<Vec<Row>, DatabaseError> {
    client
        .query_typed(statement, parameters)
        .await
        .map_err(DatabaseError::of(attempt))
}

/// A time as a statement takes it, for `make_interval(secs => …)`.
fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// A count of rows. Never negative.
fn count(row: &Row, column: usize, attempt: &'static str) -> Result<u64, DatabaseError> {
    let count: i64 = row.try_get(column).map_err(DatabaseError::of(attempt))?;
    Ok(u64::try_from(count).unwrap_or_default())
}

/// A sequence of the stream as a column holds it.
fn seq(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}
