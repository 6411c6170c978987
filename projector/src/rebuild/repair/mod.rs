//! Putting right what differs, and nothing else.
//!
//! In transactions of at most [`MOST_KEYS`] keys of one table, so that a live projector never waits long. What each of them may
//! do to a row is decided in the statement, by the row as it is then: see `statements::set`.
//!
//! A row that was wrong may have kept greater events out that came meanwhile and were acknowledged: a projector compares with the
//! row that it finds. So once all is put right, the events behind the end of the replay are brought in once more, up to an end
//! that is read after the last repair. Every later event is compared with the repaired row.

mod fetch;
mod set;
mod take;

use std::sync::Arc;

use futures_util::{TryStreamExt, pin_mut};

use super::RebuildError;
use super::compare::Compared;
use super::found::{self, Due};
use super::intake::Intake;
use super::replay::replay;
use super::report::{Counts, Finding};
use crate::decode::Decoder;
use crate::statements::set::{Maxima, Settable};

/// Most keys in a transaction.
const MOST_KEYS: usize = 5_000;

/// What repairs.
#[derive(Debug)]
pub(super) struct Repair<'r> {
    pub(super) intake: Intake<'r>,
    pub(super) decoder: &'r Arc<Decoder>,
    /// The end of the replay.
    pub(super) end: u64,
    /// Whether rows go that nothing proves, or that name an event behind the end of the stream: a stream that lost its end looks
    /// the same, and then they are the only copies.
    pub(super) prune: bool,
}

/// What was put right.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Repaired {
    pub(super) answers: Counts,
    pub(super) winners: Counts,
    pub(super) parked: Counts,
    /// Rows that another table refers to.
    pub(super) referenced: u64,
    /// Results that the database refuses, now parked.
    pub(super) refused: u64,
    /// Everything up to this sequence is in the tables.
    pub(super) floor: u64,
}

impl Repaired {
    fn of_mut(&mut self, table: Maxima) -> &mut Counts {
        match table {
            Maxima::Answers => &mut self.answers,
            Maxima::Winners => &mut self.winners,
        }
    }
}

impl Repair<'_> {
    /// Does all of it. `step` hears how many keys were seen to.
    pub(super) async fn run(
        &self,
        compared: &Compared,
        mut step: impl FnMut(u64),
    ) -> Result<Repaired, RebuildError> {
        let mut repaired = Repaired {
            floor: self.end,
            ..Repaired::default()
        };
        found::index(self.intake.to.session.client()).await?;
        let findings: Vec<Finding> = self.order().collect();
        self.set_from_events(&findings, &mut repaired, &mut step).await?;
        for finding in findings {
            if compared.winners.found.of(finding) > 0 {
                self.set_winners(finding, &mut repaired, &mut step).await?;
                self.take(Maxima::Winners, finding, &mut repaired, &mut step)
                    .await?;
            }
            if compared.answers.found.of(finding) > 0 {
                self.take(Maxima::Answers, finding, &mut repaired, &mut step)
                    .await?;
            }
            if compared.parked.found.of(finding) > 0 {
                self.take_parked(finding, &mut repaired, &mut step).await?;
            }
        }
        let anything_gave_way = [repaired.answers, repaired.winners]
            .iter()
            .any(|counts| counts.wrong + counts.not_on_stream + counts.invented + counts.unproven > 0);
        if anything_gave_way {
            repaired.floor = self.replay_the_rest().await?;
        }
        Ok(repaired)
    }

    /// How many keys it will see to, at most.
    pub(super) fn total(&self, compared: &Compared) -> u64 {
        let tables = [&compared.answers, &compared.winners, &compared.parked];
        let of = |finding| {
            tables
                .iter()
                .map(move |table| table.found.of(finding))
                .sum::<u64>()
        };
        self.order().map(of).sum()
    }

    fn order(&self) -> impl Iterator<Item = Finding> + use<> {
        let prune = self.prune;
        Finding::ALL
            .into_iter()
            .filter(move |finding| prune || !matches!(finding, Finding::Invented | Finding::Unproven))
    }

    /// What a row may be for it to be set to less than it is. `seen` are the events that the rows named when they were looked at.
    fn settable(&self, finding: Finding, exact: bool, seen: &[Due]) -> Settable {
        match finding {
            Finding::Invented | Finding::Unproven => Settable {
                end: 0,
                invented: seen.iter().filter_map(|due| due.row_seq).collect(),
            },
            _ if exact => Settable {
                end: self.end,
                invented: Vec::new(),
            },
            _ => Settable::none(),
        }
    }

    /// Brings in what is behind the end of the replay, as projecting does. Gives the end up to which that was done.
    async fn replay_the_rest(&self) -> Result<u64, RebuildError> {
        let state = self.intake.log.reader.state().await?;
        let last = state.map_or(self.end, |state| state.last_seq);
        if last <= self.end {
            return Ok(self.end);
        }
        let rest = replay(self.intake.log, self.decoder, self.end + 1, last, |_| ());
        pin_mut!(rest);
        while let Some((stretch, ())) = rest.try_next().await? {
            self.intake.bring_in(&stretch.events).await?;
        }
        Ok(last)
    }
}
