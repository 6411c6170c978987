//! Links between a client and a server.

use std::time::Duration;

use async_nats::jetstream;
use sandbox::servers::{Link, NatsServer, Postgres};

use crate::SOON;

#[tokio::test]
async fn a_cut_link_resets_and_refuses_until_it_is_restored() {
    let database = Postgres::shared().await.fresh_database().await;
    let mut link = Link::to(Postgres::shared().await.addr()).await;
    let url = database.url_via(&link);
    let (session, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    session.simple_query("select 1").await.unwrap();
    link.cut().await;
    let ended = tokio::time::timeout(SOON, connection)
        .await
        .unwrap()
        .unwrap()
        .unwrap_err();
    assert!(format!("{ended:?}").contains("ConnectionReset"), "{ended:?}");
    let refused = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .err()
        .unwrap();
    assert!(
        format!("{refused:?}").contains("ConnectionRefused"),
        "{refused:?}"
    );
    link.restore().await;
    let _session = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_mute_link_keeps_connections_and_passes_what_it_held_back() {
    let server = NatsServer::start().await;
    let mut link = Link::to(server.addr()).await;
    let jetstream = jetstream::new(async_nats::connect(link.nats_url()).await.unwrap());
    link.mute().await;
    let answer = jetstream.query_account();
    tokio::pin!(answer);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), &mut answer)
            .await
            .is_err()
    );
    let silent = tokio::net::TcpStream::connect(link.addr()).await.unwrap();
    assert!(
        tokio::time::timeout(Duration::from_millis(50), silent.readable())
            .await
            .is_err()
    );
    link.restore().await;
    tokio::time::timeout(SOON, answer).await.unwrap().unwrap();
    // The broker speaks first.
    tokio::time::timeout(SOON, silent.readable())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn with_answers_held_the_server_does_what_it_is_asked_and_the_client_learns_of_it_later() {
    let server = NatsServer::start().await;
    let mut link = Link::to(server.addr()).await;
    let client = async_nats::connect(link.nats_url()).await.unwrap();
    let beside = async_nats::connect(server.url()).await.unwrap();
    let mut heard = beside.subscribe("asked").await.unwrap();
    // A flush does not wait for the server to have read it; its own message back says that it has.
    beside.publish("asked", "heard".into()).await.unwrap();
    futures_util::StreamExt::next(&mut heard).await.unwrap();
    link.hold_answers().await;
    client.publish("asked", "to do".into()).await.unwrap();
    let message = tokio::time::timeout(SOON, futures_util::StreamExt::next(&mut heard));
    assert_eq!(&message.await.unwrap().unwrap().payload[..], b"to do");
    let echo = client.request("asked", "again".into());
    tokio::pin!(echo);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), &mut echo)
            .await
            .is_err()
    );
    let asked = tokio::time::timeout(SOON, futures_util::StreamExt::next(&mut heard));
    let reply = asked.await.unwrap().unwrap().reply.unwrap();
    beside.publish(reply, "done".into()).await.unwrap();
    beside.flush().await.unwrap();
    assert!(
        tokio::time::timeout(Duration::from_millis(100), &mut echo)
            .await
            .is_err()
    );
    link.restore().await;
    assert_eq!(
        &tokio::time::timeout(SOON, echo).await.unwrap().unwrap().payload[..],
        b"done"
    );
}

#[tokio::test]
async fn a_slow_link_delays_both_ways() {
    let server = NatsServer::start().await;
    let link = Link::to(server.addr()).await;
    let client = async_nats::connect(link.nats_url()).await.unwrap();
    link.delay(Duration::from_millis(40));
    let start = tokio::time::Instant::now();
    let inbox = client.new_inbox();
    let mut echo = client.subscribe(inbox.clone()).await.unwrap();
    client.publish(inbox, "there and back".into()).await.unwrap();
    futures_util::StreamExt::next(&mut echo).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(80));
}

#[tokio::test]
async fn with_requests_held_the_client_hears_the_server_and_is_heard_later() {
    let server = NatsServer::start().await;
    let mut link = Link::to(server.addr()).await;
    let client = async_nats::connect(link.nats_url()).await.unwrap();
    let beside = async_nats::connect(server.url()).await.unwrap();
    let mut here = client.subscribe("news").await.unwrap();
    let mut there = beside.subscribe("word").await.unwrap();
    client.flush().await.unwrap();
    beside.flush().await.unwrap();
    link.hold_requests().await;
    beside.publish("news", "from there".into()).await.unwrap();
    let news = tokio::time::timeout(SOON, futures_util::StreamExt::next(&mut here));
    assert_eq!(&news.await.unwrap().unwrap().payload[..], b"from there");
    client.publish("word", "from here".into()).await.unwrap();
    let word = futures_util::StreamExt::next(&mut there);
    tokio::pin!(word);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), &mut word)
            .await
            .is_err()
    );
    link.restore().await;
    let word = tokio::time::timeout(SOON, word).await.unwrap();
    assert_eq!(&word.unwrap().payload[..], b"from here");
}
