//! Rows that nothing on the stream stands for, taken away.

use tracing::warn;

use super::{MOST_KEYS, Repair, Repaired};
use crate::rebuild::RebuildError;
use crate::rebuild::found::{self, Extra, ExtraParked};
use crate::rebuild::report::Finding;
use crate::statements::set::{self, Maxima};

impl Repair<'_> {
    /// Rows of `answers` or `winners`. One that another table refers to stays, and the others go.
    pub(super) async fn take(
        &self,
        table: Maxima,
        finding: Finding,
        repaired: &mut Repaired,
        step: &mut impl FnMut(u64),
    ) -> Result<(), RebuildError> {
        let (mut taken, mut referenced) = (0, 0);
        let mut after = None;
        loop {
            let client = self.intake.to.session.client();
            let page = found::extra(client, table.name(), finding, after.as_deref(), MOST_KEYS).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            self.intake
                .to
                .in_parts(
                    &page,
                    async |client, part| {
                        let (keys, seqs) = Extra::columns(part);
                        set::take(client, table, &keys, &seqs).await
                    },
                    |_, rows| taken += rows,
                    async |row, error| {
                        if !error.is_of_a_reference() {
                            return Err(error.into());
                        }
                        referenced += 1;
                        warn!(
                            table = table.name(),
                            key = row.key,
                            "a row that the stream does not know stays: another table refers to it"
                        );
                        Ok(())
                    },
                )
                .await?;
            step(page.len() as u64);
        }
        *repaired.of_mut(table).of_mut(finding) += taken;
        repaired.referenced += referenced;
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
            let client = self.intake.to.session.client();
            let page = found::extra_parked(client, finding, after, MOST_KEYS).await?;
            let Some(last) = page.last() else { break };
            after = Some((last.stream_created, last.stream_seq));
            let taken = repaired.parked.of_mut(finding);
            self.intake
                .to
                .in_parts(
                    &page,
                    async |client, part| {
                        let (created, seqs) = ExtraParked::columns(part);
                        set::take_parked(client, &created, &seqs).await
                    },
                    |_, rows| *taken += rows,
                    async |_, error| Err(error.into()),
                )
                .await?;
            step(page.len() as u64);
        }
        Ok(())
    }
}
