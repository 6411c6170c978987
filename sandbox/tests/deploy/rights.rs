//! What each user of the broker may do.

use std::{path::Path, process::Command};

use async_nats::{
    ConnectErrorKind, ConnectOptions, StatusCode,
    jetstream::{context::PublishErrorKind, stream::Config},
};
use futures_util::{StreamExt, TryStreamExt};

use crate::{
    ROOT, SOON,
    broker::{API, Broker, DESTRUCTIVE, SERVICES, batch, password, stream, take},
};

#[tokio::test]
async fn ingress_makes_the_stream_appends_in_batches_and_reads_back() {
    let broker = Broker::start().await;
    let ingress = broker.with_events().await;
    ingress
        .client
        .publish_with_headers("answers.result.failed", batch(1), "one".into())
        .await
        .unwrap();
    let mut last = batch(2);
    last.insert("Nats-Batch-Commit", "1");
    let ack = ingress
        .jetstream
        .publish_with_headers("answers.result.failed", last, "two".into())
        .await
        .unwrap();
    assert_eq!(ack.await.unwrap().sequence, 5);
    let log = ingress.jetstream.get_stream("ANSWERS").await.unwrap();
    assert_eq!(log.get_raw_message(5).await.unwrap().payload, "two");
    assert_eq!(log.get_raw_message(4).await.unwrap().payload, "one");
}

#[tokio::test]
async fn ingress_learns_at_once_that_there_is_no_stream() {
    let broker = Broker::start().await;
    let ingress = broker.user("ingress").await;
    let error = ingress
        .jetstream
        .publish("answers.nonfinal", "".into())
        .await
        .unwrap()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), PublishErrorKind::StreamNotFound);
}

#[tokio::test]
async fn a_projector_owns_its_durable_and_reads_the_stream() {
    let broker = Broker::start().await;
    let ingress = broker.with_events().await;
    let projector = broker.user("projector").await;
    let log = projector.jetstream.get_stream("ANSWERS").await.unwrap();
    let mut durable = projector.consumer("projector", "answers.>").await;
    assert_eq!(
        take(&durable).await,
        [
            "answers.result.completed",
            "answers.nonfinal",
            "answers.quarantine"
        ]
    );
    assert_eq!(durable.info().await.unwrap().ack_floor.stream_sequence, 3);
    // A pull that waits is served when something comes.
    let pull = durable
        .batch()
        .max_messages(1)
        .expires(SOON)
        .messages()
        .await
        .unwrap();
    ingress
        .jetstream
        .publish("answers.result.failed", "new".into())
        .await
        .unwrap()
        .await
        .unwrap();
    let pulled: Vec<_> = pull.try_collect().await.unwrap();
    assert_eq!(pulled[0].payload, "new");
    log.resume_consumer("projector").await.unwrap();
    log.delete_consumer("projector").await.unwrap();
    projector.consumer("projector", "").await;
    log.direct_get(1).await.unwrap();
    log.get_raw_message(1).await.unwrap();
}

/// As explain does: nothing is made for it on the broker, and nothing is left there.
#[tokio::test]
async fn a_projector_reads_many_events_with_one_request() {
    let broker = Broker::start().await;
    broker.with_events().await;
    let projector = broker.user("projector").await;
    let mut answers = projector.client.subscribe("answers-of-a-read").await.unwrap();
    let request = projector.client.publish_with_reply(
        format!("{API}.DIRECT.GET.ANSWERS"),
        "answers-of-a-read",
        r#"{"seq":1,"batch":100}"#.into(),
    );
    request.await.unwrap();
    let mut read = Vec::new();
    loop {
        let answer = tokio::time::timeout(SOON, answers.next()).await.unwrap().unwrap();
        if answer.status == Some(StatusCode::from_u16(204).unwrap()) {
            break;
        }
        read.push(answer.payload);
    }
    assert_eq!(
        read,
        [
            "answers.result.completed",
            "answers.nonfinal",
            "answers.quarantine"
        ]
    );
    let log = projector.jetstream.get_stream("ANSWERS").await.unwrap();
    assert_eq!(log.cached_info().state.consumer_count, 0);
}

#[tokio::test]
async fn a_reconciler_appends_results_and_sees_how_far_the_projectors_are() {
    let broker = Broker::start().await;
    broker.with_projector().await;
    let reconciler = broker.user("reconciler").await;
    let ack = reconciler
        .jetstream
        .publish("answers.result.failed", "found".into())
        .await
        .unwrap();
    assert_eq!(ack.await.unwrap().sequence, 4);
    let log = reconciler.jetstream.get_stream("ANSWERS").await.unwrap();
    assert_eq!(log.get_raw_message(4).await.unwrap().payload, "found");
    assert_eq!(log.consumer_info("projector").await.unwrap().num_pending, 4);
    reconciler
        .cannot_reach(&["answers.nonfinal", "answers.quarantine"])
        .await;
}

