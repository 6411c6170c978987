//! Filling tables that are empty or nearly so: the first load of a database.
//!
//! There is little or nothing to compare with, so the rows go straight into place, by COPY; where there were some, a comparison
//! follows. That fails when a key is there already,
//! because a task has two events or a live projector was faster; then the stretch goes in as projecting brings it in. So it does when
//! it is too much for one statement, for that way cuts it in halves.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use database::{DatabaseError, Session, SessionError, Trouble};
use futures_util::{Stream, TryStreamExt};
use stream::read::ScanError;
use tokio::sync::Mutex;

use super::RebuildError;
use super::intake::{Intake, log_new};
use super::replay::{Stretch, Tally, replay};
use super::side::send;
use super::transact::Transactions;
use crate::decode::{Decoded, Decoder};
use crate::rows::{Folded, ResultRow};
use crate::statements;
use crate::statements::copy::{COPY_ANSWERS, answers};

/// A commit need not wait for the disk: nothing counts on it before the floor is noted, and that commit waits for all before it.
const HURRY: &str = "set local synchronous_commit = off";

/// What was brought in.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) tally: Tally,
    /// Results that the database refused.
    pub(super) refused: u64,
}

/// Brings in all events up to `end`, over two sessions: while one of them waits, for us or for the disk, the other one works.
/// Rows only rise, so it does not matter which of two stretches comes first. `step` hears how far it is.
pub(super) async fn load(
    intake: Intake<'_>,
    second: &Session,
    decoder: &Arc<Decoder>,
    end: u64,
    step: impl FnMut(u64),
) -> Result<Loaded, RebuildError> {
    let stretches = pin!(replay(intake.log, decoder, 1, end, Ready::of));
    let shared = Mutex::new(Shared {
        stretches,
        loaded: Loaded::default(),
        step,
    });
    let second = Intake {
        to: Transactions {
            session: second,
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
    S: Stream<Item = Result<(Stretch, Ready), ScanError>> + Unpin,
    F: FnMut(u64),
{
    let mut refused = 0;
    loop {
        let (stretch, ready) = {
            let mut shared = shared.lock().await;
            let Some((stretch, ready)) = shared.stretches.try_next().await? else {
                return Ok(refused);
            };
            shared.loaded.tally.add(&stretch);
            (shared.step)(stretch.last);
            (stretch, ready)
        };
        if !copy(intake, &stretch, ready).await? {
            refused += intake.bring_in(&stretch.events).await?;
        }
    }
}

/// What a stretch comes to.
#[derive(Debug)]
struct Ready {
    /// Its rows of `answers`, as a COPY takes them.
    answers: Option<Bytes>,
    /// Where in it the events stand that win their jobs.
    winners: Vec<usize>,
}

impl Ready {
    /// Each key once and in byte order, as projecting takes its locks. Takes processor time: not for a thread that serves others.
    fn of(stretch: &Stretch) -> Self {
        let folded = Folded::of(
            stretch.events.iter().filter_map(Decoded::result),
            std::iter::empty(),
        );
        let place = |row: &&ResultRow| {
            let seq = row.provenance.stream_seq;
            stretch.events.binary_search_by_key(&seq, Decoded::seq)
        };
        Self {
            answers: answers(&folded.answers),
            winners: folded.winners.iter().flat_map(place).collect(),
        }
    }

    /// All but the rows of `answers`.
    fn rest<'s>(&self, stretch: &'s Stretch) -> Folded<'s> {
        let events = &stretch.events;
        Folded {
            answers: Vec::new(),
            winners: self
                .winners
                .iter()
                .filter_map(|at| events[*at].result())
                .collect(),
            parked: events.iter().filter_map(Decoded::parked).collect(),
        }
    }
}

/// False when that cannot be done in this way.
async fn copy(intake: Intake<'_>, stretch: &Stretch, ready: Ready) -> Result<bool, RebuildError> {
    let rest = ready.rest(stretch);
    let copied = intake.to.run_while_quick(async |client| {
        let hurried = client.batch_execute(HURRY).await;
        hurried.map_err(DatabaseError::of("saying how to commit"))?;
        if let Some(answers) = ready.answers.clone() {
            send(client, COPY_ANSWERS, answers).await?;
        }
        statements::apply(client, intake.created, &rest).await
    });
    match copied.await {
        Ok(changed) => {
            log_new(rest.parked.iter().copied(), &changed);
            Ok(true)
        }
        Err(SessionError::Database(error))
            if error.is_of_a_key() || error.trouble() == Trouble::Data || error.was_too_slow() =>
        {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
