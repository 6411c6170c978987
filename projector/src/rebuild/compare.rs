//! Comparing the tables with what was replayed, at one moment, without a lock that anybody would notice.

use database::{DatabaseError, Session};
use time::OffsetDateTime;
use tokio_postgres::types::{Timestamp, ToSql, Type};
use tokio_postgres::{Client, Row};

use super::report::{Example, Finding, TableReport};
use super::sql::{self, ANSWERS, Shape, WINNERS};
use crate::statements::sequence;

/// So many examples of each finding are shown.
const EXAMPLES: i64 = 5;

/// Between which points of the stream a comparison stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The end of the replay.
    pub(super) end: u64,
    /// Everything up to here must be in the tables; read before the moment of comparison.
    pub(super) floor: u64,
    /// The end of the stream, read behind that moment: every row seen is of an event up to there.
    pub(super) last: u64,
    /// When the stream was created.
    pub(super) created: OffsetDateTime,
    /// Rows of an earlier time may be of events that this stream never held; `None`: any row may.
    pub(super) begin: Option<OffsetDateTime>,
}

/// What was found, table by table.
#[derive(Debug, Clone, Default)]
pub(super) struct Compared {
    pub(super) answers: TableReport,
    pub(super) winners: TableReport,
    pub(super) parked: TableReport,
    /// Results that the database refused before, and that are listed in `parked`.
    pub(super) refused: u64,
}

/// Compares, at the moment that the transaction of the side tables looks at, and ends that.
pub(super) async fn compare(session: &Session, bounds: Bounds) -> Result<Compared, DatabaseError> {
    let client = session.client();
    let setting_up = [
        ANSWERS.create(),
        WINNERS.create(),
        sql::CREATE_FOUND_PARKED.to_owned(),
    ]
    .join("; ");
    run(client, &setting_up).await?;
    let limits = Limits {
        end: sequence(bounds.end),
        floor: sequence(bounds.floor),
        last: sequence(bounds.last),
        begin: bounds.begin.map_or(Timestamp::PosInfinity, Timestamp::Value),
        created: bounds.created,
    };
    let refused = execute(client, sql::REFUSED, &[(&bounds.created, Type::TIMESTAMPTZ)]).await?;
    suspect(client, &limits).await?;
    let compared = Compared {
        answers: maxima(client, &ANSWERS, &limits).await?,
        winners: maxima(client, &WINNERS, &limits).await?,
        parked: parked(client, &limits).await?,
        refused,
    };
    run(client, "commit").await?;
    Ok(compared)
}

/// [`Bounds`] as parameters.
struct Limits {
    end: i64,
    floor: i64,
    last: i64,
    begin: Timestamp<OffsetDateTime>,
    created: OffsetDateTime,
}

/// The suspect keys, and what there is on them.
async fn suspect(client: &Client, limits: &Limits) -> Result<(), DatabaseError> {
    for shape in [&ANSWERS, &WINNERS] {
        execute(client, &shape.suspects(), &[]).await?;
        run(client, &format!("analyze suspect_{}", shape.table)).await?;
    }
    execute(client, sql::BRING_BACK, &[(&limits.end, Type::INT8)]).await?;
    run(client, "analyze replayed_results").await
}

async fn maxima(client: &Client, shape: &Shape, limits: &Limits) -> Result<TableReport, DatabaseError> {
    execute(client, &shape.events(), &[]).await?;
    run(client, &format!("analyze events_of_{}", shape.table)).await?;
    let values: [(&(dyn ToSql + Sync), Type); 4] = [
        (&limits.end, Type::INT8),
        (&limits.floor, Type::INT8),
        (&limits.last, Type::INT8),
        (&limits.begin, Type::TIMESTAMPTZ),
    ];
    execute(client, &shape.find(), &values).await?;
    table(client, shape.table).await
}

async fn parked(client: &Client, limits: &Limits) -> Result<TableReport, DatabaseError> {
    let values: [(&(dyn ToSql + Sync), Type); 5] = [
        (&limits.end, Type::INT8),
        (&limits.floor, Type::INT8),
        (&limits.last, Type::INT8),
        (&limits.begin, Type::TIMESTAMPTZ),
        (&limits.created, Type::TIMESTAMPTZ),
    ];
    execute(client, sql::FIND_PARKED, &values).await?;
    table(client, "parked").await
}

async fn table(client: &Client, table: &str) -> Result<TableReport, DatabaseError> {
    let attempt = "counting what was found";
    let rows = client
        .query_typed_one(&sql::count(table), &[])
        .await
        .map_err(DatabaseError::of(attempt))?;
    let rows: i64 = rows.try_get(0).map_err(DatabaseError::of(attempt))?;
    let found = client
        .query_typed(&sql::findings(table), &[(&EXAMPLES, Type::INT8)])
        .await
        .map_err(DatabaseError::of(attempt))?;
    let mut report = TableReport {
        rows: rows.unsigned_abs(),
        ..TableReport::default()
    };
    for row in &found {
        let (finding, total, example) = read(row).map_err(DatabaseError::of(attempt))?;
        let finding = Finding::of(&finding).ok_or(DatabaseError::Unexpected("a finding without a name"))?;
        *report.found.of_mut(finding) = total.unsigned_abs();
        report.examples.push(Example { finding, ..example });
    }
    Ok(report)
}

fn read(row: &Row) -> Result<(String, i64, Example), tokio_postgres::Error> {
    let seq = |column| -> Result<_, tokio_postgres::Error> {
        Ok(row.try_get::<_, Option<i64>>(column)?.map(i64::unsigned_abs))
    };
    let example = Example {
        finding: Finding::Wrong,
        key: row.try_get(2)?,
        row_seq: seq(3)?,
        event_seq: seq(4)?,
    };
    Ok((row.try_get(0)?, row.try_get(1)?, example))
}

async fn run(client: &Client, statements: &str) -> Result<(), DatabaseError> {
    let run = client.batch_execute(statements).await;
    run.map_err(DatabaseError::of("comparing the tables"))
}

async fn execute(
    client: &Client,
    statement: &str,
    values: &[(&(dyn ToSql + Sync), Type)],
) -> Result<u64, DatabaseError> {
    let executed = client.execute_typed(statement, values).await;
    executed.map_err(DatabaseError::of("comparing the tables"))
}
