//! Brokers.

use std::time::Duration;

use async_nats::jetstream;
use sandbox::servers::{NatsOptions, NatsServer};

use crate::SOON;

async fn with_a_message(server: &NatsServer) {
    let jetstream = jetstream::new(async_nats::connect(server.url()).await.unwrap());
    let config = jetstream::stream::Config {
        name: "LOG".to_owned(),
        subjects: vec!["log".to_owned()],
        ..Default::default()
    };
    jetstream.create_stream(config).await.unwrap();
    jetstream
        .publish("log", "one".into())
        .await
        .unwrap()
        .await
        .unwrap();
}

async fn messages(server: &NatsServer) -> u64 {
    let jetstream = jetstream::new(async_nats::connect(server.url()).await.unwrap());
    jetstream
        .get_stream("LOG")
        .await
        .unwrap()
        .cached_info()
        .state
        .messages
}

#[tokio::test]
async fn a_broker_syncs_before_it_acknowledges_and_takes_large_messages() {
    let server = NatsServer::start_with(NatsOptions {
        monitor: true,
        ..NatsOptions::default()
    })
    .await
    .unwrap();
    let client = async_nats::connect(server.url()).await.unwrap();
    assert_eq!(client.server_info().max_payload, 8 << 20);
    let jsz = server.monitoring("/jsz").await;
    assert!(jsz.contains(r#""sync_always": true"#), "{jsz}");
}

#[tokio::test]
async fn a_killed_broker_comes_back_on_its_port_with_its_messages() {
    let mut server = NatsServer::start().await;
    with_a_message(&server).await;
    let (url, pid) = (server.url(), server.pid());
    server.kill();
    assert_eq!(server.pid(), None);
    assert!(async_nats::connect(&url).await.is_err());
    server.restart().await;
    assert_ne!(server.pid(), pid);
    assert_eq!((server.url(), messages(&server).await), (url, 1));
}

#[tokio::test]
async fn a_stopped_broker_comes_back_and_its_directory_goes_with_it() {
    let mut server = NatsServer::start().await;
    with_a_message(&server).await;
    server.stop().await;
    server.restart().await;
    assert_eq!(messages(&server).await, 1);
    let store = server.store_dir();
    assert!(store.exists() && server.log().exists());
    drop(server);
    assert!(!store.parent().unwrap().exists());
}

#[tokio::test]
async fn a_frozen_broker_answers_once_it_goes_on() {
    let server = NatsServer::start().await;
    let jetstream = jetstream::new(async_nats::connect(server.url()).await.unwrap());
    server.pause();
    let answer = jetstream.query_account();
    tokio::pin!(answer);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), &mut answer)
            .await
            .is_err()
    );
    server.resume();
    tokio::time::timeout(SOON, answer).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_broker_that_cannot_start_says_why() {
    let options = NatsOptions {
        extra: "no such setting".to_owned(),
        ..NatsOptions::default()
    };
    let error = NatsServer::start_with(options).await.unwrap_err().to_string();
    assert!(
        error.contains("ended by itself") && error.contains("Parse error"),
        "{error}"
    );
}
