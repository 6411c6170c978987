//! Comparing responses with those of the rows that name their events.

use bytes::Bytes;
use database::{DatabaseError, Session, Trouble};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::sql;
use crate::copy_rows::CopyRows;
use crate::decode::Decoded;
use crate::statements::{Jsonb, Parameter, query, sequence};

const ATTEMPT: &str = "comparing responses";

/// The responses of a stretch.
#[derive(Debug, Default)]
pub(super) struct Responses {
    task_id: Vec<String>,
    stream_seq: Vec<i64>,
    response: Vec<Option<Bytes>>,
}

impl Responses {
    pub(super) fn of(events: &[Decoded]) -> Self {
        let mut responses = Self::default();
        for decoded in events {
            if let Decoded::Result(row) = decoded {
                responses.task_id.push(row.task_id.as_str().to_owned());
                responses.stream_seq.push(sequence(row.provenance.stream_seq));
                responses.response.push(row.response.clone());
            }
        }
        responses
    }

    /// The rows that name one of these events and have another response, as a COPY takes them. One response that the database
    /// cannot hold has no row, so it is not compared, and the others are.
    pub(super) async fn unlike(&self, session: &Session) -> Result<Option<Bytes>, DatabaseError> {
        let mut unlike = CopyRows::new(sql::UNLIKE_COLUMNS);
        let mut parts = vec![(0, self.stream_seq.len())];
        while let Some((from, to)) = parts.pop() {
            if from == to {
                continue;
            }
            match self.compare(session, from, to).await {
                Ok(rows) => {
                    for row in rows {
                        let key = |row: &Row| Ok((row.try_get(0)?, row.try_get::<_, String>(1)?));
                        let (seq, task_id) = key(&row).map_err(DatabaseError::of(ATTEMPT))?;
                        unlike.row().bigint(seq).text(&task_id);
                    }
                }
                Err(error) if error.trouble() == Trouble::Data => {
                    let middle = from + (to - from) / 2;
                    if to - from > 1 {
                        parts.extend([(from, middle), (middle, to)]);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(unlike.finish())
    }

    async fn compare(&self, session: &Session, from: usize, to: usize) -> Result<Vec<Row>, DatabaseError> {
        let task_id: Vec<&str> = self.task_id[from..to].iter().map(String::as_str).collect();
        let stream_seq = &self.stream_seq[from..to];
        let response: Vec<Option<Jsonb<'_>>> = self.response[from..to]
            .iter()
            .map(|response| response.as_ref().map(Jsonb))
            .collect();
        let values: [Parameter<'_>; 3] = [
            (&task_id, Type::TEXT_ARRAY),
            (&stream_seq, Type::INT8_ARRAY),
            (&response, Type::JSONB_ARRAY),
        ];
        query(session.client(), ATTEMPT, sql::UNLIKE, &values).await
    }
}
