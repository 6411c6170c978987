//! Applies the SQL migrations, with the blocking Postgres client.
//!
//! The blocking client panics inside a tokio runtime: async callers go through `spawn_blocking` or a thread.

use postgres::Client;
use refinery::{Migration, Runner};
use thiserror::Error;

/// The migrations in order. Published files are never edited; the runner refuses a database on which another
/// text of the same version was applied.
const MIGRATIONS: &[(&str, &str)] = &[
    ("V1__answers", include_str!("../sql/V1__answers.sql")),
    ("V2__reconciler", include_str!("../sql/V2__reconciler.sql")),
];

/// Key of the advisory lock that is held while migrating. Arbitrary, and must never change: an old build and a new
/// one must wait for each other.
pub const LOCK: i64 = 0x616e_7377_6572_6c6f;

/// What a run of [`migrate`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The versions applied by this run, ascending. Empty when the schema was up to date.
    pub versions: Vec<i32>,
}

/// Why migrating failed. Nothing was applied: all versions of a run are one transaction.
#[derive(Debug, Error)]
pub enum MigrateError {
    /// Another run may hold it, but then this one waits; this is the connection or the server failing.
    #[error("taking the migration lock")]
    Lock(#[source] postgres::Error),
    /// Applying, or comparing what was applied before with what this build holds.
    #[error("applying migrations")]
    Apply(#[source] refinery::Error),
    /// The migrations were applied; the lock goes with the connection.
    #[error("releasing the migration lock")]
    Unlock(#[source] postgres::Error),
}

/// Brings the schema to [`crate::version::CURRENT`], in one transaction, under an advisory lock: of two runs
/// at once, one waits for the other and then finds nothing to do.
///
/// The lock belongs to the session, so the connection must not go through a transaction pooler.
pub fn migrate(client: &mut Client) -> Result<Applied, MigrateError> {
    client
        .execute("select pg_advisory_lock($1)", &[&LOCK])
        .map_err(MigrateError::Lock)?;
    let applied = apply(client);
    let unlocked = client.execute("select pg_advisory_unlock($1)", &[&LOCK]);
    let applied = applied.map_err(MigrateError::Apply)?;
    unlocked.map_err(MigrateError::Unlock)?;
    Ok(applied)
}

fn apply(client: &mut Client) -> Result<Applied, refinery::Error> {
    let migrations: Vec<Migration> = MIGRATIONS
        .iter()
        .map(|(name, sql)| Migration::unapplied(name, sql))
        .collect::<Result<_, _>>()?;
    // Grouped: ungrouped, the runner commits a migration and the record of it apart, and a crash between the
    // two leaves a schema that no run can get past.
    let report = Runner::new(&migrations).set_grouped(true).run(client)?;
    let versions = report
        .applied_migrations()
        .iter()
        .map(Migration::version)
        .collect();
    Ok(Applied { versions })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::version::CURRENT;

    #[test]
    fn every_file_is_a_migration_and_their_numbers_have_no_gaps() {
        let sql = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
        let name =
            |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let files: BTreeSet<String> = sql.read_dir().unwrap().map(name).collect();
        let listed = MIGRATIONS.iter().map(|(name, _)| format!("{name}.sql")).collect();
        assert_eq!(files, listed);

        let version = |(name, sql): &(&str, &str)| Migration::unapplied(name, sql).unwrap().version();
        let versions: Vec<i32> = MIGRATIONS.iter().map(version).collect();
        assert_eq!(versions, (1..=CURRENT).collect::<Vec<_>>());
    }
}
