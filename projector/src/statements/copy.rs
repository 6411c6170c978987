//! Rows of `answers` as a COPY into empty tables takes them.

use bytes::Bytes;

use super::sequence;
use crate::copy_rows::CopyRows;
use crate::rows::ResultRow;

pub(crate) const COPY_ANSWERS: &str = "
copy answers (task_id, job_key, idempotency_key, status, created_at, response, response_digest, problem, via, stream_seq, received_at)
from stdin (format binary)";
const COLUMNS: i16 = 11;

/// These rows; None when there are none.
pub(crate) fn answers(rows: &[&ResultRow]) -> Option<Bytes> {
    let mut out = CopyRows::new(COLUMNS);
    for row in rows {
        out.row()
            .text(row.task_id.as_str())
            .text(&row.job_key)
            .text_or_null(row.idempotency_key.as_deref())
            .text(row.rank.status.as_str())
            .moment_or_null(row.rank.created_at)
            .json_or_null(row.response.as_ref())
            .bytes(row.rank.digest.as_bytes())
            .text_or_null(row.problem.as_deref())
            .text(row.via.as_str())
            .bigint(sequence(row.provenance.stream_seq))
            .moment(row.provenance.received_at);
    }
    out.finish()
}
