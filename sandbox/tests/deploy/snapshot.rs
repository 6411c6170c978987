//! Saving the stream while the broker runs, as `nats stream backup` and `nats stream restore` do: in their protocol, by a
//! user with the rights that docs/retention.md gives.

use std::fs;

use async_nats::Client;
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::{
    SOON,
    broker::{Broker, stream, take},
    read,
};

const PASSWORD: &str = "a password of the test";

/// A broker with the user of the page beside `operator`.
async fn broker_with_backup() -> Broker {
    let page = read("docs/retention.md");
    let (_, block) = page
        .split_once("```conf\n")
        .expect("the page has the lines of the user");
    let block = block.split("```").next().unwrap().replace("…", PASSWORD);
    let config = read("deploy/nats.conf");
    let place = "        users: [\n";
    assert_eq!(config.matches(place).count(), 1);
    let deploy = tempfile::tempdir().unwrap();
    let edited = config.replace(place, &format!("{place}{block}"));
    fs::write(deploy.path().join("nats.conf"), edited).unwrap();
    fs::write(deploy.path().join("make-secrets"), read("deploy/make-secrets")).unwrap();
    Broker::start_from(deploy.path()).await
}

async fn as_backup(broker: &Broker) -> Client {
    async_nats::ConnectOptions::new()
        .user_and_password("backup".to_owned(), PASSWORD.to_owned())
        .connect(broker.server().url())
        .await
        .unwrap()
}

async fn ask(client: &Client, subject: &str, body: impl Into<Bytes>) -> Value {
    let answer = client.request(subject.to_owned(), body.into()).await.unwrap();
    let answer: Value = serde_json::from_slice(&answer.payload).unwrap_or_default();
    assert!(answer["error"].is_null(), "{subject}: {answer}");
    answer
}

/// Configuration and state, and the chunks.
async fn save(client: &Client) -> (Value, Vec<Bytes>) {
    let inbox = client.new_inbox();
    let mut chunks = client.subscribe(inbox.clone()).await.unwrap();
    let request = json!({"deliver_subject": inbox, "chunk_size": 65_536}).to_string();
    let answer = ask(client, "$JS.API.STREAM.SNAPSHOT.ANSWERS", request).await;
    let mut all = Vec::new();
    loop {
        let chunk = tokio::time::timeout(SOON, chunks.next()).await.unwrap().unwrap();
        if chunk.payload.is_empty() {
            assert_eq!(chunk.status, None, "{chunk:?}");
            return (answer, all);
        }
        if let Some(reply) = chunk.reply {
            client.publish(reply, "".into()).await.unwrap();
        }
        all.push(chunk.payload);
    }
}

async fn restore(client: &Client, saved: &Value, chunks: Vec<Bytes>) {
    let request = json!({"config": saved["config"], "state": saved["state"]}).to_string();
    let answer = ask(client, "$JS.API.STREAM.RESTORE.ANSWERS", request).await;
    let target = answer["deliver_subject"].as_str().unwrap();
    for chunk in chunks {
        ask(client, target, chunk).await;
    }
    ask(client, target, "").await;
}

#[tokio::test]
async fn a_snapshot_brings_stream_and_consumer_back_with_another_creation_time() {
    let broker = broker_with_backup().await;
    broker.with_events().await;
    let projector = broker.user("projector").await;
    let durable = projector.consumer("projector", "answers.>").await;
    assert_eq!(take(&durable).await.len(), 3);
    let created = created(&broker).await;
    let (saved, chunks) = save(&as_backup(&broker).await).await;
    assert_eq!(saved["config"]["name"], stream().name);
    drop(broker);

    let broker = broker_with_backup().await;
    restore(&as_backup(&broker).await, &saved, chunks).await;
    assert_eq!(broker.messages().await, 3);
    // So projectors take it for another stream, as the page says.
    assert_ne!(self::created(&broker).await, created);
    let projector = broker.user("projector").await;
    let log = projector.jetstream.get_stream("ANSWERS").await.unwrap();
    let consumer = log.consumer_info("projector").await.unwrap();
    assert_eq!(consumer.ack_floor.stream_sequence, 3);
    assert_eq!(log.get_raw_message(2).await.unwrap().payload, "answers.nonfinal");
}

/// When the stream was created.
async fn created(broker: &Broker) -> String {
    let operator = broker.user("operator").await;
    let log = operator.jetstream.get_stream("ANSWERS").await.unwrap();
    log.cached_info().created.to_string()
}
