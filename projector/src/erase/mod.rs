//! The command `erase`: forgets a task for good.
//!
//! The stream first, so that nothing can bring the rows back: a rebuild has nothing to make them of, and projectors that may have
//! an event of the task in hand are waited for before (`hands`); a verify or rebuild, which has many, keeps it off by a lock. Then the rows, in one transaction, with the jobs that the
//! task won given to the best of their other tasks. That was tried before, and undone: rows that cannot go must show while the stream
//! still has the events. Run again, it goes on where it was killed.

mod erasure;
mod hands;
mod look;
mod report;

use std::io;
use std::process::ExitCode;

use database::{DatabaseError, Session, SessionError};
use schemas::delivery::TaskId;
use schemas::event::MsgId;
use schemas::timestamp::cut_to_microseconds;
use stream::consume::ApiError;
use stream::read::ScanError;
use thiserror::Error;

use crate::config::EraseConfig;
use crate::lock::lock;
use crate::print::print;
use crate::reach::{self, Log, ReachError};
use crate::removals::{Events, traces};
use erasure::Erasure;
use look::{Seen, look};
use report::{Outcome, Report};

/// Why a task was not erased, or not all of it.
#[derive(Debug, Error)]
pub enum EraseError {
    /// Stream or rows cannot be reached.
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// The stream cannot be looked through.
    #[error("looking through the stream")]
    Scan(#[from] ScanError),
    /// The broker does not let an event be erased. No row was touched.
    #[error(
        "erasing event {seq}; does this user of the broker have the right to? With deploy/nats.conf only `eraser` has"
    )]
    Event {
        /// Its sequence.
        seq: u64,
        /// What the broker says.
        source: ApiError,
    },
    /// The stream cannot be asked what came meanwhile.
    #[error("looking at what came meanwhile")]
    State(#[source] ApiError),
    /// The projectors cannot be asked how far they are.
    #[error("asking for the consumer of the projectors")]
    Consumer(#[source] ApiError),
    /// There is no session to hold the lock in.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A rebuild puts other rules in force.
    #[error(
        "a rebuild makes the rows anew under other rules: run `projector rebuild` to its end, then run this again"
    )]
    Rules,
    /// The tables cannot be changed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Standard output cannot be written to.
    #[error("printing")]
    Print(#[from] io::Error),
}

/// Erases the task and says what that was. The exit code is 1 when there is nothing of it, when a projector, a
/// verify or a rebuild may have an event of it in hand so that nothing was touched yet, and when one may have got one in hand meanwhile.
///
/// # Errors
/// When it cannot be erased. What was erased by then stays so; the next run does the rest.
pub async fn run(config: EraseConfig) -> Result<ExitCode, EraseError> {
    let database = reach::database(&config.reach.rows).await?;
    let log = reach::stream(&config.reach).await?;
    let stream = &config.reach.stream.name;
    let task = &config.task_id;
    // Held until the session ends, with this function.
    let session = match config.dry_run {
        true => None,
        false => Some(Session::open(&config.reach.rows.database, "projector").await?),
    };
    if let Some(session) = &session
        && !lock(session, config.wait).await?
    {
        let nothing = Seen::default();
        let known = events(&log, task, &nothing);
        let rows = database.snapshot(async |client| traces(client, task, &known).await);
        let report = Report::new(task, Outcome::Waiting, &nothing, rows.await?);
        print(report.text(config.json).as_bytes())?;
        return Ok(ExitCode::FAILURE);
    }
    let rules = database
        .snapshot(async |client| crate::explain::rules(client, stream).await)
        .await?;
    let nowhere = events(&log, task, &Seen::default());
    let before = database
        .snapshot(async |client| traces(client, task, &nowhere).await)
        .await?;
    let mut seen = look(&log, rules, task, &before.wins, config.mentions).await?;
    let events = events(&log, task, &seen);
    let found = database
        .snapshot(async |client| traces(client, task, &events).await)
        .await?;
    let outcome = if seen.events.is_empty() && found.is_empty() {
        Outcome::Unknown
    } else if config.dry_run {
        Outcome::Planned
    } else {
        let erasure = Erasure {
            config: &config,
            log: &log,
            database: &database,
            rules,
        };
        erasure.run(&mut seen, &before.wins).await?
    };
    let report = Report::new(task, outcome, &seen, found);
    print(report.text(config.json).as_bytes())?;
    Ok(match outcome {
        Outcome::Planned | Outcome::Erased => ExitCode::SUCCESS,
        Outcome::Unknown | Outcome::Waiting | Outcome::Unsettled => ExitCode::FAILURE,
    })
}

fn events(log: &Log, task: &TaskId, seen: &Seen) -> Events {
    let own = MsgId::of_task(task).as_str().to_owned();
    let found = seen.events.iter().filter_map(|event| event.msg_id.clone());
    Events {
        stream_created: cut_to_microseconds(log.state.created),
        seqs: seen
            .events
            .iter()
            .filter_map(|event| i64::try_from(event.seq).ok())
            .collect(),
        msg_ids: std::iter::once(own).chain(found).collect(),
    }
}
