//! Going through what a comparison found, page by page.

use database::DatabaseError;
use time::OffsetDateTime;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use super::report::Finding;
use crate::statements::{Parameter, WinnerRow, execute, query, sequence, winners_first};

const INDEX: &str = "
create index on found_answers (event_seq); create index on found_winners (key); create index on found_parked (event_seq);
create index on events_of_winners (stream_seq); create index on events_of_winners (job_key);
analyze found_answers; analyze found_winners; analyze found_parked; analyze events_of_winners";

/// Of both tables together, so that the stream need be gone through but once.
const DUE: &str = "
(select event_seq, row_seq, finding, exact from found_answers
  where finding = any($1) and event_seq > $2 order by event_seq limit $3)
union all
(select event_seq, null, finding, false from found_parked
  where finding = any($1) and event_seq > $2 order by event_seq limit $3)
order by event_seq limit $3";

const SPAN: &str = "
select count(*), min(event_seq), max(event_seq)
  from (select event_seq, finding from found_answers union all select event_seq, finding from found_parked) f
 where finding = any($1) and event_seq is not null";

const DUE_WINNERS: &str = "
select e.job_key, e.task_id, e.status, e.created_at, e.stream_seq, f.row_seq
  from found_winners f join events_of_winners e on e.stream_seq = f.event_seq
 where f.finding = $1 and f.exact = $2 and f.key > $3 order by f.key limit $4";

const EXTRA_PARKED: &str = "
select stream_created, row_seq from found_parked
 where finding = $1 and event_seq is null and ($2::timestamptz is null or (stream_created, row_seq) > ($2, $3))
 order by stream_created, row_seq limit $4";

const KEEP_PARKED: &str = "
delete from found_parked where stream_created = $1 and row_seq = $2 and event_seq is null";

/// The greatest of the other events takes the place of an event in its job.
const DETHRONE: &str = concat!(
    "
with refused as (delete from events_of_winners where stream_seq = $2)
update found_winners f
   set event_seq = (select e.stream_seq from events_of_winners e where e.job_key = $1 and e.stream_seq <> $2 order by ",
    winners_first!(),
    " limit 1)
 where f.key = $1 and f.event_seq = $2"
);

/// Nothing takes the place of an event in a job without others.
const LEAVE_EMPTY: &str =
    "delete from found_winners where key = $1 and event_seq is null and row_seq is null";

fn extra_of(table: &str) -> String {
    format!(
        "select key, row_seq from found_{table}
          where finding = $1 and event_seq is null and ($2::text is null or key > $2) order by key limit $3"
    )
}

/// A row to be set, by the event that it should come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub(super) event_seq: u64,
    /// The event that the row names.
    pub(super) row_seq: Option<i64>,
    /// What was found about it.
    pub(super) finding: Finding,
    /// Whether it may be set to less than it is.
    pub(super) exact: bool,
}

/// Where what is due lies on the stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// How many events.
    pub(super) count: u64,
    /// The first of them.
    pub(super) first: u64,
    /// The last.
    pub(super) last: u64,
}

/// A winner to be set.
#[derive(Debug)]
pub(super) struct DueWinner {
    pub(super) job_key: String,
    task_id: String,
    status: String,
    created_at: Option<OffsetDateTime>,
    due: Due,
}

/// A row to be taken away.
#[derive(Debug)]
pub(super) struct Extra {
    pub(super) key: String,
    /// The event that it names.
    row_seq: i64,
}

/// A row of `parked` to be taken away.
#[derive(Debug)]
pub(super) struct ExtraParked {
    pub(super) stream_created: OffsetDateTime,
    pub(super) stream_seq: i64,
}

impl DueWinner {
    pub(super) fn row(&self) -> WinnerRow<'_> {
        WinnerRow {
            job_key: &self.job_key,
            task_id: &self.task_id,
            status: &self.status,
            created_at: self.created_at,
            stream_seq: self.due.event_seq,
        }
    }

    pub(super) fn due(&self) -> Due {
        self.due
    }
}

impl Extra {
    pub(super) fn columns(rows: &[Self]) -> (Vec<&str>, Vec<i64>) {
        rows.iter().map(|row| (row.key.as_str(), row.row_seq)).unzip()
    }
}

impl ExtraParked {
    pub(super) fn columns(rows: &[Self]) -> (Vec<OffsetDateTime>, Vec<i64>) {
        rows.iter()
            .map(|row| (row.stream_created, row.stream_seq))
            .unzip()
    }
}

/// Makes going through it cheap.
pub(super) async fn index(client: &Client) -> Result<(), DatabaseError> {
    let indexed = client.batch_execute(INDEX).await;
    indexed.map_err(DatabaseError::of(ATTEMPT))
}

