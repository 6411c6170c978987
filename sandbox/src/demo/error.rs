//! Why the demo could not be carried through.

use std::process::ExitStatus;
use std::time::Duration;

use thiserror::Error;

use crate::servers::ServerError;

/// Why the demo could not be carried through.
#[derive(Debug, Error)]
pub enum DemoError {
    /// A server or a program could not be started.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A command that prepares something did not succeed.
    #[error("`{command}` failed ({status}): {said}")]
    Command {
        /// The command.
        command: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// What it printed.
        said: String,
    },
    /// Something that should run has ended.
    #[error("{name} ended ({status}); the end of its log:\n{log}")]
    Ended {
        /// The program or server.
        name: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The last lines that it printed.
        log: String,
    },
    /// The broker refused.
    #[error("{attempt}")]
    Broker {
        /// What was being attempted.
        attempt: &'static str,
        /// The refusal.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The database refused.
    #[error("{attempt}")]
    Database {
        /// What was being attempted.
        attempt: &'static str,
        /// The refusal.
        source: tokio_postgres::Error,
    },
    /// The broker gave fewer messages than the stream has.
    #[error("reading the stream ended {left} messages before its end")]
    ShortStream {
        /// How many are missing.
        left: u64,
    },
    /// The deadline has passed.
    #[error("not done within {deadline:?}; the demo was {stage}")]
    Late {
        /// The deadline.
        deadline: Duration,
        /// What it was doing.
        stage: &'static str,
    },
    /// Somebody wants it to end.
    #[error("interrupted")]
    Interrupted,
}

impl DemoError {
    pub(super) fn broker<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        attempt: &'static str,
    ) -> impl Fn(E) -> Self {
        move |error| Self::Broker {
            attempt,
            source: error.into(),
        }
    }

    pub(super) fn database(attempt: &'static str) -> impl Fn(tokio_postgres::Error) -> Self {
        move |source| Self::Database { attempt, source }
    }
}
