//! Events into rows: the projector beside the workers of the peers, and beside the database alone.

mod rows;

use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use sandbox::fill;
use sandbox::servers::{Database, Postgres};

use self::rows::Rows;
use crate::bench::Bench;
use crate::figures::{Case, Metric, Section, Setting, Subject};
use crate::process::cpu;
use crate::stack::{
    Broker, Durability, Projectors, database_processes, drained, peer_url, postgres, session, wal,
};

/// Most rows in a transaction, beside the projector's default of 1,000.
const BATCHES: [usize; 2] = [200, 5_000];

pub(super) async fn run(bench: &mut Bench) -> Result<()> {
    let postgres = postgres().await?;
    let (count, count_of_python) = (bench.effort.rows, bench.effort.rows_of_python);
    let events: Vec<_> = fill::events(bench.seed, bench.clock.now()).take(count).collect();
    let bodies: Vec<Bytes> = events.iter().map(|event| event.body.clone()).collect();
    let broker = Broker::one(Durability::Synced).await?;
    broker.fill(events.into_iter(), count).await?;

    let mut rows = None;
    for round in bench.rounds() {
        let database = projected(bench, round, Subject::Projector, None, &broker, &postgres).await?;
        for most in BATCHES {
            projected(bench, round, Subject::Projector, Some(most), &broker, &postgres).await?;
        }
        projected(bench, round, Subject::TwoProjectors, None, &broker, &postgres).await?;
        worked(
            bench,
            round,
            Subject::PsycopgWorker,
            &bodies[..count_of_python],
            &postgres,
        )
        .await?;
        worked(bench, round, Subject::RustWorker, &bodies, &postgres).await?;
        let rows = match &mut rows {
            Some(rows) => rows,
            none => none.insert(Rows::of(&database).await?),
        };
        inserted(bench, round, Subject::Unnest, rows, &postgres).await?;
        inserted(bench, round, Subject::Copy, rows, &postgres).await?;
    }
    Ok(())
}

fn case(subject: Subject, rows: usize) -> Case {
    Case::new(Section::Projector, subject, Setting::Rows(rows))
}

/// The whole stream into an empty database; with `most`, at most so many rows at a time.
async fn projected(
    bench: &mut Bench,
    round: u32,
    subject: Subject,
    most: Option<usize>,
    broker: &Broker,
    postgres: &Postgres,
) -> Result<Database> {
    let processes = if subject == Subject::TwoProjectors { 2 } else { 1 };
    let database = postgres.create_database().await?;
    let meter = Meter::begin(postgres, &database).await?;
    // A consumer of its own begins with the first event.
    let consumer = format!("bench-{processes}-{}-{round}", most.unwrap_or_default());
    let mut projectors = Projectors::new(&bench.installed, processes, broker, &database.url(), &consumer)?;
    let mut case = case(subject, bench.effort.rows);
    if let Some(most) = most {
        projectors.at_most(most);
        case.setting = Setting::RowsInBatches(bench.effort.rows, most);
    }
    let events = bench.effort.rows as u64;
    let projected = projectors.project(events).await?;
    let mut figures = projected.figures(events).to_vec();
    figures.extend(meter.end(events).await?);
    bench.note(case, round, &figures);
    Ok(database)
}

/// Bodies that lie in an inbox into the rows of a peer.
async fn worked(
    bench: &mut Bench,
    round: u32,
    subject: Subject,
    bodies: &[Bytes],
    postgres: &Postgres,
) -> Result<()> {
    let database = postgres.create_database().await?;
    let url = peer_url(&database).await?;
    fill_inbox(&url, bodies).await?;
    let meter = Meter::begin(postgres, &database).await?;
    let (rate, ended) = if subject == Subject::PsycopgWorker {
        let worker = bench.installed.flask().join("worker.py");
        let worker = worker.to_str().context("the path of the peers is no text")?;
        drained(
            "worker.py",
            bench.installed.python.join("python"),
            &[worker],
            &url,
            bodies.len(),
        )
        .await?
    } else {
        drained(
            "inbox",
            bench.installed.inbox.clone(),
            &["drain"],
            &url,
            bodies.len(),
        )
        .await?
    };
    let thousands = bodies.len() as f64 / 1_000.0;
    let mut figures = vec![
        (Metric::Rate, rate),
        (Metric::CpuOwn, ended.cpu.as_secs_f64() / thousands),
        (Metric::Memory, ended.memory),
    ];
    figures.extend(meter.end(bodies.len() as u64).await?);
    bench.note(case(subject, bodies.len()), round, &figures);
    Ok(())
}

/// What a receiver would have left.
async fn fill_inbox(url: &str, bodies: &[Bytes]) -> Result<()> {
    let session = session(url).await?;
    let ids: Vec<String> = bodies.iter().map(|body| task_id(body)).collect::<Result<_>>()?;
    let bodies: Vec<&str> = bodies
        .iter()
        .map(|body| str::from_utf8(body))
        .collect::<Result<_, _>>()?;
    let insert = "insert into webhook_inbox (task_id, body) select id, body::jsonb from unnest($1::text[], $2::text[]) r (id, body)";
    for (ids, bodies) in ids.chunks(1_000).zip(bodies.chunks(1_000)) {
        session
            .execute(insert, &[&ids, &bodies])
            .await
            .context("filling an inbox")?;
    }
    Ok(())
}

fn task_id(body: &[u8]) -> Result<String> {
    let body: serde_json::Value = serde_json::from_slice(body)?;
    let id = body["task"]["id"]
        .as_str()
        .context("an event of a task has its id")?;
    Ok(id.to_owned())
}

/// The rows that the projector made, by the shortest ways into the database.
async fn inserted(
    bench: &mut Bench,
    round: u32,
    subject: Subject,
    rows: &Rows,
    postgres: &Postgres,
) -> Result<()> {
    let database = postgres.create_database().await?;
    let meter = Meter::begin(postgres, &database).await?;
    let session = database.connect().await;
    let took = match subject {
        Subject::Unnest => rows.insert(session).await?,
        _ => rows.copy(&session).await?,
    };
    let count = bench.effort.rows as u64;
    let mut figures = vec![(Metric::Rate, count as f64 / took.as_secs_f64())];
    figures.extend(meter.end(count).await?);
    bench.note(case(subject, bench.effort.rows), round, &figures);
    Ok(())
}

/// Measures what rows cost the database.
struct Meter<'p> {
    postgres: &'p Postgres,
    session: tokio_postgres::Client,
    wal: i64,
    cpu: Duration,
}

impl<'p> Meter<'p> {
    /// Begins behind a checkpoint, so that everybody writes the same pages to the log for the first time.
    async fn begin(postgres: &'p Postgres, database: &Database) -> Result<Self> {
        let session = database.connect().await;
        session
            .batch_execute("checkpoint")
            .await
            .context("a checkpoint")?;
        Ok(Self {
            wal: wal(&session).await?,
            cpu: cpu::of(&database_processes(postgres))?,
            postgres,
            session,
        })
    }

    /// What it was for each of so many rows.
    async fn end(self, rows: u64) -> Result<[(Metric, f64); 2]> {
        let cpu = cpu::of(&database_processes(self.postgres))? - self.cpu;
        let bytes = wal(&self.session).await? - self.wal;
        Ok([
            (Metric::CpuDatabase, cpu.as_secs_f64() / (rows as f64 / 1_000.0)),
            (Metric::Wal, bytes as f64 / rows as f64),
        ])
    }
}
