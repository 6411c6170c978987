//! `projector verify` and `projector rebuild`: are the tables what the stream says, and making them so.
//!
//! The tables are maxima over the events of the stream. So nothing is swapped: the stream is replayed to the end that it had at
//! the start (`replay`) and brought together with the rows of one moment (`pair`); what does not agree is put beside the tables
//! (`side`) and judged (`compare`), and what differs is put right, row by row, while the projectors go on (`repair`). Empty tables are simply
//! filled (`load`); those with few rows are filled as well, and compared after that.
//!
//! Nobody is kept waiting: the side tables are seen by this session alone, the comparison reads, and a repair holds row
//! locks for one short transaction. Killed at any moment, it leaves nothing behind but the repairs that were committed, each
//! of which was right.

mod beside;
mod compare;
mod found;
mod ground;
mod in_order;
mod intake;
mod load;
mod origin;
mod pair;
mod rekey;
mod repair;
mod replay;
mod report;
mod responses;
mod rules;
mod shape;
mod side;
mod sql;
mod transact;
mod work;

use database::{DatabaseError, SessionError};
use stream::consume::ApiError;
use stream::read::ScanError;
use thiserror::Error;

use crate::fit::Unfit;
use crate::reach::ReachError;

pub use origin::Stranger;
pub use report::{Counts, Example, Finding, Gone, Range, Replayed, Report, TableReport};
pub use work::{rebuild, verify};

/// Why a command did not come to an answer.
#[derive(Debug, Error)]
pub enum RebuildError {
    /// Stream or database cannot be used.
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// There is no session for it.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Another one runs.
    #[error("another verify or rebuild of these tables, or an erasure, is running")]
    Busy,
    /// The rows were made under other rules.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// A rebuild to other rules did not come to its end.
    #[error("the rows are being made anew under other rules: that takes `projector rebuild` to its end")]
    Changing,
    /// The stream is not the one that the rows came from.
    #[error("{0}; --force goes on all the same")]
    Stranger(Stranger),
    /// The stream cannot be read to its end.
    #[error("replaying the stream")]
    Replay(#[from] ScanError),
    /// What was read is not all that the stream holds.
    #[error(
        "of the sequences up to {end}, {seen} were seen to hold a message, and the stream holds more: a replica that lags was read; \
         run it again"
    )]
    Incomplete {
        /// The end of the replay.
        end: u64,
        /// Messages seen.
        seen: u64,
    },
    /// The broker does not do what it should.
    #[error(transparent)]
    Broker(#[from] ApiError),
    /// The database does not do what it should.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The result cannot be printed.
    #[error("printing the result")]
    Print(#[from] std::io::Error),
}
