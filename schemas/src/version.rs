//! Which schema versions this build can run on.

use thiserror::Error;

/// The newest migration, `sql/V<CURRENT>__….sql`.
pub const CURRENT: i32 = 2;

/// Versions the programs run on: during a rolling deployment, the old one and the new one. The reconciler needs
/// [`RECONCILER`].
pub const SUPPORTED: &[i32] = &[1, 2];

/// The oldest version on which the reconciler runs.
pub const RECONCILER: i32 = 2;

/// Reads the newest applied version: one row, one `integer`, null when nothing was applied.
///
/// On a database that was never migrated the table is missing, SQLSTATE `42P01` (undefined table): that is
/// the same as null, and a caller passes `None` to [`check`] for both.
pub const QUERY: &str = "select max(version) from refinery_schema_history";

/// The database is at a version that this build cannot run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SchemaMismatch {
    /// No migration was ever applied here.
    #[error("the database has no answerlog schema: run `projector migrate`")]
    NotMigrated,
    /// The database waits for a migration that this build needs.
    #[error("the database schema is at version {found}, this build needs {needed}: run `projector migrate`")]
    TooOld {
        /// The version of the database.
        found: i32,
        /// The oldest version this build runs on.
        needed: i32,
    },
    /// A newer build has migrated the database.
    #[error(
        "the database schema is at version {found}, this build knows versions up to {newest}: use a newer build"
    )]
    TooNew {
        /// The version of the database.
        found: i32,
        /// The newest version this build runs on.
        newest: i32,
    },
}

/// Whether this build runs on a database at version `found` (what [`QUERY`] gave).
pub fn check(found: Option<i32>) -> Result<(), SchemaMismatch> {
    check_from(SUPPORTED[0], found)
}

/// As [`check`], for a part that needs version `oldest`, one of [`SUPPORTED`], at least.
pub fn check_from(oldest: i32, found: Option<i32>) -> Result<(), SchemaMismatch> {
    match found {
        None => Err(SchemaMismatch::NotMigrated),
        Some(found) if found < oldest => Err(SchemaMismatch::TooOld {
            found,
            needed: oldest,
        }),
        Some(found) if SUPPORTED.contains(&found) => Ok(()),
        Some(found) => Err(SchemaMismatch::TooNew {
            found,
            newest: CURRENT,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_migration_is_supported_and_versions_ascend() {
        assert_eq!(SUPPORTED.last(), Some(&CURRENT));
        assert!(SUPPORTED.is_sorted());
    }

    #[test]
    fn a_mismatch_says_what_to_do() {
        assert_eq!(check(Some(CURRENT)), Ok(()));
        assert_eq!(check(None), Err(SchemaMismatch::NotMigrated));
        let old = check(Some(0)).unwrap_err();
        assert_eq!(
            old.to_string(),
            "the database schema is at version 0, this build needs 1: run `projector migrate`"
        );
        assert_eq!(check_from(RECONCILER, Some(RECONCILER)), Ok(()));
        let old = check_from(RECONCILER, Some(RECONCILER - 1)).unwrap_err();
        assert!(old.to_string().contains("this build needs 2"), "{old}");
        let new = check(Some(CURRENT + 1)).unwrap_err();
        assert!(new.to_string().ends_with("use a newer build"), "{new}");
    }
}
