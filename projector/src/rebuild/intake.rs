//! Bringing events in as projecting does: rows are raised, what the database refuses is parked, and the others are not.

use database::{DatabaseError, Trouble};
use time::OffsetDateTime;

use super::RebuildError;
use super::transact::Transactions;
use crate::decode::{Decoded, Message};
use crate::park::{log_parked, refused};
use crate::reach::Log;
use crate::rows::{Folded, ParkedRow, ResultRow};
use crate::statements::{self, Changed, set};

/// Where events are brought in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Intake<'i> {
    pub(super) to: Transactions<'i>,
    pub(super) log: &'i Log,
    /// When the stream was created.
    pub(super) created: OffsetDateTime,
}

impl Intake<'_> {
    /// Brings these in. Gives how many the database refused.
    pub(super) async fn bring_in(&self, events: &[Decoded]) -> Result<u64, RebuildError> {
        let mut refused = 0;
        self.to
            .in_parts(
                events,
                async |client, part| {
                    let rows = Folded::of(
                        part.iter().filter_map(Decoded::result),
                        part.iter().filter_map(Decoded::parked),
                    );
                    if rows.is_empty() {
                        return Ok(Changed::default());
                    }
                    statements::apply(client, self.created, &rows).await
                },
                |part, changed| log_new(part.iter().filter_map(Decoded::parked), &changed),
                async |decoded, error| match decoded.result() {
                    Some(row) if error.trouble() == Trouble::Data => {
                        self.park(row, &error).await?;
                        refused += 1;
                        Ok(())
                    }
                    _ => Err(error.into()),
                },
            )
            .await?;
        Ok(refused)
    }

    /// Parks a result that the database refuses, under that reason, whatever was parked there before; nothing when the stream no
    /// longer holds it.
    pub(super) async fn park(&self, row: &ResultRow, error: &DatabaseError) -> Result<(), RebuildError> {
        let Some(event) = self.log.reader.event(row.provenance.stream_seq).await? else {
            return Ok(());
        };
        let parked = refused(&Message::from(event), Some(&row.task_id), error);
        let set = self
            .to
            .run(async |client| set::parked(client, self.created, &[&parked]).await);
        if set.await? > 0 {
            log_parked(&parked);
        }
        Ok(())
    }
}

/// Says which of these were not parked before.
pub(super) fn log_new<'p>(rows: impl Iterator<Item = &'p ParkedRow>, changed: &Changed) {
    rows.filter(|row| changed.parked.contains(&row.stream_seq))
        .for_each(log_parked);
}
