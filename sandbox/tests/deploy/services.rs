//! What the services do with the stream, as the users they run as.

use sandbox::eventually;
use schemas::event::{Source, Trace, Via, classify};
use stream::{
    AppendSettings, Appended, Appender, Reader, StreamSpec,
    append::{Metrics, Mode},
    connect::Settings,
    consume::{ConsumerSpec, Start, Steward},
};

use crate::{
    SOON,
    broker::{API, Broker},
};

/// Group commit included.
#[tokio::test]
async fn what_the_services_do_with_the_stream_is_within_their_rights() {
    let broker = Broker::start().await;
    let settings_of = |user: &str| {
        let settings = Settings {
            api_prefix: API.to_owned(),
            ..Settings::for_url(broker.server().url())
        };
        settings.with_user(user, broker.password(user))
    };
    let connect = async |user: &str| stream::connect::connect(&settings_of(user), user).await.unwrap();
    let (ingress, projector, reconciler) = (
        connect("ingress").await,
        connect("projector").await,
        connect("reconciler").await,
    );
    // Small: the broker reserves it, on whatever disk this is.
    let spec = StreamSpec {
        max_bytes: 64 << 20,
        ..StreamSpec::default()
    };
    let (declared, seen) = tokio::join!(
        stream::declare::declare(&ingress, &spec),
        stream::declare::declare(&projector, &spec)
    );
    let (declared, seen) = (declared.unwrap(), seen.unwrap());
    let settings = AppendSettings {
        mode: Mode::Batch,
        ..AppendSettings::default()
    };
    let start = async |connection| {
        let (appender, worker) = Appender::start(connection, &declared, &settings, Metrics::unregistered())
            .await
            .unwrap();
        tokio::spawn(worker.run());
        appender
    };
    let appended = start(&ingress).await;
    let stored = futures_util::future::join_all((0..100).map(|n| appended.append(event(n)))).await;
    assert!(
        stored
            .iter()
            .all(|one| matches!(one, Ok(Appended::Stored { .. }))),
        "{stored:?}"
    );
    let again = start(&reconciler).await.append(event(7)).await.unwrap();
    assert!(matches!(again, Appended::Duplicate { .. }), "{again:?}");

    let spec = ConsumerSpec::default();
    let steward = Steward::new(&projector, &seen, &spec);
    assert!(steward.create(Start::First, "ours").await.unwrap());
    let mut consumer = steward.attach().await.unwrap();
    let mut fetched = 0;
    while fetched < 100 {
        let events = consumer.fetch(40, 1 << 20, SOON).await.unwrap();
        assert!(!events.is_empty());
        for event in &events {
            event.acker.ack().await.unwrap();
        }
        fetched += events.len();
    }
    eventually("the acknowledgments have arrived", SOON, async || {
        let found = steward.find().await.unwrap().unwrap();
        if found.progress.ack_floor == 100 {
            Ok(())
        } else {
            Err(found)
        }
    })
    .await;
    assert!(steward.message_id(8).await.unwrap().is_some());
    steward.delete().await.unwrap();
    assert!(steward.create(Start::After(99), "again").await.unwrap());
    let mut consumer = steward.attach().await.unwrap();
    assert_eq!(consumer.fetch(40, 1 << 20, SOON).await.unwrap()[0].seq, 100);

    let floor = Reader::new(&projector, "ANSWERS")
        .floor_under("projector", |claim| claim == "again")
        .await;
    assert_eq!(floor.unwrap(), Some(99));

    // Going through the stream, as verify, rebuild and erase do: with a consumer for as long as it takes.
    let more = futures_util::future::join_all((100..2_500).map(|n| appended.append(event(n)))).await;
    assert!(more.iter().all(Result::is_ok), "{more:?}");
    for user in ["projector", "eraser"] {
        let connection = connect(user).await;
        let stream = connection.jetstream.get_stream("ANSWERS").await.unwrap();
        let consumers = async || stream.get_info().await.unwrap().state.consumer_count;
        let before = consumers().await;
        let mut scan = Reader::new(&connection, "ANSWERS").scan(&settings_of(user), 1, 2_500);
        let mut seqs = Vec::new();
        while let Some(events) = scan.next().await.unwrap() {
            if seqs.is_empty() {
                assert_eq!(consumers().await, before + 1, "{user}");
            }
            seqs.extend(events.iter().map(|event| event.seq));
        }
        assert_eq!(seqs, (1..=2_500).collect::<Vec<u64>>(), "{user}");
        assert_eq!(consumers().await, before, "{user}");
    }
}

fn event(number: u32) -> schemas::event::Event {
    let body = format!(
        r#"{{"task":{{"id":"task-{number}","status":"COMPLETED","createdAt":"2026-11-30T12:00:00Z"}},"response":{{}}}}"#
    );
    let source = Source::new("urn:answerline").unwrap();
    classify(body.into(), Via::Webhook, &source, Trace::default())
        .into_event()
        .unwrap()
}
