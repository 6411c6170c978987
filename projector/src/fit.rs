//! Whether a database can be projected into at all.

use database::DatabaseError;
use thiserror::Error;

/// Why a database cannot be projected into.
#[derive(Debug, Error)]
pub enum Unfit {
    /// It cannot hold our rows.
    #[error(transparent)]
    Database(#[from] database::Unfit),
    /// Its rows were made under other rules.
    #[error(
        "its rows were made with {found}, and this projector is set to {wanted}: set RERUN_SUFFIX as it was, or rebuild"
    )]
    Rules {
        /// What the rows were made with.
        found: String,
        /// The setting.
        wanted: String,
    },
}

/// Why looking ended without a yes.
#[derive(Debug, Error)]
pub enum FitError {
    /// It cannot be, and waiting does not change that.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// It could not be found out.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl From<database::FitError> for FitError {
    fn from(error: database::FitError) -> Self {
        match error {
            database::FitError::Unfit(unfit) => Self::Unfit(unfit.into()),
            database::FitError::Database(error) => Self::Database(error),
        }
    }
}
