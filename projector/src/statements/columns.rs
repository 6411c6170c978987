//! Rows as the parameters of their statements: one array a column, in the order of the columns.

use bytes::{BufMut, Bytes, BytesMut};
use time::OffsetDateTime;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::rows::{ParkedRow, ResultRow};

/// A value with its type.
pub(crate) type Parameter<'v> = (&'v (dyn ToSql + Sync), Type);

/// Rows of `answers`.
#[derive(Debug)]
pub(super) struct AnswerColumns<'r> {
    task_id: Vec<&'r str>,
    job_key: Vec<&'r str>,
    idempotency_key: Vec<Option<&'r str>>,
    status: Vec<&'static str>,
    created_at: Vec<Option<OffsetDateTime>>,
    response: Vec<Option<Jsonb<'r>>>,
    digest: Vec<&'r [u8]>,
    problem: Vec<Option<&'r str>>,
    via: Vec<&'static str>,
    stream_seq: Vec<i64>,
    received_at: Vec<OffsetDateTime>,
}

impl<'r> AnswerColumns<'r> {
    pub(super) fn of(rows: &[&'r ResultRow]) -> Self {
        Self {
            task_id: rows.iter().map(|row| row.task_id.as_str()).collect(),
            job_key: rows.iter().map(|row| row.job_key.as_str()).collect(),
            idempotency_key: rows.iter().map(|row| row.idempotency_key.as_deref()).collect(),
            status: rows.iter().map(|row| row.rank.status.as_str()).collect(),
            created_at: rows.iter().map(|row| row.rank.created_at).collect(),
            response: rows.iter().map(|row| row.response.as_ref().map(Jsonb)).collect(),
            digest: rows
                .iter()
                .map(|row| row.rank.digest.as_bytes().as_slice())
                .collect(),
            problem: rows.iter().map(|row| row.problem.as_deref()).collect(),
            via: rows.iter().map(|row| row.via.as_str()).collect(),
            stream_seq: rows
                .iter()
                .map(|row| sequence(row.provenance.stream_seq))
                .collect(),
            received_at: rows.iter().map(|row| row.provenance.received_at).collect(),
        }
    }

    pub(super) fn parameters(&self) -> Vec<Parameter<'_>> {
        vec![
            (&self.task_id, Type::TEXT_ARRAY),
            (&self.job_key, Type::TEXT_ARRAY),
            (&self.idempotency_key, Type::TEXT_ARRAY),
            (&self.status, Type::TEXT_ARRAY),
            (&self.created_at, Type::TIMESTAMPTZ_ARRAY),
            (&self.response, Type::JSONB_ARRAY),
            (&self.digest, Type::BYTEA_ARRAY),
            (&self.problem, Type::TEXT_ARRAY),
            (&self.via, Type::TEXT_ARRAY),
            (&self.stream_seq, Type::INT8_ARRAY),
            (&self.received_at, Type::TIMESTAMPTZ_ARRAY),
        ]
    }
}

/// A row of `winners`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WinnerRow<'r> {
    pub(crate) job_key: &'r str,
    pub(crate) task_id: &'r str,
    pub(crate) status: &'r str,
    pub(crate) created_at: Option<OffsetDateTime>,
    pub(crate) stream_seq: u64,
}

impl<'r> WinnerRow<'r> {
    pub(super) fn of(row: &'r ResultRow) -> Self {
        Self {
            job_key: &row.job_key,
            task_id: row.task_id.as_str(),
            status: row.rank.status.as_str(),
            created_at: row.rank.created_at,
            stream_seq: row.provenance.stream_seq,
        }
    }
}

/// Rows of `winners`.
#[derive(Debug)]
pub(super) struct WinnerColumns<'r> {
    job_key: Vec<&'r str>,
    task_id: Vec<&'r str>,
    status: Vec<&'r str>,
    created_at: Vec<Option<OffsetDateTime>>,
    stream_seq: Vec<i64>,
}

impl<'r> WinnerColumns<'r> {
    pub(super) fn of(rows: impl Iterator<Item = WinnerRow<'r>> + Clone) -> Self {
        Self {
            job_key: rows.clone().map(|row| row.job_key).collect(),
            task_id: rows.clone().map(|row| row.task_id).collect(),
            status: rows.clone().map(|row| row.status).collect(),
            created_at: rows.clone().map(|row| row.created_at).collect(),
            stream_seq: rows.map(|row| sequence(row.stream_seq)).collect(),
        }
    }

    pub(super) fn parameters(&self) -> Vec<Parameter<'_>> {
        vec![
            (&self.job_key, Type::TEXT_ARRAY),
            (&self.task_id, Type::TEXT_ARRAY),
            (&self.status, Type::TEXT_ARRAY),
            (&self.created_at, Type::TIMESTAMPTZ_ARRAY),
            (&self.stream_seq, Type::INT8_ARRAY),
        ]
    }
}

/// Rows of `parked`.
#[derive(Debug)]
pub(super) struct ParkedColumns<'r> {
    stream_created: OffsetDateTime,
    stream_seq: Vec<i64>,
    subject: Vec<String>,
    task_id: Vec<Option<&'r str>>,
    reason: Vec<&'static str>,
    detail: Vec<Option<&'r str>>,
    body: Vec<&'r [u8]>,
    parked_at: Vec<OffsetDateTime>,
}

impl<'r> ParkedColumns<'r> {
    pub(super) fn of(stream_created: OffsetDateTime, rows: &[&'r ParkedRow]) -> Self {
        let task = |row: &&'r ParkedRow| row.task_id.as_ref().map(|id| id.as_str());
        Self {
            stream_created,
            stream_seq: rows.iter().map(|row| sequence(row.stream_seq)).collect(),
            subject: rows.iter().map(|row| without_nul(&row.subject)).collect(),
            task_id: rows.iter().map(task).collect(),
            reason: rows.iter().map(|row| row.reason).collect(),
            detail: rows.iter().map(|row| row.detail.as_deref()).collect(),
            body: rows.iter().map(|row| row.body.as_ref()).collect(),
            parked_at: rows.iter().map(|row| row.parked_at).collect(),
        }
    }

    pub(super) fn parameters(&self) -> Vec<Parameter<'_>> {
        vec![
            (&self.stream_created, Type::TIMESTAMPTZ),
            (&self.stream_seq, Type::INT8_ARRAY),
            (&self.subject, Type::TEXT_ARRAY),
            (&self.task_id, Type::TEXT_ARRAY),
            (&self.reason, Type::TEXT_ARRAY),
            (&self.detail, Type::TEXT_ARRAY),
            (&self.body, Type::BYTEA_ARRAY),
            (&self.parked_at, Type::TIMESTAMPTZ_ARRAY),
        ]
    }
}

/// Of all that is parked only a subject can hold a NUL: the broker takes any from whoever may publish.
pub(crate) fn without_nul(subject: &str) -> String {
    subject.replace('\0', "\u{FFFD}")
}

/// Postgres has no unsigned integers. A stream that counts past `i64::MAX` takes 29,000 years at ten million events a second.
pub(crate) fn sequence(stream_seq: u64) -> i64 {
    i64::try_from(stream_seq).expect("no stream gets that long")
}

/// JSON text for a parameter of type `jsonb`: in its binary form a version byte, then the text, which is parsed
/// once, by the server.
#[derive(Debug)]
pub(crate) struct Jsonb<'b>(pub(crate) &'b Bytes);

impl ToSql for Jsonb<'_> {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.put_u8(1);
        out.put_slice(self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::JSONB
    }

    to_sql_checked!();
}
