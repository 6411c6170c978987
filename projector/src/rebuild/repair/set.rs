//! Rows that are missing or wrong, set to what the stream says.

use database::{SessionError, Trouble};
use futures_util::{TryStreamExt, pin_mut};

use super::{MOST_KEYS, Repair, Repaired};
use crate::decode::Decoded;
use crate::rebuild::RebuildError;
use crate::rebuild::found::{self, Due};
use crate::rebuild::report::Finding;
use crate::rows::{ParkedRow, ResultRow};
use crate::statements::WinnerRow;
use crate::statements::set::{self, Settable};

/// Most bytes of responses in a transaction, beyond one.
const MOST_BYTES: usize = 8 << 20;

impl Repair<'_> {
    pub(super) async fn set_answers(
        &self,
        finding: Finding,
        repaired: &mut Repaired,
        step: &mut impl FnMut(u64),
    ) -> Result<(), RebuildError> {
        for exact in [false, true] {
            let mut after = 0;
            loop {
                let client = self.intake.to.session.client();
                let page = found::due_answers(client, finding, exact, after, MOST_KEYS).await?;
                let Some(last) = page.last() else { break };
                after = last.event_seq;
                let settable = self.settable(finding, exact, &page);
                let seqs: Vec<u64> = page.iter().map(|due| due.event_seq).collect();
                let changed = repaired.answers.of_mut(finding);
                let mut rows = Rows::default();
                let events = self.fetch(&seqs);
                pin_mut!(events);
                while let Some(decoded) = events.try_next().await? {
                    if let Decoded::Result(row) = decoded
                        && rows.add(*row)
                    {
                        *changed += self.set(rows.take(), &settable, &mut repaired.refused).await?;
                    }
                }
                *changed += self.set(rows.take(), &settable, &mut repaired.refused).await?;
                step(page.len() as u64);
            }
        }
        Ok(())
    }

    /// Sets rows of `answers`. One that the database refuses is parked, as projecting does, and the others are not.
    async fn set(
        &self,
        mut rows: Vec<ResultRow>,
        settable: &Settable,
        parked: &mut u64,
    ) -> Result<u64, RebuildError> {
        rows.sort_by(|a, b| a.task_id.cmp(&b.task_id));
        let rows: Vec<&ResultRow> = rows.iter().collect();
        let mut changed = 0;
        self.intake
            .to
            .in_parts(
                &rows,
                async |client, part| set::answers(client, part, settable).await,
                |_, rows| changed += rows,
                async |row, error| {
                    if error.trouble() != Trouble::Data {
                        return Err(error.into());
                    }
                    self.intake.park(row, &error).await?;
                    *parked += 1;
                    Ok(())
                },
            )
            .await?;
        Ok(changed)
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

    pub(super) async fn set_parked(
        &self,
        finding: Finding,
        repaired: &mut Repaired,
        step: &mut impl FnMut(u64),
    ) -> Result<(), RebuildError> {
        let mut after = 0;
        loop {
            let page = found::due_parked(self.intake.to.session.client(), finding, after, MOST_KEYS).await?;
            let Some(last) = page.last() else { break };
            after = *last;
            let events = self.fetch(&page);
            pin_mut!(events);
            while let Some(decoded) = events.try_next().await? {
                if let Decoded::Parked(row) = decoded {
                    *repaired.parked.of_mut(finding) += self.set_one_parked(&row).await?;
                }
            }
            step(page.len() as u64);
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

/// Rows for one transaction.
#[derive(Debug, Default)]
struct Rows {
    rows: Vec<ResultRow>,
    bytes: usize,
}

impl Rows {
    /// Whether there are enough now.
    fn add(&mut self, row: ResultRow) -> bool {
        self.bytes += row.response.as_ref().map_or(0, bytes::Bytes::len);
        self.rows.push(row);
        self.rows.len() >= MOST_KEYS || self.bytes >= MOST_BYTES
    }

    fn take(&mut self) -> Vec<ResultRow> {
        self.bytes = 0;
        std::mem::take(&mut self.rows)
    }
}
