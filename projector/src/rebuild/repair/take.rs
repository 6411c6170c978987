//! Rows that nothing on the stream stands for, taken away.

use database::SessionError;
use tokio_postgres::error::SqlState;
use tracing::warn;

use super::{MOST_KEYS, Repair, Repaired};
use crate::rebuild::RebuildError;
use crate::rebuild::found::{self, Extra, ExtraParked};
use crate::rebuild::report::Finding;
use crate::rebuild::transact::transact;
use crate::statements::set;

impl Repair<'_> {
    pub(super) async fn take_answers(
        &self,
        finding: Finding,
        repaired: &mut Repaired,
        step: &mut impl FnMut(u64),
    ) -> Result<(), RebuildError> {
        let mut after = None;
        loop {
            let page = found::extra(
                self.intake.session.client(),
                "answers",
                finding,
                after.as_deref(),
                MOST_KEYS,
            )
            .await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            let mut parts = vec![page.as_slice()];
            while let Some(part) = parts.pop() {
                let (keys, seqs) = Extra::columns(part);
                let taken = transact(self.intake.session, async |client| {
                    set::take_answers(client, &keys, &seqs).await
                });
                match (taken.await, part) {
                    (Ok(taken), _) => *repaired.answers.of_mut(finding) += taken,
                    (Err(error), [row]) if is_referenced(&error) => {
                        repaired.referenced += 1;
                        warn!(
                            task.id = row.key,
                            "a row that the stream does not know stays: another table refers to it"
                        );
                    }
                    (Err(error), _) if is_referenced(&error) => {
                        let (first, second) = part.split_at(part.len() / 2);
                        parts.extend([second, first]);
                    }
                    (Err(error), _) => return Err(error.into()),
                }
            }
            step(page.len() as u64);
        }
        Ok(())
    }

    pub(super) async fn take_winners(
        &self,
        finding: Finding,
        repaired: &mut Repaired,
        step: &mut impl FnMut(u64),
    ) -> Result<(), RebuildError> {
        let mut after = None;
        loop {
            let page = found::extra(
                self.intake.session.client(),
                "winners",
                finding,
                after.as_deref(),
                MOST_KEYS,
            )
            .await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            let mut parts = vec![page.as_slice()];
            while let Some(part) = parts.pop() {
                let (keys, seqs) = Extra::columns(part);
                let taken = transact(self.intake.session, async |client| {
                    set::take_winners(client, &keys, &seqs).await
                });
                match (taken.await, part) {
                    (Ok(taken), _) => *repaired.winners.of_mut(finding) += taken,
                    (Err(error), [row]) if is_referenced(&error) => {
                        repaired.referenced += 1;
                        warn!(
                            job.key = row.key,
                            "a winner that the stream does not know stays: another table refers to it"
                        );
                    }
                    (Err(error), _) if is_referenced(&error) => {
                        let (first, second) = part.split_at(part.len() / 2);
                        parts.extend([second, first]);
                    }
                    (Err(error), _) => return Err(error.into()),
                }
            }
            step(page.len() as u64);
        }
        Ok(())
    }

    pub(super) async fn take_parked(
        &self,
        finding: Finding,
        repaired: &mut Repaired,
        step: &mut impl FnMut(u64),
    ) -> Result<(), RebuildError> {
        let mut after = None;
        loop {
            let page = found::extra_parked(self.intake.session.client(), finding, after, MOST_KEYS).await?;
            let Some(last) = page.last() else { break };
            after = Some((last.stream_created, last.stream_seq));
            let (created, seqs) = ExtraParked::columns(&page);
            *repaired.parked.of_mut(finding) += transact(self.intake.session, async |client| {
                set::take_parked(client, &created, &seqs).await
            })
            .await?;
            step(page.len() as u64);
        }
        Ok(())
    }
}

fn is_referenced(error: &SessionError) -> bool {
    match error {
        // The second one for a key with `on delete restrict`, in newer servers.
        SessionError::Database(error) => [
            Some(&SqlState::FOREIGN_KEY_VIOLATION),
            Some(&SqlState::RESTRICT_VIOLATION),
        ]
        .contains(&error.code()),
        SessionError::Pooler => false,
    }
}
