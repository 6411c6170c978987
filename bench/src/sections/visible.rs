//! From the sender's first byte to the row that others can see.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_postgres::Client;

use super::rates::prepare;
use super::receiving::one;
use crate::bars::PER_SECOND;
use crate::bench::Bench;
use crate::figures::{Case, Metric, Section, Setting, Subject};
use crate::load::{Batch, Latencies, Open, Schedule};
use crate::stack::{Durability, Projectors, Receiver, postgres, session};

/// Few enough that nothing waits for anything, and the rate at which it is judged.
const RATES: [u32; 2] = [100, PER_SECOND];
/// Between two looks. What is seen may have been there for so long already.
const LOOK: Duration = Duration::from_millis(1);
/// Tasks asked for in one look.
const MOST: usize = 500;
/// After so long without a new row, none will come.
const PATIENCE: Duration = Duration::from_secs(30);
const ROWS: &str = "select task_id from answers where task_id = any($1)";

pub(super) async fn run(bench: &mut Bench) -> Result<()> {
    let postgres = postgres().await?;
    let database = postgres.create_database().await?;
    let mut ingress = one(bench, Subject::Pipeline, Durability::Synced, None).await?;
    let broker = ingress.receiver.broker().context("ingress has a broker")?;
    let mut projectors = Projectors::new(&bench.installed, 1, broker, &database.url(), "projector")?;
    projectors.start().await?;
    for rate in RATES {
        let case = Case::new(Section::Visible, Subject::Pipeline, Setting::PerSecond(rate));
        for round in bench.rounds() {
            until_visible(bench, &mut ingress.receiver, &database.url(), rate, (case, round)).await?;
        }
    }
    projectors.stop().await?;
    ingress.receiver.check().await
}

/// Sends at a rate to a pipeline that runs, and notes how long each delivery takes until its row is seen.
pub(super) async fn until_visible(
    bench: &mut Bench,
    ingress: &mut Receiver,
    url: &str,
    rate: u32,
    (case, round): (Case, u32),
) -> Result<()> {
    let session = session(url).await?;
    // New tables have no statistics yet, and look too small for an index.
    session
        .batch_execute("set enable_seqscan = off")
        .await
        .context("a setting")?;
    let (batch, load) = prepare(bench, rate);
    let (tell, begun) = oneshot::channel();
    let watching = async {
        let schedule = begun.await.context("the sender did not begin")?;
        watch(&session, &batch, load, schedule).await
    };
    let (_, seen) = tokio::try_join!(ingress.open(&batch, load, tell), watching)?;
    let figures = [
        (Metric::Median, seen.percentile(50.0)),
        (Metric::P99, seen.percentile(99.0)),
        (Metric::P999, seen.percentile(99.9)),
    ];
    bench.note(case, round, &figures);
    Ok(())
}

/// Looks for the rows of what should have been sent, until all are there.
async fn watch(session: &Client, batch: &Batch, load: Open, schedule: Schedule) -> Result<Latencies> {
    let rows = session.prepare(ROWS).await.context("preparing to look")?;
    let (mut latencies, mut awaited, mut sent) = (Latencies::default(), VecDeque::new(), 0);
    let from = schedule.at(0) + load.lead;
    let mut last_seen = Instant::now();
    while sent < batch.len() || !awaited.is_empty() {
        let due = schedule.due(Instant::now()).min(batch.len());
        awaited.extend(sent..due);
        sent = due;
        let id = |number: &usize| batch.get(*number).map(|delivery| &*delivery.task_id);
        let ids: Vec<&str> = awaited.iter().take(MOST).filter_map(id).collect();
        let there = session.query(&rows, &[&ids]).await.context("looking for rows")?;
        let now = Instant::now();
        let there: HashSet<&str> = there.iter().map(|row| row.get(0)).collect();
        awaited.retain(|number| {
            let seen = id(number).is_some_and(|id| there.contains(id));
            let at = schedule.at(*number);
            if seen && from <= at && at < from + load.window {
                latencies.add(now - at);
            }
            !seen
        });
        if !there.is_empty() || awaited.is_empty() {
            last_seen = now;
        }
        ensure!(
            last_seen.elapsed() < PATIENCE,
            "{} rows do not come",
            awaited.len()
        );
        sleep(LOOK).await;
    }
    ensure!(latencies.count() > 0, "no row was looked for");
    Ok(latencies)
}
