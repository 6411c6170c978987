//! Whether a database can hold our rows at all.

use schemas::version::{self, SchemaMismatch};
use thiserror::Error;
use tokio_postgres::Client;
use tokio_postgres::types::FromSqlOwned;

use crate::DatabaseError;

/// Why a database cannot be used as it is.
#[derive(Debug, Error)]
pub enum Unfit {
    /// The schema is of another version.
    #[error(transparent)]
    Schema(#[from] SchemaMismatch),
    /// Text would be lost in it.
    #[error("its encoding is {0}; it must be UTF8")]
    Encoding(String),
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

const VERSION_TABLE: &str = "select to_regclass('refinery_schema_history') is not null";
const ENCODING: &str = "select current_setting('server_encoding')";

/// Looks at the version of the schema and at the encoding, inside a transaction of the caller's.
///
/// # Errors
/// See [`FitError`].
pub async fn check(client: &Client) -> Result<(), FitError> {
    check_from(version::SUPPORTED[0], client).await
}

/// As [`check`], for a program that needs version `oldest` of the schema at least.
///
/// # Errors
/// See [`FitError`].
pub async fn check_from(oldest: i32, client: &Client) -> Result<(), FitError> {
    let migrated: bool = one(client, VERSION_TABLE).await?;
    let found = if migrated {
        one(client, version::QUERY).await?
    } else {
        None
    };
    version::check_from(oldest, found).map_err(Unfit::from)?;
    let encoding: String = one(client, ENCODING).await?;
    if encoding != "UTF8" {
        return Err(Unfit::Encoding(encoding).into());
    }
    Ok(())
}

async fn one<T: FromSqlOwned>(client: &Client, query: &str) -> Result<T, DatabaseError> {
    let attempt = "checking the schema";
    let row = client
        .query_typed_one(query, &[])
        .await
        .map_err(DatabaseError::of(attempt))?;
    row.try_get(0).map_err(DatabaseError::of(attempt))
}
