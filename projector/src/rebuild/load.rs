//! Filling empty tables: the first load of a database.
//!
//! There is nothing to compare with, so the rows go straight into place, by COPY. That fails when a key is there already,
//! because a task has two events or a live projector was faster; then the stretch goes in as projecting brings it in. So it does when
//! it is too much for one statement, for that way cuts it in halves.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use database::{DatabaseError, Session, SessionError, Trouble};
use futures_util::{Stream, TryStreamExt};
use stream::read::ScanError;
use tokio::sync::Mutex;
use tokio_postgres::error::SqlState;

use super::RebuildError;
use super::copy::CopyRows;
use super::intake::{Intake, log_new, parked, result};
use super::replay::{Stretch, Tally, replay};
use super::report::Gone;
use super::side::send;
use super::transact::{Transactions, was_too_slow};
use crate::decode::Decoder;
use crate::rows::Folded;
use crate::statements::{self, sequence};

const COPY: &str = "
copy answers (task_id, job_key, idempotency_key, status, created_at, response, response_digest, problem, via, stream_seq, received_at)
from stdin (format binary)";
const COLUMNS: i16 = 11;

/// A commit need not wait for the disk: nothing counts on it before the floor is noted, and that commit waits for all before it.
const HURRY: &str = "set local synchronous_commit = off";

/// What was brought in.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) tally: Tally,
    pub(super) gone: Gone,
    /// Results that the database refused.
    pub(super) refused: u64,
}

/// Brings in all events up to `end`, over two sessions: while one of them waits, for us or for the disk, the other one works.
/// Rows only rise, so it does not matter which of two stretches comes first. `step` hears how far it is.
pub(super) async fn load(
    intake: Intake<'_>,
    beside: &Session,
    decoder: &Arc<Decoder>,
    end: u64,
    step: impl FnMut(u64),
) -> Result<Loaded, RebuildError> {
    let stretches = pin!(replay(intake.log, decoder, 1, end, answers));
    let shared = Mutex::new(Shared {
        stretches,
        loaded: Loaded::default(),
        step,
    });
    let second = Intake {
        to: Transactions {
            session: beside,
            ..intake.to
        },
        ..intake
    };
    let (first, second) = tokio::try_join!(take_turns(intake, &shared), take_turns(second, &shared))?;
    Ok(Loaded {
        refused: first + second,
        ..shared.into_inner().loaded
    })
}

/// What the two sessions have in common.
struct Shared<S, F> {
    stretches: S,
    loaded: Loaded,
    step: F,
}

/// Brings in stretches until none is left. Gives how many results the database refused.
async fn take_turns<S, F>(intake: Intake<'_>, shared: &Mutex<Shared<S, F>>) -> Result<u64, RebuildError>
where
    S: Stream<Item = Result<(Stretch, Option<Bytes>), ScanError>> + Unpin,
    F: FnMut(u64),
{
    let mut refused = 0;
    loop {
        let (stretch, answers) = {
            let mut shared = shared.lock().await;
            let Some((stretch, answers)) = shared.stretches.try_next().await? else {
                return Ok(refused);
            };
            shared.loaded.tally.add(&stretch);
            for (first, last) in &stretch.gone {
                shared.loaded.gone.add(*first, *last);
            }
            (shared.step)(stretch.last);
            (stretch, answers)
        };
        if !copy(intake, &stretch, answers).await? {
            refused += intake.bring_in(&stretch.events).await?;
        }
    }
}

/// The rows of a stretch, each task once and in byte order, as projecting takes its locks.
fn answers(stretch: &Stretch) -> Option<Bytes> {
    let folded = Folded::of(stretch.events.iter().filter_map(result), std::iter::empty());
    let mut rows = CopyRows::new(COLUMNS);
    for row in folded.answers {
        rows.row()
            .text(row.task_id.as_str())
            .text(&row.job_key)
            .text_or_null(row.idempotency_key.as_deref())
            .text(row.rank.status.as_str())
            .moment_or_null(row.rank.created_at)
            .json_or_null(row.response.as_ref())
            .bytes(row.rank.digest.as_bytes())
            .text_or_null(row.problem.as_deref())
            .text(row.via.as_str())
            .bigint(sequence(row.provenance.stream_seq))
            .moment(row.provenance.received_at);
    }
    rows.finish()
}

/// False when that cannot be done in this way.
async fn copy(intake: Intake<'_>, stretch: &Stretch, answers: Option<Bytes>) -> Result<bool, RebuildError> {
    let rest = Folded {
        answers: Vec::new(),
        ..Folded::of(
            stretch.events.iter().filter_map(result),
            stretch.events.iter().filter_map(parked),
        )
    };
    let copied = intake.to.run(async |client| {
        let hurried = client.batch_execute(HURRY).await;
        hurried.map_err(DatabaseError::of("saying how to commit"))?;
        if let Some(answers) = answers.clone() {
            send(client, COPY, answers).await?;
        }
        statements::apply(client, intake.created, &rest).await
    });
    match copied.await {
        Ok(changed) => {
            log_new(rest.parked.iter().copied(), &changed);
            Ok(true)
        }
        Err(SessionError::Database(error))
            if error.code() == Some(&SqlState::UNIQUE_VIOLATION)
                || error.trouble() == Trouble::Data
                || was_too_slow(&error) =>
        {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
