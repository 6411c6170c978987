//! The broker by itself: acknowledged publishes, without HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::{HeaderMap, HeaderName};
use bytes::Bytes;
use sandbox::fill;
use stream::{Connection, StreamSpec};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::bench::Bench;
use crate::figures::{Case, Metric, Section, Setting, Subject};
use crate::process::cpu;
use crate::stack::{Broker, Durability};

const IN_FLIGHT: [usize; 2] = [64, 256];
/// Different bodies; each message has an id of its own.
const BODIES: usize = 5_000;

/// What publishers share.
#[derive(Default)]
struct Publishing {
    /// The number of the next message.
    next: AtomicU64,
    acknowledged: AtomicU64,
    over: AtomicBool,
}

/// A message without its id.
struct Message {
    subject: String,
    headers: HeaderMap,
    body: Bytes,
}

pub(super) async fn run(bench: &mut Bench) -> Result<()> {
    let messages = Arc::new(messages(bench));
    for round in bench.rounds() {
        for (subject, durability) in [
            (Subject::PublishCache, Durability::PageCache),
            (Subject::PublishSync, Durability::Synced),
        ] {
            for in_flight in IN_FLIGHT {
                let broker = Broker::one(durability).await?;
                let figures = one_by_one(bench, &broker, &messages, in_flight).await?;
                bench.note(case(subject, in_flight), round, &figures);
            }
        }
        let figures = in_batches(bench).await?;
        bench.note(
            case(Subject::PublishBatches, fill::BATCH * fill::AT_ONCE),
            round,
            &figures,
        );
    }
    Ok(())
}

fn case(subject: Subject, in_flight: usize) -> Case {
    Case::new(Section::Broker, subject, Setting::InFlight(in_flight))
}

fn messages(bench: &Bench) -> Vec<Message> {
    let subjects = StreamSpec::default().subjects;
    let events = fill::events(bench.seed, bench.clock.now()).take(BODIES);
    let message = |event: schemas::event::Event| Message {
        subject: subjects.of(event.kind).to_owned(),
        headers: event
            .headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), (&**value).into()))
            .collect(),
        body: event.body,
    };
    events.map(message).collect()
}

/// So many under way at any time, each acknowledged by itself.
async fn one_by_one(
    bench: &Bench,
    broker: &Broker,
    messages: &Arc<Vec<Message>>,
    in_flight: usize,
) -> Result<[(Metric, f64); 2]> {
    let connection = broker.connect().await?;
    let state = Arc::new(Publishing::default());
    let mut publishing = JoinSet::new();
    for _ in 0..in_flight {
        let (connection, messages, state) = (connection.clone(), Arc::clone(messages), Arc::clone(&state));
        publishing.spawn(async move {
            while !state.over.load(Ordering::Relaxed) {
                publish(&connection, &messages, state.next.fetch_add(1, Ordering::Relaxed)).await?;
                state.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    let look = async |time: Duration| {
        sleep(time).await;
        let cpu = cpu::of(&broker.processes())?;
        anyhow::Ok((state.acknowledged.load(Ordering::Relaxed), cpu, Instant::now()))
    };
    let before = look(bench.effort.lead).await?;
    let after = look(bench.effort.window).await?;
    state.over.store(true, Ordering::Relaxed);
    while let Some(ended) = publishing.join_next().await {
        ended??;
    }
    Ok(figures(
        after.0 - before.0,
        after.2 - before.2,
        after.1 - before.1,
    ))
}

async fn publish(connection: &Connection, messages: &[Message], number: u64) -> Result<()> {
    let message = &messages[number as usize % messages.len()];
    let mut headers = message.headers.clone();
    headers.insert(NATS_MESSAGE_ID, number.to_string());
    let sent =
        connection
            .jetstream
            .publish_with_headers(message.subject.clone(), headers, message.body.clone());
    let acknowledged = sent.await.context("publishing")?;
    acknowledged.await.context("waiting for an acknowledgment")?;
    Ok(())
}

/// The largest batches there are, several under way.
async fn in_batches(bench: &Bench) -> Result<[(Metric, f64); 2]> {
    let broker = Broker::one(Durability::Synced).await?;
    let count = bench.effort.rows;
    // Made before the clock runs.
    let events: Vec<_> = fill::events(bench.seed, bench.clock.now()).take(count).collect();
    let before = cpu::of(&broker.processes())?;
    let took = broker.fill(events.into_iter(), count).await?;
    Ok(figures(
        count as u64,
        took,
        cpu::of(&broker.processes())? - before,
    ))
}

fn figures(count: u64, took: Duration, cpu: Duration) -> [(Metric, f64); 2] {
    let count = count as f64;
    [
        (Metric::Rate, count / took.as_secs_f64()),
        (Metric::CpuBroker, cpu.as_secs_f64() / (count / 1_000.0)),
    ]
}
