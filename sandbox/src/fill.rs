//! A stream with as many realistic events on it as somebody wants to measure with, put there faster than through a receiver.

use std::iter;

use async_nats::{Client, HeaderMap, HeaderName, header};
use futures_util::stream::{self, TryStreamExt};
use http::Uri;
use schemas::event::{Event, Source, Subjects, Trace, Via, classify};
use serde::Deserialize;
use thiserror::Error;
use time::OffsetDateTime;

use crate::provider::secrets::Secret;
use crate::provider::{Provider, Settings};
use crate::seed::Seed;
use crate::workload;

/// Tasks that are made at a time; all of them are in memory.
const CHUNK: usize = 10_000;
/// Messages to an atomic batch: as many as a broker takes.
pub const BATCH: usize = 1_000;
/// Batches under way. A broker keeps up to fifty of a stream open.
pub const AT_ONCE: usize = 4;

/// Why a stream was not filled.
#[derive(Debug, Error)]
pub enum FillError {
    /// A message cannot be sent.
    #[error("sending an event")]
    Publish(#[from] async_nats::PublishError),
    /// There is no answer to a batch.
    #[error("waiting for a batch to be stored")]
    Request(#[from] async_nats::RequestError),
    /// The broker refuses a batch, or does not know what one is.
    #[error("the broker did not store a batch of {events} events: {answer}")]
    Refused {
        /// Events in it.
        events: usize,
        /// What the broker says.
        answer: String,
    },
}

#[derive(Deserialize)]
struct Stored {
    count: Option<usize>,
}

/// Results as a provider delivers them, about 2 KB each, in the order in which their tasks ended; without an end. Jobs are those
/// of a [`workload::plan`], and of each run of the seed the same.
///
/// # Panics
/// Never: the provider of a plan keeps within its limits.
pub fn events(seed: Seed, now: OffsetDateTime) -> impl Iterator<Item = Event> {
    let source = Source::new("urn:answerline").expect("it is a URI");
    (0..).flat_map(move |chunk| {
        let source = source.clone();
        deliveries(seed, chunk, now).map(move |body| {
            let classified = classify(body, Via::Webhook, &source, Trace::default());
            classified.into_event().expect("every task of a plan has ended")
        })
    })
}

/// The bodies of one chunk.
fn deliveries(seed: Seed, chunk: u64, now: OffsetDateTime) -> impl Iterator<Item = bytes::Bytes> {
    let of_chunk = Seed(seed.0.wrapping_add(chunk));
    let mut planned = workload::plan(of_chunk, CHUNK, now);
    for key in planned
        .iter_mut()
        .filter_map(|task| task.request.idempotency_key.as_mut())
    {
        // Before the rerun suffix, which must stay the end.
        key.insert_str(0, &format!("{chunk}|"));
    }
    let nowhere = Settings::loopback(Uri::from_static("http://127.0.0.1:9/"));
    let mut provider = Provider::new(nowhere, Secret::generate(of_chunk, 0), of_chunk);
    workload::play(&mut provider, planned);
    let mut tasks = provider.tasks().to_vec();
    tasks.sort_by_key(|task| task.finished_at);
    tasks.into_iter().map(|task| task.body())
}

/// Puts `count` of `events` on a stream that takes atomic batches.
///
/// # Errors
/// See [`FillError`]. Whole batches are stored by then.
pub async fn fill(
    client: &Client,
    stream: &str,
    subjects: &Subjects,
    events: impl Iterator<Item = Event>,
    count: usize,
) -> Result<(), FillError> {
    let mut events = events.take(count);
    let batches = iter::from_fn(|| {
        let batch: Vec<Event> = events.by_ref().take(BATCH).collect();
        (!batch.is_empty()).then_some(batch)
    });
    stream::iter(batches.map(Ok))
        .try_for_each_concurrent(AT_ONCE, |batch| send(client, stream, subjects, batch))
        .await
}

async fn send(
    client: &Client,
    stream: &str,
    subjects: &Subjects,
    batch: Vec<Event>,
) -> Result<(), FillError> {
    let (inbox, events) = (client.new_inbox(), batch.len());
    let id = inbox.rsplit('.').next().unwrap_or_default();
    for (number, event) in (1..).zip(batch) {
        let subject = subjects.of(event.kind).to_owned();
        let mut headers = HeaderMap::new();
        for (name, value) in &event.headers {
            headers.insert(HeaderName::from_static(name), &**value);
        }
        headers.insert(header::NATS_MESSAGE_ID, event.msg_id.as_str());
        headers.insert(header::NATS_EXPECTED_STREAM, stream);
        headers.insert(header::NATS_BATCH_ID, id);
        headers.insert(header::NATS_BATCH_SEQUENCE, number.to_string());
        if number < events {
            client.publish_with_headers(subject, headers, event.body).await?;
            continue;
        }
        headers.insert(header::NATS_BATCH_COMMIT, "1");
        let answer = client.request_with_headers(subject, headers, event.body).await?;
        let stored = serde_json::from_slice::<Stored>(&answer.payload);
        if !stored.is_ok_and(|stored| stored.count == Some(events)) {
            return Err(FillError::Refused {
                events,
                answer: String::from_utf8_lossy(&answer.payload).into_owned(),
            });
        }
    }
    Ok(())
}
