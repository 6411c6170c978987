//! The side tables: what the stream says, in a form that the database can compare with its rows.

use bytes::Bytes;
use database::{DatabaseError, Session};
use futures_util::SinkExt;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::pair::Results;
use super::replay::Stretch;
use super::responses::Responses;
use super::sql;
use crate::copy_rows::CopyRows;
use crate::decode::Decoded;
use crate::rows::ParkedRow;
use crate::statements::{Parameter, execute, sequence, without_nul};

/// A stretch of the stream, ready to be brought together with the rows.
#[derive(Debug)]
pub(super) struct SideRows {
    pub(super) results: Results,
    pub(super) responses: Option<Responses>,
    parked: Option<Bytes>,
    others: Option<Bytes>,
}

impl SideRows {
    /// Takes processor time: not for a thread that serves others.
    pub(super) fn of(stretch: &Stretch, with_responses: bool) -> Self {
        let mut parked = CopyRows::new(sql::PARKED_COLUMNS);
        let mut others = CopyRows::new(sql::OTHER_COLUMNS);
        for decoded in &stretch.events {
            match decoded {
                Decoded::Result(_) => {}
                Decoded::Parked(row) => {
                    put_parked(&mut parked, row);
                    put_other(&mut others, row.stream_seq, row.parked_at);
                }
                Decoded::NonFinal { seq, time } => put_other(&mut others, *seq, *time),
            }
        }
        Self {
            results: Results::of(&stretch.events),
            responses: with_responses.then(|| Responses::of(&stretch.events)),
            parked: parked.finish(),
            others: others.finish(),
        }
    }
}

fn put_parked(out: &mut CopyRows, row: &ParkedRow) {
    out.row()
        .bigint(sequence(row.stream_seq))
        .text(&without_nul(&row.subject))
        .text_or_null(row.task_id.as_ref().map(|id| id.as_str()))
        .text(row.reason)
        .text_or_null(row.detail.as_deref())
        .bytes(&Sha256::digest(&row.body))
        .moment(row.parked_at);
}

fn put_other(out: &mut CopyRows, seq: u64, at: OffsetDateTime) {
    out.row().bigint(sequence(seq)).moment(at);
}

/// The side tables of a session.
#[derive(Debug)]
pub(super) struct SideTables<'s> {
    session: &'s Session,
}

impl<'s> SideTables<'s> {
    /// Makes them, within a transaction that looks at one moment. Gives the moment's name for other sessions.
    pub(super) async fn create(session: &'s Session) -> Result<(Self, String), DatabaseError> {
        let attempt = "making the side tables";
        let client = session.client();
        let begun = [sql::BEGIN_COMPARING, sql::CREATE].join(";");
        let begun = client.batch_execute(&begun).await;
        begun.map_err(DatabaseError::of(attempt))?;
        let moment = client.query_typed_one(sql::MOMENT, &[]).await;
        let moment = moment.and_then(|row| row.try_get(0));
        Ok((Self { session }, moment.map_err(DatabaseError::of(attempt))?))
    }

    /// Adds what a stretch has beside results.
    pub(super) async fn add(&self, rows: SideRows) -> Result<(), DatabaseError> {
        self.copy(sql::COPY_PARKED, rows.parked).await?;
        self.copy(sql::COPY_OTHERS, rows.others).await
    }

    /// Adds rows whose response is not that of their event.
    pub(super) async fn add_unlike(&self, rows: Option<Bytes>) -> Result<(), DatabaseError> {
        self.copy(sql::COPY_UNLIKE, rows).await
    }

    /// Sends rows, if there are any, to one of the tables.
    pub(super) async fn copy(&self, statement: &str, rows: Option<Bytes>) -> Result<(), DatabaseError> {
        match rows {
            Some(rows) => send(self.session.client(), statement, rows).await,
            None => Ok(()),
        }
    }

    /// Adds ranges of sequences that hold nothing.
    pub(super) async fn add_gone(&self, ranges: &[(u64, u64)]) -> Result<(), DatabaseError> {
        let first: Vec<i64> = ranges.iter().map(|(first, _)| sequence(*first)).collect();
        let last: Vec<i64> = ranges.iter().map(|(_, last)| sequence(*last)).collect();
        let values: [Parameter<'_>; 2] = [(&first, Type::INT8_ARRAY), (&last, Type::INT8_ARRAY)];
        let attempt = "noting which sequences hold nothing";
        execute(self.session.client(), attempt, sql::GONE, &values)
            .await
            .map(drop)
    }

    /// Tells the planner how large they are.
    pub(super) async fn analyze(&self) -> Result<(), DatabaseError> {
        let analyzed = self.session.client().batch_execute(sql::ANALYZE).await;
        analyzed.map_err(DatabaseError::of("analyzing the side tables"))
    }
}

/// Sends rows to a COPY.
pub(super) async fn send(client: &Client, copy: &str, rows: Bytes) -> Result<(), DatabaseError> {
    let copying = async {
        let sink = client.copy_in(copy).await?;
        let mut sink = std::pin::pin!(sink);
        sink.send(rows).await?;
        sink.finish().await
    };
    copying.await.map(drop).map_err(DatabaseError::of("copying rows"))
}
