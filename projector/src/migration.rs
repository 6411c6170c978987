//! The command `migrate`.

use database::{Connector, Target};
use schemas::migrate::{Applied, MigrateError, migrate};
use thiserror::Error;
use tracing::info;

/// Why the database was not migrated.
#[derive(Debug, Error)]
pub enum MigrationError {
    /// It cannot be reached.
    #[error("connecting to the database")]
    Connect(#[source] postgres::Error),
    /// It was reached.
    #[error(transparent)]
    Migrate(#[from] MigrateError),
}

/// Brings the database to the schema that this build needs.
///
/// # Errors
/// When the database cannot be reached or changed. Nothing is changed then.
pub async fn run(target: Target) -> Result<(), MigrationError> {
    // The blocking client panics on a thread that serves async tasks.
    let applied = match tokio::task::spawn_blocking(move || blocking(&target)).await {
        Ok(applied) => applied?,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    };
    match applied.versions.as_slice() {
        [] => info!("the schema is up to date"),
        versions => info!(?versions, "migrated the schema"),
    }
    Ok(())
}

fn blocking(target: &Target) -> Result<Applied, MigrationError> {
    let mut config = postgres::Config::from(target.config.clone());
    config.connect_timeout(target.connect_timeout);
    let connected = match &target.connector {
        Connector::Plain => config.connect(postgres::NoTls),
        Connector::Tls(tls) => config.connect(tls.clone()),
    };
    Ok(migrate(&mut connected.map_err(MigrationError::Connect)?)?)
}
