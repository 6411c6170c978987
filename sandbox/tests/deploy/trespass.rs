//! What no user of the broker may do.

use async_nats::HeaderMap;
use futures_util::StreamExt;

use crate::{
    SOON,
    broker::{API, Broker, DESTRUCTIVE, SERVICES, batch, take},
};

#[tokio::test]
async fn only_ingress_and_the_reconciler_append_and_only_the_projector_has_its_durable() {
    let broker = Broker::start().await;
    broker.with_projector().await;
    for name in ["projector", "subscriber"] {
        let results = [
            "answers.result.completed",
            "answers.result.failed",
            "answers.quarantine",
        ];
        broker.user(name).await.cannot_reach(&results).await;
    }
    for name in ["ingress", "reconciler", "subscriber"] {
        let user = broker.user(name).await;
        let requests = [
            "CONSUMER.CREATE.ANSWERS.projector",
            "CONSUMER.CREATE.ANSWERS.projector.answers.result.>",
            "CONSUMER.DELETE.ANSWERS.projector",
            "CONSUMER.MSG.NEXT.ANSWERS.projector",
            "CONSUMER.PAUSE.ANSWERS.projector",
            "CONSUMER.CREATE.ANSWERS.other.answers.result.>",
        ];
        user.cannot_ask_for(&requests).await;
        user.cannot_ask_for(&["DIRECT.GET.ANSWERS"]).await;
        user.cannot_reach(&["$JS.ACK.ANSWERS.projector.1.1.1.1.1"]).await;
    }
    assert_eq!(broker.messages().await, 3);
}

#[tokio::test]
async fn no_service_asks_for_deletion_changes_the_stream_or_hears_what_others_are_answered() {
    let broker = Broker::start().await;
    let ingress = broker.with_events().await;
    let operator = broker.user("operator").await;
    for name in SERVICES {
        let user = broker.user(name).await;
        user.cannot_ask_for(&DESTRUCTIVE).await;
        user.cannot_ask_for(&["STREAM.UPDATE.ANSWERS"]).await;
        let mut everything = user.client.subscribe(">").await.unwrap();
        user.client.flush().await.unwrap();
        operator.jetstream.get_stream("ANSWERS").await.unwrap();
        if name != "ingress" {
            ingress.jetstream.get_stream("ANSWERS").await.unwrap();
        }
        user.client.publish("own", "".into()).await.unwrap();
        let heard = tokio::time::timeout(SOON, everything.next())
            .await
            .unwrap()
            .unwrap();
        assert_eq!((name, heard.subject.as_str()), (name, "own"));
    }
    assert_eq!(broker.messages().await, 3);
}

/// It deletes single events, and nothing else.
#[tokio::test]
async fn an_eraser_cannot_append_consume_or_touch_the_stream_as_a_whole() {
    let broker = Broker::start().await;
    broker.with_events().await;
    let eraser = broker.user("eraser").await;
    let destructive: Vec<_> = DESTRUCTIVE
        .into_iter()
        .filter(|request| !request.contains("MSG.DELETE"))
        .collect();
    eraser.cannot_ask_for(&destructive).await;
    let requests = [
        "STREAM.UPDATE.ANSWERS",
        "STREAM.CREATE.ANSWERS",
        "CONSUMER.CREATE.ANSWERS.projector",
        "CONSUMER.DELETE.ANSWERS.projector",
        "CONSUMER.MSG.NEXT.ANSWERS.projector",
    ];
    eraser.cannot_ask_for(&requests).await;
    eraser
        .cannot_reach(&["answers.result.completed", "answers.quarantine"])
        .await;
    for target in destructive {
        // An empty answer is all that these would need.
        for target in [format!("$JS.API.{target}"), format!("{API}.{target}")] {
            let request = format!("{API}.DIRECT.GET.ANSWERS");
            eraser
                .has_answered_on(&target, &request, HeaderMap::new(), r#"{"seq":99}"#)
                .await;
        }
    }
    assert_eq!(broker.messages().await, 3);
}

/// The broker answers on whatever subject a request names, and does not check it against the permissions of who asks. An
/// answer may be empty, and an empty message is all that a deletion needs: within one account a reader could delete the
/// stream, or append to it.
#[tokio::test]
async fn no_service_makes_the_broker_speak_for_it() {
    let broker = Broker::start().await;
    broker.with_events().await;
    let empty = r#"{"expires":1000000,"batch":1}"#;
    for (name, request, body) in [
        ("projector", "CONSUMER.MSG.NEXT.ANSWERS.projector", empty),
        ("projector", "STREAM.MSG.GET.ANSWERS", r#"{"seq":1}"#),
        ("projector", "DIRECT.GET.ANSWERS", r#"{"seq":1}"#),
        ("projector", "DIRECT.GET.ANSWERS", r#"{"seq":99}"#),
        ("reconciler", "STREAM.MSG.GET.ANSWERS", r#"{"seq":99}"#),
        ("subscriber", "CONSUMER.MSG.NEXT.ANSWERS.subscriber", empty),
    ] {
        let user = broker.user(name).await;
        if request.contains("NEXT") {
            take(&user.consumer(name, "answers.result.>").await).await; // nothing is left, so the answer is an empty one
        }
        for target in DESTRUCTIVE {
            for target in [
                format!("$JS.API.{target}"),
                format!("{API}.{target}"),
                "answers.quarantine".to_owned(),
            ] {
                user.has_answered_on(&target, &format!("{API}.{request}"), HeaderMap::new(), body)
                    .await;
            }
        }
    }
    let ingress = broker.user("ingress").await;
    for target in DESTRUCTIVE {
        // All but the last message of a batch are answered with an empty message.
        let target = format!("$JS.API.{target}");
        let mut headers = batch(1);
        headers.insert("Nats-Batch-Id", target.as_str());
        ingress
            .has_answered_on(&target, "answers.nonfinal", headers, "")
            .await;
    }
    assert_eq!(broker.messages().await, 3);
}