#[tokio::test]
async fn a_subscriber_reads_results_and_nothing_else() {
    let broker = Broker::start().await;
    broker.with_events().await;
    let subscriber = broker.user("subscriber").await;
    let log = subscriber.jetstream.get_stream("ANSWERS").await.unwrap();
    let mut durable = subscriber.consumer("subscriber", "answers.result.>").await;
    assert_eq!(take(&durable).await, ["answers.result.completed"]);
    assert_eq!(durable.info().await.unwrap().ack_floor.stream_sequence, 1);
    log.delete_consumer("subscriber").await.unwrap();
    let requests = [
        "CONSUMER.CREATE.ANSWERS.subscriber",
        "CONSUMER.CREATE.ANSWERS.subscriber.answers.quarantine",
        "CONSUMER.DURABLE.CREATE.ANSWERS.subscriber",
        "DIRECT.GET.ANSWERS",
        "STREAM.MSG.GET.ANSWERS",
    ];
    subscriber.cannot_ask_for(&requests).await;
    // The filter in the subject is the filter in force: one that says something else in its body gets no consumer.
    let body = r#"{"stream_name":"ANSWERS","config":{"name":"subscriber","filter_subject":"answers.>"}}"#;
    let subject = format!("{API}.CONSUMER.CREATE.ANSWERS.subscriber.answers.result.completed");
    let answer = subscriber.client.request(subject, body.into()).await.unwrap();
    assert!(
        String::from_utf8_lossy(&answer.payload).contains("error"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn the_operator_changes_the_stream_and_may_not_delete_or_append() {
    let broker = Broker::start().await;
    broker.with_events().await;
    let mut operator = broker.user("operator").await;
    let changed = Config {
        max_bytes: 1 << 30,
        ..stream()
    };
    let info = operator.jetstream.update_stream(&changed).await.unwrap();
    assert_eq!(info.config.max_bytes, 1 << 30);
    operator
        .is_refused(&DESTRUCTIVE.map(|request| format!("$JS.API.{request}")))
        .await;
    operator
        .is_refused(&["answers.result.completed".to_owned(), "_INBOX.forged".to_owned()])
        .await;
    assert_eq!(broker.messages().await, 3);
}

#[tokio::test]
async fn an_eraser_reads_the_stream_and_deletes_single_events() {
    let broker = Broker::start().await;
    broker.with_events().await;
    broker
        .user("projector")
        .await
        .consumer("projector", "answers.>")
        .await;
    let eraser = broker.user("eraser").await;
    let log = eraser.jetstream.get_stream("ANSWERS").await.unwrap();
    assert_eq!(log.direct_get(2).await.unwrap().payload, "answers.nonfinal");
    assert_eq!(log.get_raw_message(2).await.unwrap().payload, "answers.nonfinal");
    assert_eq!(log.consumer_info("projector").await.unwrap().num_pending, 3);
    assert!(log.delete_message(2).await.unwrap());
    assert_eq!(broker.messages().await, 2);
}

#[tokio::test]
async fn nobody_connects_without_a_password_of_the_files() {
    let broker = Broker::start().await;
    let url = broker.server().url();
    let attempts = [
        ConnectOptions::new(),
        ConnectOptions::new().user_and_password("ingress".to_owned(), broker.password("projector")),
        ConnectOptions::new().user_and_password("ingress".to_owned(), "$INGRESS_PASSWORD".to_owned()),
    ];
    for attempt in attempts {
        let error = attempt.connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ConnectErrorKind::AuthorizationViolation);
    }
}

#[tokio::test]
async fn the_broker_syncs_before_it_acknowledges_and_takes_eight_megabytes() {
    let broker = Broker::start().await;
    let ingress = broker.user("ingress").await;
    assert_eq!(ingress.client.server_info().max_payload, 8 << 20);
    let jsz = broker.server().monitoring("/jsz").await;
    assert!(jsz.contains(r#""sync_always": true"#), "{jsz}");
}

/// `deploy/make-secrets` may run again at any time.
#[test]
fn passwords_that_are_there_stay_and_no_two_are_equal() {
    let dir = tempfile::tempdir().unwrap();
    let make = || {
        let script = Path::new(ROOT).join("deploy/make-secrets");
        assert!(Command::new(script).arg(dir.path()).status().unwrap().success());
        SERVICES.map(|user| password(dir.path(), user))
    };
    let first = make();
    assert_eq!(make(), first);
    let distinct: std::collections::HashSet<_> =
        first.iter().filter(|password| password.len() == 32).collect();
    assert_eq!(distinct.len(), SERVICES.len());
}
