//! What a failure of the database means. The one place that knows SQLSTATE codes.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use deadpool_postgres::PoolError;
use thiserror::Error;
use tokio_postgres::error::SqlState;

/// A transaction that did not happen, or of which that is not known.
#[derive(Debug, Error)]
pub enum DatabaseError {
    /// No connection could be had.
    #[error("connecting to the database")]
    Connect(#[source] PoolError),
    /// A statement failed, or the connection under it.
    #[error("{attempt}")]
    Statement {
        /// What was being attempted.
        attempt: &'static str,
        /// What the server or the connection says.
        source: Said,
    },
    /// The transaction took longer than it may; the connection was given up.
    #[error("no answer from the database within {} ms", .0.as_millis())]
    Deadline(Duration),
    /// Nothing can be written at the moment: a standby, or a server whose settings make it read-only.
    #[error("the database is read-only")]
    ReadOnly,
    /// The database answered something that it cannot answer.
    #[error("{0}")]
    Unexpected(&'static str),
}

/// What the server or the connection says, in one line. The server's details are left out: they quote the row that it
/// refuses, and what the provider sent stays out of logs.
#[derive(Debug)]
pub struct Said(tokio_postgres::Error);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_db_error() {
            Some(said) => write!(
                f,
                "{}: {} ({})",
                said.severity(),
                said.message(),
                said.code().code()
            ),
            None => self.0.fmt(f),
        }
    }
}

impl Error for Said {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self.0.as_db_error() {
            Some(_) => None,
            None => self.0.source(),
        }
    }
}

/// What to do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Some value cannot be stored, now or later. Only this can set a message aside.
    Data,
    /// Another transaction was in the way. Trying again at once helps.
    Contention,
    /// It took too long. Too much work at once, a lock that somebody holds, or a server that is gone.
    Timeout,
    /// Everything else: the database is away, or not as it should be. Nothing is wrong with any message.
    Outage,
}

impl DatabaseError {
    /// For `map_err`: a statement that failed while `attempt`.
    pub fn of(attempt: &'static str) -> impl FnOnce(tokio_postgres::Error) -> Self {
        move |error| Self::Statement {
            attempt,
            source: Said(error),
        }
    }

    /// For `map_err`: no connection.
    pub fn connecting(source: PoolError) -> Self {
        Self::Connect(source)
    }

    /// The SQLSTATE, when the server gave one.
    pub fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Statement { source, .. } => source.0.code(),
            Self::Connect(PoolError::Backend(source)) => source.code(),
            _ => None,
        }
    }

    /// The server's own words for an operator, where there are any.
    pub fn server_message(&self) -> Option<&str> {
        match self {
            Self::Statement { source, .. } => source.0.as_db_error().map(|error| error.message()),
            _ => None,
        }
    }

    /// Whether a statement ran into its time limit. Waiting for a lock has another one.
    pub fn was_too_slow(&self) -> bool {
        self.code() == Some(&SqlState::QUERY_CANCELED)
    }

    /// Whether a key is there already.
    pub fn is_of_a_key(&self) -> bool {
        self.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    /// Whether another table holds on to a row.
    pub fn is_of_a_reference(&self) -> bool {
        // The second one for a key with `on delete restrict`, in newer servers.
        [
            Some(&SqlState::FOREIGN_KEY_VIOLATION),
            Some(&SqlState::RESTRICT_VIOLATION),
        ]
        .contains(&self.code())
    }

    /// What to do about it.
    pub fn trouble(&self) -> Trouble {
        match self {
            Self::Statement { source, .. } => source.0.code().map_or(Trouble::Outage, of_code),
            Self::Deadline(_) => Trouble::Timeout,
            Self::Connect(_) | Self::ReadOnly | Self::Unexpected(_) => Trouble::Outage,
        }
    }
}

/// The values that Postgres refuses are few and known. Constraints and missing tables are not among them: whoever put
/// a constraint there can take it away again, and no result may be set aside meanwhile.
fn of_code(code: &SqlState) -> Trouble {
    const DATA: [SqlState; 8] = [
        SqlState::UNTRANSLATABLE_CHARACTER,
        SqlState::INVALID_TEXT_REPRESENTATION,
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        SqlState::STATEMENT_TOO_COMPLEX,
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        SqlState::INVALID_DATETIME_FORMAT,
        SqlState::DATETIME_FIELD_OVERFLOW,
    ];
    const CONTENTION: [SqlState; 2] = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
    ];
    const TIMEOUT: [SqlState; 2] = [SqlState::QUERY_CANCELED, SqlState::LOCK_NOT_AVAILABLE];
    if DATA.contains(code) {
        Trouble::Data
    } else if CONTENTION.contains(code) {
        Trouble::Contention
    } else if TIMEOUT.contains(code) {
        Trouble::Timeout
    } else {
        Trouble::Outage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_listed_codes_are_about_data() {
        let all = [
            "22P05", "22P02", "22003", "22021", "54001", "54000", "22007", "22008",
        ];
        for code in all {
            assert_eq!(of_code(&SqlState::from_code(code)), Trouble::Data, "{code}");
        }
        for code in [
            "23505", "23514", "23502", "42P01", "42703", "53100", "25006", "57P01", "22012", "XX000", "54023",
        ] {
            assert_eq!(of_code(&SqlState::from_code(code)), Trouble::Outage, "{code}");
        }
        for code in ["40P01", "40001"] {
            assert_eq!(of_code(&SqlState::from_code(code)), Trouble::Contention, "{code}");
        }
        for code in ["57014", "55P03"] {
            assert_eq!(of_code(&SqlState::from_code(code)), Trouble::Timeout, "{code}");
        }
    }
}
