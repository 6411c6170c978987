//! Rows that are missing or wrong, set to what the stream says.

use std::collections::BTreeMap;

use database::{SessionError, Trouble};

use super::{MOST_KEYS, Repair, Repaired};
use crate::decode::Decoded;
use crate::rebuild::RebuildError;
use crate::rebuild::found::{self, Due};
use crate::rebuild::report::Finding;
use crate::rows::{ParkedRow, ResultRow};
use crate::statements::WinnerRow;
use crate::statements::set;

/// Most bytes of responses in a transaction, beyond one.
const MOST_BYTES: usize = 8 << 20;

impl Repair<'_> {
    /// Rows of `answers` and `parked`, which are read from the stream once more.
    pub(super) async fn set_from_events(
        &self,
        findings: &[Finding],
        repaired: &mut Repaired,
        step: &mut impl FnMut(u64),
    ) -> Result<(), RebuildError> {
        let mut rows = Rows::default();
        self.fetch(findings, async |due, decoded| {
            match decoded {
                Decoded::Result(row) => {
                    if rows.add(due, *row) {
                        self.set_answers(rows.take(), repaired).await?;
                    }
                }
                Decoded::Parked(row) => {
                    *repaired.parked.of_mut(due.finding) += self.set_one_parked(&row).await?;
                }
                Decoded::NonFinal { .. } => {}
            }
            step(1);
            Ok(())
        })
        .await?;
        self.set_answers(rows.take(), repaired).await
    }

    /// Each of these kinds in transactions of its own, which take their locks in the order of the keys. A row that the database
    /// refuses is parked, as projecting does, and the others are not.
    async fn set_answers(&self, rows: Kinds, repaired: &mut Repaired) -> Result<(), RebuildError> {
        for ((finding, exact), mut rows) in rows {
            let seen: Vec<Due> = rows.iter().map(|(due, _)| *due).collect();
            let settable = self.settable(finding, exact, &seen);
            rows.sort_by(|(_, a), (_, b)| a.task_id.cmp(&b.task_id));
            let rows: Vec<&ResultRow> = rows.iter().map(|(_, row)| row).collect();
            let changed = repaired.answers.of_mut(finding);
            let refused = &mut repaired.refused;
            self.intake
                .to
                .in_parts(
                    &rows,
                    async |client, part| set::answers(client, part, &settable).await,
                    |_, rows| *changed += rows,
                    async |row, error| {
                        if error.trouble() != Trouble::Data {
                            return Err(error.into());
                        }
                        self.intake.park(row, &error).await?;
                        *refused += 1;
                        // This is where it is now, whatever was found about the row that was there.
                        let (client, seq) = (self.intake.to.session.client(), row.provenance.stream_seq);
                        found::keep_parked(client, self.intake.created, seq).await?;
                        // And so another task wins the job, which is set behind this.
                        Ok(found::dethrone(client, &row.job_key, seq).await?)
                    },
                )
                .await?;
        }
        Ok(())
    }

    pub(super) async fn set_winners(
        &self,
        finding: Finding,
        repaired: &mut Repaired,
        step: &mut impl FnMut(u64),
    ) -> Result<(), RebuildError> {
        for exact in [false, true] {
            let mut after = String::new();
            loop {
                let client = self.intake.to.session.client();
                let page = found::due_winners(client, finding, exact, &after, MOST_KEYS).await?;
                let Some(last) = page.last() else { break };
                after.clone_from(&last.job_key);
                let rows: Vec<WinnerRow<'_>> = page.iter().map(|winner| winner.row()).collect();
                let seen: Vec<Due> = page.iter().map(|winner| winner.due()).collect();
                let settable = self.settable(finding, exact, &seen);
                let changed = repaired.winners.of_mut(finding);
                self.intake
                    .to
                    .in_parts(
                        &rows,
                        async |client, part| set::winners(client, part, &settable).await,
                        |_, rows| *changed += rows,
                        async |_, error| Err(error.into()),
                    )
                    .await?;
                step(page.len() as u64);
            }
        }
        Ok(())
    }

    /// One at a time: there are few, and each may be as large as a message can be.
    async fn set_one_parked(&self, row: &ParkedRow) -> Result<u64, SessionError> {
        self.intake
            .to
            .run(async |client| set::parked(client, self.intake.created, &[row]).await)
            .await
    }
}

/// Rows by what was found about them, and whether they may be set to less than they are.
type Kinds = BTreeMap<(Finding, bool), Vec<(Due, ResultRow)>>;

/// Rows for a few transactions.
#[derive(Debug, Default)]
struct Rows {
    kinds: Kinds,
    count: usize,
    bytes: usize,
}

impl Rows {
    /// Whether there are enough now.
    fn add(&mut self, due: Due, row: ResultRow) -> bool {
        self.count += 1;
        self.bytes += row.response.as_ref().map_or(0, bytes::Bytes::len);
        let kind = self.kinds.entry((due.finding, due.exact)).or_default();
        kind.push((due, row));
        self.count >= MOST_KEYS || self.bytes >= MOST_BYTES
    }

    fn take(&mut self) -> Kinds {
        std::mem::take(self).kinds
    }
}
