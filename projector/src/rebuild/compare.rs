//! Comparing the tables with what was replayed, at one moment, without a lock that anybody would notice.

use database::{DatabaseError, Session};
use time::OffsetDateTime;
use tokio_postgres::types::{Timestamp, Type};
use tokio_postgres::{Client, Row};

use super::report::{Example, Finding, TableReport};
use super::shape::{ANSWERS, Shape, WINNERS};
use super::sql;
use crate::statements::{Parameter, execute, query, query_one};

/// So many examples of each finding are shown.
const EXAMPLES: i64 = 5;

const ATTEMPT: &str = "comparing the tables";

/// Between which points of the stream a comparison stands, as its statements take them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The end of the replay.
    pub(super) end: i64,
    /// Everything up to here must be in the tables; read before the moment of comparison.
    pub(super) floor: i64,
    /// The end of the stream, read behind that moment: every row seen is of an event up to there.
    pub(super) last: i64,
    /// Rows of an earlier time may be of events that this stream never held; infinite: any row may.
    pub(super) begin: Timestamp<OffsetDateTime>,
    /// When the stream was created.
    pub(super) created: OffsetDateTime,
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
pub(super) async fn compare(session: &Session, bounds: &Bounds) -> Result<Compared, DatabaseError> {
    let client = session.client();
    let setting_up = [
        ANSWERS.create(),
        WINNERS.create(),
        sql::CREATE_FOUND_PARKED.to_owned(),
    ]
    .join("; ");
    run(client, &setting_up).await?;
    let refused = execute(
        client,
        ATTEMPT,
        sql::REFUSED,
        &[(&bounds.created, Type::TIMESTAMPTZ)],
    )
    .await?;
    suspect(client, bounds).await?;
    let compared = Compared {
        answers: maxima(client, &ANSWERS, bounds).await?,
        winners: maxima(client, &WINNERS, bounds).await?,
        parked: parked(client, bounds).await?,
        refused,
    };
    run(client, "commit").await?;
    Ok(compared)
}

/// The suspect keys, and what there is on them.
async fn suspect(client: &Client, bounds: &Bounds) -> Result<(), DatabaseError> {
    for shape in [&ANSWERS, &WINNERS] {
        execute(client, ATTEMPT, &shape.suspects(), &[]).await?;
        run(client, &format!("analyze suspect_{}", shape.table)).await?;
    }
    execute(client, ATTEMPT, sql::BRING_BACK, &[(&bounds.end, Type::INT8)]).await?;
    run(client, "analyze replayed_results").await
}

async fn maxima(client: &Client, shape: &Shape, bounds: &Bounds) -> Result<TableReport, DatabaseError> {
    execute(client, ATTEMPT, &shape.events(), &[]).await?;
    run(client, &format!("analyze events_of_{}", shape.table)).await?;
    let values: [Parameter<'_>; 4] = [
        (&bounds.end, Type::INT8),
        (&bounds.floor, Type::INT8),
        (&bounds.last, Type::INT8),
        (&bounds.begin, Type::TIMESTAMPTZ),
    ];
    execute(client, ATTEMPT, &shape.find(), &values).await?;
    table(client, shape.table).await
}

async fn parked(client: &Client, bounds: &Bounds) -> Result<TableReport, DatabaseError> {
    let values: [Parameter<'_>; 5] = [
        (&bounds.end, Type::INT8),
        (&bounds.floor, Type::INT8),
        (&bounds.last, Type::INT8),
        (&bounds.begin, Type::TIMESTAMPTZ),
        (&bounds.created, Type::TIMESTAMPTZ),
    ];
    execute(client, ATTEMPT, sql::FIND_PARKED, &values).await?;
    table(client, "parked").await
}

async fn table(client: &Client, table: &str) -> Result<TableReport, DatabaseError> {
    let attempt = "counting what was found";
    let rows: i64 = query_one(client, attempt, &sql::count(table), &[]).await?;
    let found = query(client, attempt, &sql::findings(table), &[(&EXAMPLES, Type::INT8)]).await?;
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
    run.map_err(DatabaseError::of(ATTEMPT))
}
