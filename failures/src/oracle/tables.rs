//! What is in the tables, read from the database past every program.

use std::collections::BTreeMap;

use schemas::projection;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio_postgres::{Client, Row};

/// The columns of a row as text, by name: rows of the fold and rows of the database are compared and shown alike.
pub type Columns = BTreeMap<&'static str, String>;

/// The tables, each by its key.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    /// `answers`, but for `response`.
    pub answers: BTreeMap<String, Columns>,
    /// The column `answers.response`.
    pub responses: BTreeMap<String, Option<Value>>,
    /// `winners`.
    pub winners: BTreeMap<String, Columns>,
    /// `parked`, by sequence: task, reason and detail.
    pub parked: BTreeMap<u64, Columns>,
}

/// The row of `answers` that the fold gives.
pub fn answer(answer: &projection::Answer) -> Columns {
    let projection::Answer { provenance, .. } = answer;
    Columns::from([
        ("job_key", answer.job_key.clone()),
        ("idempotency_key", text(answer.idempotency_key.as_deref())),
        ("status", answer.status.to_string()),
        ("created_at", time(answer.created_at)),
        ("response_digest", bytes(answer.digest.as_bytes())),
        ("problem", text(answer.problem().as_deref())),
        ("via", answer.via.to_string()),
        ("stream_seq", provenance.stream_seq.to_string()),
        ("received_at", time(Some(provenance.received_at))),
    ])
}

/// The row of `winners` that the fold gives.
pub fn winner(winner: &projection::Winner) -> Columns {
    Columns::from([
        ("task_id", winner.rank.task_id.to_string()),
        ("status", winner.rank.status.to_string()),
        ("created_at", time(winner.rank.created_at)),
        ("stream_seq", winner.stream_seq.to_string()),
    ])
}

/// Reads all of it.
///
/// # Errors
/// What the database refused.
pub async fn read(sql: &Client) -> Result<Tables, tokio_postgres::Error> {
    let mut tables = Tables::default();
    let answers = "select task_id, job_key, idempotency_key, status, created_at, response, response_digest, problem, via,
                          stream_seq, received_at from answers";
    for row in sql.query(answers, &[]).await? {
        let id: String = row.get("task_id");
        let columns = Columns::from([
            ("job_key", row.get("job_key")),
            ("idempotency_key", text(row.get("idempotency_key"))),
            ("status", row.get("status")),
            ("created_at", time(row.get("created_at"))),
            ("response_digest", bytes(row.get("response_digest"))),
            ("problem", text(row.get("problem"))),
            ("via", row.get("via")),
            ("stream_seq", row.get::<_, i64>("stream_seq").to_string()),
            ("received_at", time(row.get("received_at"))),
        ]);
        tables.responses.insert(id.clone(), row.get("response"));
        tables.answers.insert(id, columns);
    }
    let winners = "select job_key, task_id, status, created_at, stream_seq from winners";
    for row in sql.query(winners, &[]).await? {
        let columns = Columns::from([
            ("task_id", row.get("task_id")),
            ("status", row.get("status")),
            ("created_at", time(row.get("created_at"))),
            ("stream_seq", row.get::<_, i64>("stream_seq").to_string()),
        ]);
        tables.winners.insert(row.get("job_key"), columns);
    }
    let parked = "select stream_seq, task_id, reason, detail from parked";
    tables
        .parked
        .extend(sql.query(parked, &[]).await?.iter().map(parked_row));
    Ok(tables)
}

fn parked_row(row: &Row) -> (u64, Columns) {
    let columns = Columns::from([
        ("task_id", text(row.get("task_id"))),
        ("reason", row.get("reason")),
        ("detail", text(row.get("detail"))),
    ]);
    let seq = row.get::<_, i64>("stream_seq");
    (u64::try_from(seq).expect("sequences are counted from 1"), columns)
}

fn text(value: Option<&str>) -> String {
    value.unwrap_or("null").to_owned()
}

fn time(value: Option<OffsetDateTime>) -> String {
    let format = |at: OffsetDateTime| {
        at.to_offset(time::UtcOffset::UTC)
            .format(&Rfc3339)
            .expect("a year of four digits")
    };
    value.map_or_else(|| "null".to_owned(), format)
}

fn bytes(value: &[u8]) -> String {
    value.iter().map(|byte| format!("{byte:02x}")).collect()
}