/// Where the events lie that rows of `answers` and `parked` are to be set to; None when there are none.
pub(super) async fn span(client: &Client, findings: &[Finding]) -> Result<Option<Span>, DatabaseError> {
    let findings = names(findings);
    let values: [Parameter<'_>; 1] = [(&findings, Type::TEXT_ARRAY)];
    let spans = page(client, SPAN, &values, |row| {
        let seq = |column| {
            Ok::<_, tokio_postgres::Error>(row.try_get::<_, Option<i64>>(column)?.map(i64::unsigned_abs))
        };
        let count = row.try_get::<_, i64>(0)?.unsigned_abs();
        Ok(seq(1)?
            .zip(seq(2)?)
            .map(|(first, last)| Span { count, first, last }))
    });
    Ok(spans.await?.into_iter().next().flatten())
}

/// Rows of `answers` and `parked` to be set, by event.
pub(super) async fn due(
    client: &Client,
    findings: &[Finding],
    after: u64,
    most: usize,
) -> Result<Vec<Due>, DatabaseError> {
    let (findings, after, most) = (names(findings), sequence(after), limit(most));
    let values: [Parameter<'_>; 3] = [
        (&findings, Type::TEXT_ARRAY),
        (&after, Type::INT8),
        (&most, Type::INT8),
    ];
    let rows = page(client, DUE, &values, |row| {
        let (event_seq, row_seq) = (row.try_get::<_, i64>(0)?.unsigned_abs(), row.try_get(1)?);
        let exact = row.try_get(3)?;
        Ok(Finding::of(row.try_get(2)?).map(|finding| Due {
            event_seq,
            row_seq,
            finding,
            exact,
        }))
    });
    rows.await?
        .into_iter()
        .collect::<Option<_>>()
        .ok_or(DatabaseError::Unexpected("a finding without a name"))
}

/// The row of `parked` under this sequence stays, whatever was found about it.
pub(super) async fn keep_parked(
    client: &Client,
    created: OffsetDateTime,
    seq: u64,
) -> Result<(), DatabaseError> {
    let seq = sequence(seq);
    let values: [Parameter<'_>; 2] = [(&created, Type::TIMESTAMPTZ), (&seq, Type::INT8)];
    execute(client, ATTEMPT, KEEP_PARKED, &values).await.map(drop)
}

/// The event under this sequence wins its job no more, whatever was found about it: the database refuses its row.
pub(super) async fn dethrone(client: &Client, job: &str, seq: u64) -> Result<(), DatabaseError> {
    let seq = sequence(seq);
    let values: [Parameter<'_>; 2] = [(&job, Type::TEXT), (&seq, Type::INT8)];
    execute(client, ATTEMPT, DETHRONE, &values).await?;
    execute(client, ATTEMPT, LEAVE_EMPTY, &values[..1])
        .await
        .map(drop)
}

fn names(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.as_str()).collect()
}

/// Rows of `winners` to be set, by key.
pub(super) async fn due_winners(
    client: &Client,
    finding: Finding,
    exact: bool,
    after: &str,
    most: usize,
) -> Result<Vec<DueWinner>, DatabaseError> {
    let (name, most) = (finding.as_str(), limit(most));
    let values: [Parameter<'_>; 4] = [
        (&name, Type::TEXT),
        (&exact, Type::BOOL),
        (&after, Type::TEXT),
        (&most, Type::INT8),
    ];
    page(client, DUE_WINNERS, &values, |row| {
        Ok(DueWinner {
            job_key: row.try_get(0)?,
            task_id: row.try_get(1)?,
            status: row.try_get(2)?,
            created_at: row.try_get(3)?,
            due: Due {
                event_seq: row.try_get::<_, i64>(4)?.unsigned_abs(),
                row_seq: row.try_get(5)?,
                finding,
                exact,
            },
        })
    })
    .await
}

/// Rows of a table that no event stands for, by key.
pub(super) async fn extra(
    client: &Client,
    table: &str,
    finding: Finding,
    after: Option<&str>,
    most: usize,
) -> Result<Vec<Extra>, DatabaseError> {
    let (finding, most) = (finding.as_str(), limit(most));
    let values: [Parameter<'_>; 3] = [(&finding, Type::TEXT), (&after, Type::TEXT), (&most, Type::INT8)];
    page(client, &extra_of(table), &values, |row| {
        Ok(Extra {
            key: row.try_get(0)?,
            row_seq: row.try_get(1)?,
        })
    })
    .await
}

/// The same of `parked`.
pub(super) async fn extra_parked(
    client: &Client,
    finding: Finding,
    after: Option<(OffsetDateTime, i64)>,
    most: usize,
) -> Result<Vec<ExtraParked>, DatabaseError> {
    let (finding, most) = (finding.as_str(), limit(most));
    let (created, seq) = after.unzip();
    let values: [Parameter<'_>; 4] = [
        (&finding, Type::TEXT),
        (&created, Type::TIMESTAMPTZ),
        (&seq, Type::INT8),
        (&most, Type::INT8),
    ];
    page(client, EXTRA_PARKED, &values, |row| {
        Ok(ExtraParked {
            stream_created: row.try_get(0)?,
            stream_seq: row.try_get(1)?,
        })
    })
    .await
}

const ATTEMPT: &str = "going through what was found";

async fn page<T>(
    client: &Client,
    statement: &str,
    values: &[Parameter<'_>],
    read: impl Fn(&Row) -> Result<T, tokio_postgres::Error>,
) -> Result<Vec<T>, DatabaseError> {
    let rows = query(client, ATTEMPT, statement, values).await?;
    rows.iter()
        .map(read)
        .collect::<Result<_, _>>()
        .map_err(DatabaseError::of(ATTEMPT))
}

fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}
