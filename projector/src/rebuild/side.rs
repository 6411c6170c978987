//! The side tables: what the stream says, in a form that the database can compare with its rows.

use bytes::Bytes;
use database::{DatabaseError, Session, Trouble};
use futures_util::SinkExt;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::copy::CopyRows;
use super::replay::Stretch;
use super::sql;
use crate::decode::Decoded;
use crate::rows::{ParkedRow, ResultRow};
use crate::statements::{Jsonb, sequence, without_nul};

/// A stretch of the stream, ready for the side tables.
#[derive(Debug)]
pub(super) struct SideRows {
    results: Option<Bytes>,
    parked: Option<Bytes>,
    others: Option<Bytes>,
    responses: Option<Responses>,
}

/// Responses, to be compared with those of the rows.
#[derive(Debug, Default)]
struct Responses {
    task_id: Vec<String>,
    stream_seq: Vec<i64>,
    response: Vec<Option<Bytes>>,
}

impl SideRows {
    /// Takes processor time: not for a thread that serves others.
    pub(super) fn of(stretch: &Stretch, with_responses: bool) -> Self {
        let mut results = CopyRows::new(sql::RESULT_COLUMNS);
        let mut parked = CopyRows::new(sql::PARKED_COLUMNS);
        let mut others = CopyRows::new(sql::OTHER_COLUMNS);
        let mut responses = with_responses.then(Responses::default);
        for decoded in &stretch.events {
            match decoded {
                Decoded::Result(row) => {
                    put_result(&mut results, row);
                    if let Some(responses) = &mut responses {
                        responses.add(row);
                    }
                }
                Decoded::Parked(row) => {
                    put_parked(&mut parked, row);
                    put_other(&mut others, row.stream_seq, row.parked_at);
                }
                Decoded::NonFinal { seq, time } => put_other(&mut others, *seq, *time),
            }
        }
        Self {
            results: results.finish(),
            parked: parked.finish(),
            others: others.finish(),
            responses,
        }
    }
}

impl Responses {
    fn add(&mut self, row: &ResultRow) {
        self.task_id.push(row.task_id.as_str().to_owned());
        self.stream_seq.push(sequence(row.provenance.stream_seq));
        self.response.push(row.response.clone());
    }
}

fn put_result(out: &mut CopyRows, row: &ResultRow) {
    out.row()
        .bigint(sequence(row.provenance.stream_seq))
        .text(row.task_id.as_str())
        .text(&row.job_key)
        .text_or_null(row.idempotency_key.as_deref())
        .text(row.rank.status.as_str())
        .moment_or_null(row.rank.created_at)
        .bytes(row.rank.digest.as_bytes())
        .text_or_null(row.problem.as_deref())
        .text(row.via.as_str())
        .moment(row.provenance.received_at);
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
    /// Makes them.
    pub(super) async fn create(session: &'s Session) -> Result<Self, DatabaseError> {
        let created = session.client().batch_execute(sql::CREATE).await;
        created.map_err(DatabaseError::of("making the side tables"))?;
        Ok(Self { session })
    }

    /// Adds a stretch of the stream, and compares its responses where they are asked for.
    pub(super) async fn add(&self, rows: SideRows) -> Result<(), DatabaseError> {
        let client = self.session.client();
        for (statement, rows) in [
            (sql::COPY_RESULTS, rows.results),
            (sql::COPY_PARKED, rows.parked),
            (sql::COPY_OTHERS, rows.others),
        ] {
            if let Some(rows) = rows {
                send(client, statement, rows).await?;
            }
        }
        if let Some(responses) = rows.responses {
            compare_responses(client, &responses).await?;
        }
        Ok(())
    }

    /// Adds ranges of sequences that hold nothing.
    pub(super) async fn add_gone(&self, ranges: &[(u64, u64)]) -> Result<(), DatabaseError> {
        let first: Vec<i64> = ranges.iter().map(|(first, _)| sequence(*first)).collect();
        let last: Vec<i64> = ranges.iter().map(|(_, last)| sequence(*last)).collect();
        let values: [(&(dyn ToSql + Sync), Type); 2] =
            [(&first, Type::INT8_ARRAY), (&last, Type::INT8_ARRAY)];
        let added = self.session.client().execute_typed(sql::GONE, &values).await;
        added
            .map(drop)
            .map_err(DatabaseError::of("noting which sequences hold nothing"))
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

/// One response that the database cannot hold has no row, whatever it is compared with; it is left out, and the others are
/// not.
async fn compare_responses(client: &Client, responses: &Responses) -> Result<(), DatabaseError> {
    let mut parts = vec![(0, responses.stream_seq.len())];
    while let Some((from, to)) = parts.pop() {
        if from == to {
            continue;
        }
        let task_id: Vec<&str> = responses.task_id[from..to].iter().map(String::as_str).collect();
        let stream_seq = &responses.stream_seq[from..to];
        let response: Vec<Option<Jsonb<'_>>> = responses.response[from..to]
            .iter()
            .map(|response| response.as_ref().map(Jsonb))
            .collect();
        let values: [(&(dyn ToSql + Sync), Type); 3] = [
            (&task_id, Type::TEXT_ARRAY),
            (&stream_seq, Type::INT8_ARRAY),
            (&response, Type::JSONB_ARRAY),
        ];
        let compared = client.execute_typed(sql::UNLIKE, &values).await;
        match compared.map_err(DatabaseError::of("comparing responses")) {
            Ok(_) => {}
            Err(error) if error.trouble() == Trouble::Data => {
                let middle = from + (to - from) / 2;
                if to - from > 1 {
                    parts.extend([(from, middle), (middle, to)]);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
