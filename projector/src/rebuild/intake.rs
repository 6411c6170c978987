//! Bringing events in as projecting does: rows are raised, what the database refuses is parked, and the others are not.

use database::{DatabaseError, Session, SessionError, Trouble};
use time::OffsetDateTime;

use super::RebuildError;
use super::transact::transact;
use crate::decode::{Decoded, Message};
use crate::park::{log_parked, refused};
use crate::reach::Log;
use crate::rows::{Folded, ParkedRow, ResultRow};
use crate::statements;

/// Where events are brought in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Intake<'i> {
    pub(super) session: &'i Session,
    pub(super) log: &'i Log,
    /// When the stream was created.
    pub(super) created: OffsetDateTime,
}

impl Intake<'_> {
    /// Brings these in. Gives how many the database refused.
    pub(super) async fn bring_in(&self, events: &[Decoded]) -> Result<u64, RebuildError> {
        let mut refused = 0;
        let mut parts = vec![events];
        while let Some(part) = parts.pop() {
            let rows = Folded::of(part.iter().filter_map(result), part.iter().filter_map(parked));
            match self.apply(&rows).await {
                Ok(()) => {}
                Err(SessionError::Database(error)) if error.trouble() == Trouble::Data => match part {
                    [Decoded::Result(row)] => {
                        self.park(row, &error).await?;
                        refused += 1;
                    }
                    [] | [Decoded::NonFinal { .. } | Decoded::Parked(_)] => return Err(error.into()),
                    part => {
                        let (first, second) = part.split_at(part.len() / 2);
                        parts.extend([second, first]);
                    }
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(refused)
    }

    /// Parks a result that the database refuses; nothing when the stream no longer holds it.
    pub(super) async fn park(&self, row: &ResultRow, error: &DatabaseError) -> Result<(), RebuildError> {
        let Some(event) = self.log.reader.event(row.provenance.stream_seq).await? else {
            return Ok(());
        };
        let parked = refused(&Message::from(event), Some(&row.task_id), error);
        let rows = Folded::of(std::iter::empty(), std::iter::once(&parked));
        Ok(self.apply(&rows).await?)
    }

    async fn apply(&self, rows: &Folded<'_>) -> Result<(), SessionError> {
        if rows.is_empty() {
            return Ok(());
        }
        let changed = transact(self.session, async |client| {
            statements::apply(client, self.created, rows).await
        })
        .await?;
        let new = rows
            .parked
            .iter()
            .filter(|row| changed.parked.contains(&row.stream_seq));
        new.for_each(|row| log_parked(row));
        Ok(())
    }
}

/// The result in it.
pub(super) fn result(decoded: &Decoded) -> Option<&ResultRow> {
    match decoded {
        Decoded::Result(row) => Some(row),
        Decoded::NonFinal { .. } | Decoded::Parked(_) => None,
    }
}

/// What there is to park.
pub(super) fn parked(decoded: &Decoded) -> Option<&ParkedRow> {
    match decoded {
        Decoded::Parked(row) => Some(row),
        Decoded::NonFinal { .. } | Decoded::Result(_) => None,
    }
}
