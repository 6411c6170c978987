//! The rows of a projection, ready to be inserted again.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures_util::{SinkExt as _, TryStreamExt as _};
use sandbox::servers::Database;
use time::OffsetDateTime;
use tokio_postgres::types::{FromSqlOwned, ToSql};
use tokio_postgres::{Client, Row, Statement, Transaction};

/// As many as the projector brings into a transaction at most.
const BATCH: usize = 1_000;
const TABLES: [&str; 2] = ["answers", "winners"];

const READ_ANSWERS: &str = "
select task_id, job_key, idempotency_key, status, created_at, response::text, response_digest, problem, via, stream_seq,
       received_at
  from answers order by stream_seq";
const READ_WINNERS: &str =
    "select job_key, task_id, status, created_at, stream_seq from winners order by stream_seq";

const INSERT_ANSWERS: &str = "
insert into answers (task_id, job_key, idempotency_key, status, created_at, response, response_digest, problem, via, stream_seq,
                     received_at)
select unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::text[]), unnest($5::timestamptz[]),
       unnest($6::text[])::jsonb, unnest($7::bytea[]), unnest($8::text[]), unnest($9::text[]), unnest($10::bigint[]),
       unnest($11::timestamptz[])";
const INSERT_WINNERS: &str = "
insert into winners (job_key, task_id, status, created_at, stream_seq)
select unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::timestamptz[]), unnest($5::bigint[])";

/// All rows of a projection.
pub(super) struct Rows {
    answers: Vec<Row>,
    winners: Vec<Row>,
    /// Each table in the binary form of COPY.
    copies: Vec<(&'static str, Vec<Bytes>)>,
}

impl Rows {
    /// Reads them out of the database that they were projected into.
    pub(super) async fn of(database: &Database) -> Result<Self> {
        let session = database.connect().await;
        let mut copies = Vec::new();
        for table in TABLES {
            let copy = format!("copy {table} to stdout (format binary)");
            let copy = session
                .copy_out(&copy)
                .await
                .with_context(|| format!("reading {table}"))?;
            copies.push((table, copy.try_collect().await?));
        }
        Ok(Self {
            answers: session
                .query(READ_ANSWERS, &[])
                .await
                .context("reading answers")?,
            winners: session
                .query(READ_WINNERS, &[])
                .await
                .context("reading winners")?,
            copies,
        })
    }

    /// Inserts them through `unnest`, a thousand to a transaction; gives how long that took. Both statements are prepared, and the
    /// values lie ready, before time runs.
    pub(super) async fn insert(&self, mut session: Client) -> Result<Duration> {
        let answers = session.prepare(INSERT_ANSWERS).await?;
        let winners = session.prepare(INSERT_WINNERS).await?;
        let tasks: Vec<_> = self
            .answers
            .chunks(BATCH)
            .map(of_answers)
            .collect::<Result<_>>()?;
        let jobs: Vec<_> = self
            .winners
            .chunks(BATCH)
            .map(of_winners)
            .collect::<Result<_>>()?;
        let began = Instant::now();
        // There are fewer jobs than tasks.
        let mut jobs = jobs.iter();
        for tasks in &tasks {
            let transaction = session.transaction().await?;
            insert(&transaction, &answers, tasks).await?;
            if let Some(jobs) = jobs.next() {
                insert(&transaction, &winners, jobs).await?;
            }
            transaction.commit().await?;
        }
        Ok(began.elapsed())
    }

    /// Copies them in, in one transaction; gives how long that took.
    pub(super) async fn copy(&self, session: &Client) -> Result<Duration> {
        let began = Instant::now();
        session.batch_execute("begin").await?;
        for (table, pieces) in &self.copies {
            let copy = format!("copy {table} from stdin (format binary)");
            let sink = session
                .copy_in(&copy)
                .await
                .with_context(|| format!("filling {table}"))?;
            let mut sink = std::pin::pin!(sink);
            for piece in pieces {
                sink.feed(piece.clone()).await?;
            }
            sink.finish().await.with_context(|| format!("filling {table}"))?;
        }
        session.batch_execute("commit").await?;
        Ok(began.elapsed())
    }
}

/// An array for each column.
type Columns = Vec<Box<dyn ToSql + Sync + Send>>;

fn of_answers(rows: &[Row]) -> Result<Columns> {
    Ok(vec![
        column::<String>(rows, 0)?,
        column::<String>(rows, 1)?,
        column::<Option<String>>(rows, 2)?,
        column::<String>(rows, 3)?,
        column::<Option<OffsetDateTime>>(rows, 4)?,
        column::<Option<String>>(rows, 5)?,
        column::<Vec<u8>>(rows, 6)?,
        column::<Option<String>>(rows, 7)?,
        column::<String>(rows, 8)?,
        column::<i64>(rows, 9)?,
        column::<OffsetDateTime>(rows, 10)?,
    ])
}

fn of_winners(rows: &[Row]) -> Result<Columns> {
    Ok(vec![
        column::<String>(rows, 0)?,
        column::<String>(rows, 1)?,
        column::<String>(rows, 2)?,
        column::<Option<OffsetDateTime>>(rows, 3)?,
        column::<i64>(rows, 4)?,
    ])
}

fn column<T>(rows: &[Row], index: usize) -> Result<Box<dyn ToSql + Sync + Send>>
where
    T: FromSqlOwned + ToSql + Sync + Send + 'static,
{
    let values = rows.iter().map(|row| row.try_get(index));
    let values: Vec<T> = values.collect::<Result<_, _>>().context("reading a column")?;
    Ok(Box::new(values))
}

async fn insert(transaction: &Transaction<'_>, statement: &Statement, columns: &Columns) -> Result<()> {
    let values: Vec<&(dyn ToSql + Sync)> = columns.iter().map(|column| &**column as _).collect();
    transaction
        .execute(statement, &values)
        .await
        .context("inserting rows")?;
    Ok(())
}
