//! Why a server could not be started.

use std::{io, path::PathBuf};

/// Why a private server is not there.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// No usable program was found in any of the places looked at.
    #[error("{program} {minimum} or later was not found ({looked}); `make servers` finds or installs it")]
    NotFound {
        /// The program, e.g. `nats-server`.
        program: &'static str,
        /// The lowest version that will do.
        minimum: &'static str,
        /// The places looked at and what was there.
        looked: String,
    },
    /// One of our own programs is not where cargo puts it.
    #[error("there is no `{name}` in {}: `make test` and `make demo` build it first", directory.display())]
    NotBuilt {
        /// The program.
        name: &'static str,
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// Something on this machine refused.
    #[error("{attempt}")]
    Io {
        /// What was being attempted.
        attempt: String,
        /// The refusal.
        source: io::Error,
    },
    /// A helper program ended with an error.
    #[error("{program} failed: {output}")]
    Failed {
        /// The program.
        program: PathBuf,
        /// What it printed.
        output: String,
    },
    /// The server was started and did not become ready.
    #[error("{name} did not become ready ({last}); the end of its log:\n{log}")]
    NotReady {
        /// The server.
        name: &'static str,
        /// What the last attempt to use it met, or that it ended.
        last: String,
        /// The last lines of its log.
        log: String,
    },
    /// Postgres refuses to run as root, and there is no other user here to run it as.
    #[error(
        "Postgres refuses to run as root, and this machine has neither a user `postgres` nor a user `nobody`"
    )]
    NoUser,
    /// The new database server could not be prepared.
    #[error("{attempt}")]
    Database {
        /// What was being attempted.
        attempt: String,
        /// The server's refusal.
        source: tokio_postgres::Error,
    },
    /// The schema could not be brought into a new database.
    #[error(transparent)]
    Migrate(#[from] schemas::migrate::MigrateError),
}

impl ServerError {
    /// For `map_err`: an I/O error met while `attempt`.
    pub(crate) fn io(attempt: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            attempt: attempt.into(),
            source,
        }
    }
}
