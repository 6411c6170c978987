//! Consuming.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use futures_util::StreamExt;
use futures_util::future::join_all;
use sandbox::eventually::eventually;
use sandbox::servers::{Link, NatsOptions};
use stream::append::Mode;
use stream::consume::{FetchError, Start, Steward};
use stream::{Consumer, ConsumerSpec, StoredEvent, StreamSpec};

use crate::world::{SOON, World, appender, completed, connect, mode};

pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
pub(crate) const BYTES: usize = 8 << 20;

pub(crate) fn steward(world: &World) -> Steward {
    Steward::new(&world.connection, &world.declared, &ConsumerSpec::default())
}

/// Pulls from the consumer of that name, which is made when there is none.
pub(crate) async fn attach(world: &World) -> Consumer {
    let steward = steward(world);
    steward
        .create(Start::First, "ours")
        .await
        .expect("the broker answers");
    steward.attach().await.expect("the connection is open")
}

pub(crate) async fn fill(world: &World, tasks: std::ops::Range<usize>) {
    let appender = world.appender(&mode(Mode::Auto)).await;
    let answers = join_all(tasks.map(|n| appender.append(completed(&format!("t-{n}"), "yes")))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

/// Fetches and acknowledges until so many different events came.
async fn drain(consumer: &mut Consumer, events: usize) -> BTreeSet<u64> {
    let mut seen = BTreeSet::new();
    while seen.len() < events {
        for event in consumer
            .fetch(100, BYTES, PATIENCE)
            .await
            .expect("events are delivered")
        {
            event.acker.ack().await.expect("the connection is open");
            seen.insert(event.seq);
        }
    }
    seen
}

fn seqs(events: &[StoredEvent]) -> Vec<u64> {
    events.iter().map(|event| event.seq).collect()
}

#[tokio::test]
async fn events_come_in_order_with_all_that_is_stored_about_them() {
    let world = World::start().await;
    fill(&world, 0..1).await;
    let mut consumer = attach(&world).await;
    let events = consumer.fetch(10, BYTES, PATIENCE).await.unwrap();
    let [event] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(
        (event.seq, event.delivered, event.msg_id.as_deref()),
        (1, 1, Some("t-0"))
    );
    assert_eq!(event.subject, "answers.result.completed");
    assert_eq!(event.body, completed("t-0", "yes").body);
    assert!(
        event
            .header_pairs()
            .any(|pair| pair == ("Answers-Via", "webhook"))
    );
    let stored = world.stream().await.get_raw_message(1).await.unwrap().time;
    assert_eq!(event.time, stored);
}

#[tokio::test]
async fn a_fetch_takes_what_is_there_at_once_and_waits_only_for_the_first() {
    let world = World::start().await;
    let mut consumer = attach(&world).await;
    let start = Instant::now();
    assert!(
        consumer
            .fetch(10, BYTES, Duration::from_millis(300))
            .await
            .unwrap()
            .is_empty()
    );
    assert!(start.elapsed() >= Duration::from_millis(300));

    let patience = Duration::from_secs(20);
    let (events, ()) = tokio::join!(consumer.fetch(100, BYTES, patience), fill(&world, 0..1));
    assert_eq!(seqs(&events.unwrap()), [1]);
    fill(&world, 1..31).await;
    let mut seen = Vec::new();
    while seen.len() < 30 {
        seen.extend(seqs(&consumer.fetch(20, BYTES, patience).await.unwrap()));
    }
    assert_eq!(seen, (2..32).collect::<Vec<_>>());
    assert!(start.elapsed() < patience, "{:?}", start.elapsed());
}

#[tokio::test]
async fn the_limits_on_number_and_size_hold_and_nothing_is_lost_at_them() {
    let world = World::start().await;
    let appender = world.appender(&mode(Mode::Auto)).await;
    for n in 0..8 {
        appender
            .append(completed(&format!("t-{n}"), &"x".repeat(3 << 20)))
            .await
            .unwrap();
    }
    let mut consumer = attach(&world).await;
    // Less than one event may be asked for: there is always room for one.
    let mut seen = Vec::new();
    while seen.len() < 8 {
        let events = consumer.fetch(3, 1, PATIENCE).await.unwrap();
        assert!((1..=3).contains(&events.len()), "{}", events.len());
        let bytes: usize = events.iter().map(|event| event.body.len()).sum();
        assert!(bytes <= 9 << 20, "{bytes}");
        seen.extend(seqs(&events));
    }
    assert_eq!(seen, (1..=8).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_event_larger_than_any_could_be_when_the_stream_was_declared_comes_and_stops_none_behind_it() {
    let spec = StreamSpec {
        max_message: 128 << 10,
        ..StreamSpec::default()
    };
    let world = World::start_with(NatsOptions::default(), &spec).await;
    let mut consumer = attach(&world).await;
    world.reconfigure(|config| config.max_message_size = -1).await;
    let widened = stream::declare::declare(&world.connection, &StreamSpec::default())
        .await
        .expect("the stream is declared");
    let appender = appender(&world.connection, &widened, &mode(Mode::Auto)).await;
    for (task, size) in [("large", 1 << 20), ("behind", 1)] {
        let event = completed(task, &"x".repeat(size));
        appender.append(event).await.expect("it is stored");
    }
    assert_eq!(drain(&mut consumer, 2).await, BTreeSet::from([1, 2]));
}

#[tokio::test]
async fn what_is_fetched_for_somebody_who_gave_up_comes_with_the_next_fetch() {
    let world = World::start().await;
    let mut consumer = attach(&world).await;
    let mut seen = Vec::new();
    for round in 0..20 {
        fill(&world, round * 10..(round + 1) * 10).await;
        // Dropped at another point of its life each time.
        let fetch = consumer.fetch(5, BYTES, PATIENCE);
        let patience = Duration::from_micros(100 * round as u64);
        if let Ok(events) = tokio::time::timeout(patience, fetch).await {
            seen.extend(events.unwrap());
        }
    }
    while seen.len() < 200 {
        seen.extend(consumer.fetch(50, BYTES, PATIENCE).await.unwrap());
    }
    assert!(seen.iter().all(|event| event.delivered == 1));
    let mut seqs = seqs(&seen);
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=200).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_event_that_is_put_off_comes_again_after_the_delay_and_not_before() {
    let world = World::start().await;
    fill(&world, 0..1).await;
    let mut consumer = attach(&world).await;
    let delay = Duration::from_millis(400);
    let first = consumer.fetch(10, BYTES, PATIENCE).await.unwrap();
    let start = Instant::now();
    first[0].acker.nak(delay).await.unwrap();
    let again = consumer.fetch(10, BYTES, SOON).await.unwrap();
    assert!(start.elapsed() >= delay, "{:?}", start.elapsed());
    assert_eq!((again[0].seq, again[0].delivered), (1, 2));
    again[0].acker.ack().await.unwrap();
    let steward = steward(&world);
    eventually("the floor follows", SOON, async || {
        let found = steward.find().await.unwrap();
        found.is_some_and(|found| found.progress.ack_floor == 1)
    })
    .await;
}

#[tokio::test]
async fn several_consumers_of_one_name_share_the_events() {
    let world = World::start().await;
    fill(&world, 0..300).await;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let mut consumer = attach(&world).await;
        tasks.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            loop {
                let events = consumer
                    .fetch(20, BYTES, Duration::from_millis(300))
                    .await
                    .unwrap();
                if events.is_empty() {
                    return seen;
                }
                for event in events {
                    event.acker.ack().await.unwrap();
                    seen.push(event.seq);
                }
            }
        }));
    }
    let mut seen = Vec::new();
    for task in tasks {
        seen.extend(task.await.unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=300).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_deleted_consumer_is_noticed_at_once_and_one_made_anew_passes_nothing_over() {
    let world = World::start().await;
    let mut consumer = attach(&world).await;
    let stream = world.stream().await;
    let (fetched, deleted) = tokio::join!(consumer.fetch(10, BYTES, SOON), async {
        stream.delete_consumer("projector").await
    });
    deleted.unwrap();
    // The request may also have come after the deletion; either way it is not an empty list.
    assert!(matches!(fetched, Err(FetchError::Gone)), "{fetched:?}");
    assert!(matches!(
        consumer.fetch(10, BYTES, PATIENCE).await,
        Err(FetchError::Gone)
    ));
    assert!(steward(&world).find().await.unwrap().is_none());
    fill(&world, 0..10).await;
    let mut consumer = attach(&world).await;
    assert_eq!(drain(&mut consumer, 10).await.len(), 10);
}

#[tokio::test]
async fn a_consumer_that_passed_events_over_is_told_apart_and_one_made_anew_delivers_them() {
    let skipping: [(&str, pull::Config); 3] = [
        (
            "filter_subject",
            pull::Config {
                filter_subject: "answers.quarantine".to_owned(),
                ..pull::Config::default()
            },
        ),
        (
            "deliver_policy",
            pull::Config {
                deliver_policy: DeliverPolicy::New,
                ..pull::Config::default()
            },
        ),
        (
            "ack_policy",
            pull::Config {
                ack_policy: AckPolicy::None,
                ..pull::Config::default()
            },
        ),
    ];
    for (field, config) in skipping {
        let world = World::start().await;
        fill(&world, 0..5).await;
        let config = pull::Config {
            durable_name: Some("projector".to_owned()),
            ..config
        };
        let _: PullConsumer = world.stream().await.create_consumer(config).await.unwrap();
        let steward = steward(&world);
        assert!(!steward.create(Start::First, "ours").await.unwrap(), "{field}");
        let found = steward.find().await.unwrap().unwrap();
        assert!(found.skipping.contains(&field), "{field}: {found:?}");
        assert_eq!(found.claim, None);
        steward.delete().await.unwrap();
        let mut consumer = attach(&world).await;
        assert_eq!(drain(&mut consumer, 5).await.len(), 5, "{field}");
        let found = steward.find().await.unwrap().unwrap();
        assert!(
            found.skipping.is_empty() && found.changeable.is_empty(),
            "{found:?}"
        );
        assert_eq!(found.claim.as_deref(), Some("ours"));
    }
}

#[tokio::test]
async fn a_consumer_with_other_timing_is_corrected_and_keeps_its_place() {
    let world = World::start().await;
    fill(&world, 0..10).await;
    let config = pull::Config {
        durable_name: Some("projector".to_owned()),
        ack_wait: Duration::from_secs(3),
        max_ack_pending: 7,
        ..pull::Config::default()
    };
    let other: PullConsumer = world.stream().await.create_consumer(config).await.unwrap();
    let mut messages = other.fetch().max_messages(4).messages().await.unwrap();
    while let Some(message) = messages.next().await {
        message.unwrap().double_ack().await.unwrap();
    }
    let steward = steward(&world);
    let found = steward.find().await.unwrap().unwrap();
    assert_eq!(found.changeable, ["ack_wait", "max_ack_pending"]);
    steward.correct(&found).await.unwrap();
    let mut consumer = attach(&world).await;
    assert_eq!(drain(&mut consumer, 6).await, (5..=10).collect());
    let info = world.stream().await.consumer_info("projector").await.unwrap();
    assert_eq!(
        (info.config.ack_wait, info.config.max_ack_pending),
        (Duration::from_secs(60), 20_000)
    );
}

#[tokio::test]
async fn a_consumer_can_begin_behind_a_sequence_and_is_then_as_it_should_be() {
    let world = World::start().await;
    fill(&world, 0..10).await;
    let mut consumer = attach(&world).await;
    drain(&mut consumer, 10).await;
    let steward = steward(&world);
    steward.delete().await.unwrap();
    assert!(steward.create(Start::After(6), "again").await.unwrap());
    let mut again = attach(&world).await;
    assert_eq!(drain(&mut again, 4).await, (7..=10).collect());
    let found = steward.find().await.unwrap().unwrap();
    assert_eq!((found.claim.as_deref(), found.skipping.len()), (Some("again"), 0));
    let state = steward.stream_state().await.unwrap().unwrap();
    assert_eq!((state.first_seq, state.last_seq, state.events), (1, 10, 10));
    assert_eq!(steward.message_id(7).await.unwrap().as_deref(), Some("t-6"));
    assert_eq!(steward.message_id(11).await.unwrap(), None);
}

#[tokio::test]
async fn consuming_goes_on_by_itself_after_the_broker_was_killed() {
    let mut world = World::start().await;
    let mut consumer = attach(&world).await;
    fill(&world, 0..5).await;
    assert_eq!(drain(&mut consumer, 5).await.len(), 5);
    let fetching = tokio::spawn(async move {
        loop {
            match consumer.fetch(10, BYTES, PATIENCE).await {
                Ok(events) if events.iter().any(|event| event.seq == 6) => return events,
                Ok(_) | Err(FetchError::Unavailable(_) | FetchError::Silent) => {
                    tokio::task::yield_now().await
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
    world.server.kill();
    world.server.restart().await;
    let connection = &world.connection;
    eventually("the connection is back", SOON, async || {
        connection.is_connected() && connection.connects() > 1
    })
    .await;
    fill(&world, 5..6).await;
    tokio::time::timeout(SOON, fetching).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_link_that_was_mute_for_a_while_does_not_stop_consuming() {
    let world = World::start().await;
    let mut link = Link::to(world.server.addr()).await;
    let connection = connect(&link.nats_url()).await;
    // What the broker sent into the mute link comes again after this.
    let spec = ConsumerSpec {
        ack_wait: Duration::from_secs(1),
        ..ConsumerSpec::default()
    };
    let steward = Steward::new(&connection, &world.declared, &spec);
    assert!(steward.create(Start::First, "ours").await.unwrap());
    let mut consumer = steward.attach().await.unwrap();
    link.mute().await;
    fill(&world, 0..5).await;
    let silent = consumer.fetch(10, BYTES, Duration::from_millis(100)).await;
    assert!(
        matches!(silent, Ok(ref events) if events.is_empty()) || matches!(silent, Err(FetchError::Silent))
    );
    link.restore().await;
    let mut seen = BTreeSet::new();
    eventually("all events come", SOON, async || {
        let events = consumer.fetch(10, BYTES, Duration::from_millis(200)).await;
        seen.extend(events.iter().flatten().map(|event| event.seq));
        (seen.len() == 5).then_some(())
    })
    .await;
}
