//! The command `parked`: what could not become a row, and another try.

mod list;
mod report;
mod retry;
pub mod rows;
mod show;

use std::io;
use std::process::ExitCode;

use database::DatabaseError;
use stream::consume::ApiError;
use thiserror::Error;

use crate::config::ParkedConfig;
use crate::reach::ReachError;

/// Why a command about parked events failed.
#[derive(Debug, Error)]
pub enum ParkedError {
    /// Stream or rows cannot be reached.
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// The database does not do what it should.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The broker does not do what it should.
    #[error(transparent)]
    Broker(#[from] ApiError),
    /// A rebuild puts other rules in force.
    #[error(
        "a rebuild makes the rows anew under other rules: run `projector rebuild` to its end, then run this again"
    )]
    Rules,
    /// Standard output cannot be written to.
    #[error("printing")]
    Print(#[from] io::Error),
}

/// Does what was asked; the exit code is 1 when an event that was named is not parked, or some stay parked after a retry.
///
/// # Errors
/// When it cannot be done.
pub async fn run(config: ParkedConfig) -> Result<ExitCode, ParkedError> {
    match config {
        ParkedConfig::List {
            which,
            limit,
            json,
            rows,
        } => list::run(&which, limit, json, &rows).await,
        ParkedConfig::Show { seq, form, rows } => show::run(seq, form, &rows).await,
        ParkedConfig::Retry { which, json, reach } => retry::run(&which, json, &reach).await,
    }
}
