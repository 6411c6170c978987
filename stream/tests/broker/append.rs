//! Appending: the promises about what is on the stream once an answer is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sandbox::eventually::eventually;
use sandbox::servers::{Disk, Link, NatsOptions, NatsServer};
use schemas::event::Kind;
use stream::append::{Metrics, Mode, ProbeError};
use stream::connect::Settings;
use stream::{AppendError, AppendSettings, Appended, Appender, StreamSpec};

use crate::world::{SOON, World, appender, completed, connect, event, mode};

#[tokio::test]
async fn an_event_is_stored_byte_for_byte_under_its_task_id() {
    let world = World::start().await;
    let appender = world.appender(&mode(Mode::Auto)).await;
    let event = completed("t-1", "yes");
    assert_eq!(
        appender.append(event.clone()).await,
        Ok(Appended::Stored { seq: 1 })
    );
    assert_eq!(world.stored(1).await, Some(("t-1".to_owned(), event.body)));
}

#[tokio::test]
async fn every_event_of_a_batch_gets_its_own_sequence() {
    let world = World::start().await;
    let appender = world.appender(&mode(Mode::Batch)).await;
    let events: Vec<_> = (0..300).map(|n| completed(&format!("t-{n}"), "yes")).collect();
    let answers = join_all(events.iter().map(|event| appender.append(event.clone()))).await;
    // An older server would sync for every event of a batch as well, so it is given none.
    let batches_pay = world.connection.server_version() >= (2, 15, 0);
    assert_eq!(world.batched().await > 0, batches_pay);
    for (event, answer) in events.into_iter().zip(answers) {
        let Ok(Appended::Stored { seq }) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(
            world.stored(seq).await,
            Some((event.msg_id.to_string(), event.body))
        );
    }
    assert_eq!(world.last_seq().await, 300);
}

#[tokio::test]
async fn without_atomic_batches_events_are_stored_just_as_well() {
    let world = World::start().await;
    world
        .reconfigure(|config| config.allow_atomic_publish = false)
        .await;
    let appender = world.appender(&mode(Mode::Batch)).await;
    let answers = join_all((0..50).map(|n| appender.append(completed(&format!("t-{n}"), "yes")))).await;
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Ok(Appended::Stored { .. }))),
        "{answers:?}"
    );
    assert_eq!((world.last_seq().await, world.batched().await), (50, 0));
}

#[tokio::test]
async fn batches_that_are_forbidden_while_we_run_cost_no_event() {
    let world = World::start().await;
    let appender = world.appender(&mode(Mode::Batch)).await;
    world
        .reconfigure(|config| config.allow_atomic_publish = false)
        .await;
    for round in 0..3 {
        let events = (0..50).map(|n| appender.append(completed(&format!("t-{round}-{n}"), "yes")));
        let answers = join_all(events).await;
        assert!(
            answers
                .iter()
                .all(|answer| matches!(answer, Ok(Appended::Stored { .. }))),
            "{answers:?}"
        );
    }
    assert_eq!(world.last_seq().await, 150);
}

#[tokio::test]
async fn the_same_delivery_again_is_a_duplicate_with_or_without_memory() {
    let world = World::start().await;
    for recent_ids in [0, 1000] {
        let settings = AppendSettings {
            recent_ids,
            ..AppendSettings::default()
        };
        let appender = world.appender(&settings).await;
        let task = format!("t-{recent_ids}");
        let seq = appender.append(completed(&task, "yes")).await.unwrap().seq();
        assert_eq!(
            appender.append(completed(&task, "yes")).await,
            Ok(Appended::Duplicate { seq })
        );
        let spaced = format!(
            r#"{{ "sent_at": 7, "response": {{"result": "yes"}}, "task": {{"status": "COMPLETED", "id": "{task}"}} }}"#
        );
        assert_eq!(
            appender.append(event(&spaced)).await,
            Ok(Appended::Duplicate { seq })
        );
    }
    assert_eq!(world.last_seq().await, 2);
}

#[tokio::test]
async fn another_result_of_the_task_is_stored_beside_the_first_under_an_id_of_its_own() {
    let world = World::start().await;
    for recent_ids in [0, 1000] {
        let settings = AppendSettings {
            recent_ids,
            ..AppendSettings::default()
        };
        let appender = world.appender(&settings).await;
        let task = format!("t-{recent_ids}");
        let first = appender.append(completed(&task, "yes")).await.unwrap().seq();
        let divergent = completed(&task, "no");
        let answer = appender.append(divergent.clone()).await;
        assert_eq!(answer, Ok(Appended::Divergent { seq: first + 1 }));
        let (id, body) = world.stored(first + 1).await.unwrap();
        assert!(id.starts_with(&format!("{task}#")), "{id}");
        assert_eq!(body, divergent.body);
        assert_eq!(
            appender.append(divergent).await,
            Ok(Appended::Duplicate { seq: first + 1 })
        );
        assert_eq!(
            appender.append(completed(&task, "yes")).await,
            Ok(Appended::Duplicate { seq: first })
        );
    }
}

#[tokio::test]
async fn a_duplicate_of_a_deleted_event_is_stored_again() {
    let world = World::start().await;
    let settings = AppendSettings {
        recent_ids: 0,
        ..AppendSettings::default()
    };
    let appender = world.appender(&settings).await;
    let seq = appender.append(completed("t", "yes")).await.unwrap().seq();
    world.stream().await.delete_message(seq).await.unwrap();
    assert_eq!(
        appender.append(completed("t", "yes")).await,
        Ok(Appended::Divergent { seq: seq + 1 })
    );
    assert_eq!(world.stored(seq + 1).await.unwrap().1, completed("t", "yes").body);
}

#[tokio::test]
async fn a_duplicate_of_a_deleted_body_that_holds_no_result_is_stored_again_too() {
    let world = World::start().await;
    let settings = AppendSettings {
        recent_ids: 0,
        ..AppendSettings::default()
    };
    let appender = world.appender(&settings).await;
    for body in ["not json", r#"{"task":{"id":"t","status":"PROCESSING"}}"#] {
        let seq = appender.append(event(body)).await.unwrap().seq();
        world.stream().await.delete_message(seq).await.unwrap();
        let again = appender.append(event(body)).await;
        assert_eq!(again, Ok(Appended::Divergent { seq: seq + 1 }));
        let id = format!("{}#again", event(body).msg_id);
        assert_eq!(world.stored(seq + 1).await, Some((id, event(body).body)));
        let once_more = appender.append(event(body)).await;
        assert_eq!(once_more, Ok(Appended::Duplicate { seq: seq + 1 }));
    }
}

#[tokio::test]
async fn a_large_duplicate_is_compared_too() {
    let world = World::start().await;
    let settings = AppendSettings {
        recent_ids: 0,
        ..AppendSettings::default()
    };
    let appender = world.appender(&settings).await;
    let large = "x".repeat(1 << 20);
    let seq = appender.append(completed("t", &large)).await.unwrap().seq();
    let respaced =
        format!(r#"{{"task":{{"id":"t","status":"COMPLETED"}},"response": {{"result":"{large}"}}}}"#);
    assert_eq!(
        appender.append(event(&respaced)).await,
        Ok(Appended::Duplicate { seq })
    );
    let other = completed("t", &"y".repeat(1 << 20));
    assert_eq!(
        appender.append(other).await,
        Ok(Appended::Divergent { seq: seq + 1 })
    );
}

#[tokio::test]
async fn quarantined_bodies_are_stored_once_each_and_take_no_tasks_place() {
    let world = World::start().await;
    let settings = AppendSettings {
        recent_ids: 0,
        ..AppendSettings::default()
    };
    let appender = world.appender(&settings).await;
    assert_eq!(
        appender.append(event("not json")).await,
        Ok(Appended::Stored { seq: 1 })
    );
    assert_eq!(
        appender.append(event("not json")).await,
        Ok(Appended::Duplicate { seq: 1 })
    );
    let open = r#"{"task":{"id":"t","status":"PROCESSING"}}"#;
    assert_eq!(
        appender.append(event(open)).await,
        Ok(Appended::Stored { seq: 2 })
    );
    assert_eq!(
        appender.append(completed("t", "yes")).await,
        Ok(Appended::Stored { seq: 3 })
    );
}

#[tokio::test]
async fn a_batch_that_holds_a_known_id_gives_each_caller_its_own_answer() {
    let world = World::start().await;
    let first = world.appender(&mode(Mode::Batch)).await;
    let seq = first.append(completed("t-17", "yes")).await.unwrap().seq();
    // Another process: it does not remember the id.
    let second = world.appender(&mode(Mode::Batch)).await;
    let answers = join_all((0..40).map(|n| second.append(completed(&format!("t-{n}"), "yes")))).await;
    for (n, answer) in answers.iter().enumerate() {
        match n {
            17 => assert_eq!(*answer, Ok(Appended::Duplicate { seq })),
            _ => assert!(matches!(answer, Ok(Appended::Stored { .. })), "{n}: {answer:?}"),
        }
    }
    assert_eq!(world.last_seq().await, 40);
}

#[tokio::test]
async fn two_appenders_share_a_stream_and_no_event_is_stored_twice() {
    let world = World::start().await;
    let connections = [
        connect(&world.server.url()).await,
        connect(&world.server.url()).await,
    ];
    let mut tasks = Vec::new();
    for (index, connection) in connections.iter().enumerate() {
        let appender = appender(connection, &world.declared, &mode(Mode::Batch)).await;
        // Half of the tasks are brought to both.
        for n in 0..200 {
            let appender = appender.clone();
            let task = format!("t-{}", n + index * 100);
            tasks.push(tokio::spawn(async move {
                appender.append(completed(&task, "yes")).await
            }));
        }
    }
    for task in tasks {
        assert!(matches!(
            task.await.unwrap(),
            Ok(Appended::Stored { .. } | Appended::Duplicate { .. })
        ));
    }
    assert_eq!(world.last_seq().await, 300);
}

#[tokio::test]
async fn a_full_stream_refuses_and_says_so() {
    let world = World::start().await;
    world.reconfigure(|config| config.max_bytes = 4096).await;
    let appender = world.appender(&mode(Mode::Auto)).await;
    let answers = join_all((0..40).map(|n| appender.append(completed(&format!("t-{n}"), "yes")))).await;
    let refused = answers
        .iter()
        .filter(|answer| matches!(answer, Err(AppendError::StreamFull(_))))
        .count();
    let stored = answers
        .iter()
        .filter(|answer| matches!(answer, Ok(Appended::Stored { .. })))
        .count();
    assert!(refused > 0 && stored > 0 && refused + stored == 40, "{answers:?}");
    assert_eq!(world.last_seq().await, stored as u64);
    assert!(AppendError::StreamFull(String::new()).is_retryable());

    world.reconfigure(|config| config.max_bytes = 1 << 20).await;
    assert!(matches!(
        appender.append(completed("t-39", "yes")).await,
        Ok(Appended::Stored { .. })
    ));
}

#[tokio::test]
async fn the_probe_tells_full_changed_sealed_and_missing_streams() {
    let world = World::start().await;
    let appender = world.appender(&mode(Mode::Auto)).await;
    let fill = appender.probe(&Kind::ALL).await.unwrap();
    assert_eq!((fill.bytes, fill.ratio()), (0, 0.0));
    world.reconfigure(|config| config.max_bytes = 1).await;
    appender.append(completed("t", "yes")).await.unwrap_err();
    assert_eq!(
        appender.probe(&Kind::ALL).await.unwrap_err().to_string(),
        "the stream is full"
    );
    world
        .reconfigure(|config| (config.max_bytes, config.no_ack) = (-1, true))
        .await;
    let unfit = appender.probe(&Kind::ALL).await.unwrap_err().to_string();
    assert!(unfit.contains("no_ack is true, not false"), "{unfit}");
    world.reconfigure(|config| config.no_ack = false).await;
    appender.probe(&Kind::ALL).await.unwrap();
    world.reconfigure(|config| config.max_bytes = 4096).await;
    appender.append(completed("t", "yes")).await.unwrap();
    let fill = appender.probe(&Kind::ALL).await.unwrap();
    assert_eq!((fill.most_bytes, fill.events), (Some(4096), 1));
    assert_eq!(fill.ratio(), fill.bytes as f64 / 4096.0);
    world
        .reconfigure(|config| (config.max_bytes, config.max_messages) = (-1, 2))
        .await;
    assert_eq!(appender.probe(&Kind::ALL).await.unwrap().ratio(), 0.5);
    world.reconfigure(|config| config.sealed = true).await;
    assert_eq!(
        appender.probe(&Kind::ALL).await.unwrap_err().to_string(),
        "the stream is sealed"
    );
    world
        .connection
        .jetstream
        .delete_stream(world.declared.name())
        .await
        .unwrap();
    assert_eq!(
        appender.probe(&Kind::ALL).await.unwrap_err().to_string(),
        "there is no stream ANSWERS"
    );
}

#[tokio::test]
async fn the_probe_tells_a_broker_that_stores_nothing_since_its_disk_was_full() {
    let disk = Disk::new(16 << 20).unwrap();
    let options = NatsOptions {
        store: Some(disk.path().join("store")),
        ..NatsOptions::default()
    };
    let mut world = World::start_with(options, &StreamSpec::default()).await;
    let settings = AppendSettings {
        publish_timeout: Duration::from_millis(500),
        ..mode(Mode::Auto)
    };
    let appender = world.appender(&settings).await;
    appender.append(completed("before", "yes")).await.unwrap();
    appender.probe(&Kind::ALL).await.unwrap();
    disk.fill().unwrap();
    // More than fits into what the file has of the disk already.
    let large = completed("during", &"no room ".repeat(1000));
    assert_eq!(appender.append(large.clone()).await, Err(AppendError::TimedOut));
    let unready = async |appender: &Appender| match appender.probe(&Kind::ALL).await {
        Err(ProbeError::NotStored(AppendError::TimedOut)) => Ok(()),
        other => Err(other),
    };
    eventually("the probe says so", SOON, async || unready(&appender).await).await;
    // Room alone does not help: the broker keeps the stream as it is.
    disk.clear().unwrap();
    assert_eq!(appender.append(large.clone()).await, Err(AppendError::TimedOut));
    unready(&appender).await.unwrap();
    world.server.restart().await;
    eventually("the probe is content", SOON, async || {
        appender.probe(&Kind::ALL).await
    })
    .await;
    appender.append(large).await.unwrap();
    assert_eq!(world.all_ids().await, ["before", "during"]);
}

#[tokio::test]
async fn the_probe_tells_a_user_who_may_not_publish_and_stores_nothing() {
    let options = NatsOptions::default().with_user_who_may_not_publish("answers.quarantine");
    let server = NatsServer::start_with(options).await.unwrap();
    for (user, kinds, content) in [
        ("all", &Kind::ALL[..], true),
        ("some", &[Kind::Completed, Kind::Failed], true),
        ("some", &Kind::ALL, false),
    ] {
        let settings = Settings::for_url(server.url()).with_user(user, "x");
        let connection = stream::connect::connect(&settings, "test").await.unwrap();
        let declared = stream::declare::declare(&connection, &StreamSpec::default())
            .await
            .unwrap();
        let settings = AppendSettings {
            publish_timeout: Duration::from_secs(1),
            ..AppendSettings::default()
        };
        let appender = appender(&connection, &declared, &settings).await;
        match appender.probe(kinds).await {
            Ok(_) => assert!(content, "{user}"),
            Err(error) => {
                assert!(!content, "{user}: {error}");
                assert!(error.to_string().contains("answers.quarantine"), "{error}");
            }
        }
        let info = connection.jetstream.get_stream(declared.name()).await.unwrap();
        assert_eq!(info.cached_info().state.last_sequence, 0);
        assert_eq!(connection.connects(), 1);
    }
}

#[tokio::test]
async fn a_repeat_is_stored_again_when_the_stream_was_deleted_and_made_anew() {
    let world = World::start().await;
    let appender = world.appender(&mode(Mode::Auto)).await;
    appender.append(completed("t", "yes")).await.unwrap();
    let (jetstream, name) = (&world.connection.jetstream, world.declared.name());
    jetstream.delete_stream(name).await.unwrap();
    jetstream
        .create_stream(&world.declared.info.config)
        .await
        .unwrap();
    appender.probe(&Kind::ALL).await.unwrap();
    assert_eq!(
        appender.append(completed("t", "yes")).await,
        Ok(Appended::Stored { seq: 1 })
    );
}

#[tokio::test]
async fn an_event_that_is_too_large_is_refused_and_the_connection_stays() {
    let options = NatsOptions {
        max_payload: 256 * 1024,
        ..NatsOptions::default()
    };
    let world = World::start_with(options, &StreamSpec::default()).await;
    let appender = world.appender(&mode(Mode::Batch)).await;
    let limit = 256 * 1024;
    assert_eq!(world.declared.max_body(), limit - 64 * 1024);
    let large = appender.append(completed("large", &"x".repeat(limit))).await;
    assert_eq!(large, Err(AppendError::TooLarge { limit }));
    // The largest body that is promised to fit does, also in the company of others.
    let largest = world.declared.max_body() - completed("largest", "").body.len();
    let events = (0..4).map(|n| completed(&format!("t{n}-----"), &"x".repeat(largest)));
    let answers = join_all(events.map(|event| appender.append(event))).await;
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, Ok(Appended::Stored { .. }))),
        "{answers:?}"
    );
    assert_eq!(world.connection.connects(), 1);
}

#[tokio::test]
async fn a_frozen_broker_gives_an_error_within_the_publish_limit_and_a_repeat_is_stored_once() {
    let world = World::start().await;
    let limit = Duration::from_millis(500);
    let settings = AppendSettings {
        publish_timeout: limit,
        ..AppendSettings::default()
    };
    let appender = world.appender(&settings).await;
    appender.append(completed("before", "yes")).await.unwrap();
    world.server.pause();
    let start = Instant::now();
    let answers = join_all((0..50).map(|n| appender.append(completed(&format!("t-{n}"), "yes")))).await;
    let took = start.elapsed();
    assert!(
        answers.iter().all(|answer| *answer == Err(AppendError::TimedOut)),
        "{answers:?}"
    );
    assert!(took >= limit && took < limit + Duration::from_secs(1), "{took:?}");
    world.server.resume();
    for n in 0..50 {
        let task = format!("t-{n}");
        eventually("the repeat is taken", SOON, async || {
            appender.append(completed(&task, "yes")).await
        })
        .await;
    }
    assert_eq!(world.last_seq().await, 51);
}

#[tokio::test]
async fn every_acknowledged_event_survives_a_broker_that_is_killed_again_and_again() {
    let mut world = World::start().await;
    let settings = AppendSettings {
        publish_timeout: Duration::from_secs(3),
        ..AppendSettings::default()
    };
    let appender = world.appender(&settings).await;
    let stop = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..24)
        .map(|caller| {
            let (appender, stop) = (appender.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let task = format!("t-{caller}-{n}");
                    // The sender tries again until it is told that the event is stored.
                    while let Err(error) = appender.append(completed(&task, "yes")).await {
                        assert!(error.is_retryable(), "{error}");
                    }
                    acknowledged.push(task);
                }
                acknowledged
            })
        })
        .collect();
    for _ in 0..3 {
        let before = world.last_seq().await;
        eventually("events are stored", SOON, async || {
            world.try_last_seq().await > Some(before + 50)
        })
        .await;
        world.server.kill();
        world.server.restart().await;
        let connection = &world.connection;
        eventually("the connection is back", SOON, async || connection.is_connected()).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    for caller in callers {
        acknowledged.extend(caller.await.unwrap());
    }
    let mut stored = world.all_ids().await;
    stored.sort_unstable();
    acknowledged.sort_unstable();
    assert_eq!(stored, acknowledged);
}

#[tokio::test]
async fn a_short_outage_costs_no_caller_an_error() {
    let world = World::start().await;
    let mut link = Link::to(world.server.addr()).await;
    let connection = connect(&link.nats_url()).await;
    let appender = appender(&connection, &world.declared, &AppendSettings::default()).await;
    appender.append(completed("before", "yes")).await.unwrap();
    link.cut().await;
    let waiting: Vec<_> = (0..100)
        .map(|n| {
            let appender = appender.clone();
            tokio::spawn(async move { appender.append(completed(&format!("t-{n}"), "yes")).await })
        })
        .collect();
    eventually("the loss is noticed", SOON, async || !connection.is_connected()).await;
    link.restore().await;
    for answer in join_all(waiting).await {
        assert!(matches!(
            answer.unwrap(),
            Ok(Appended::Stored { .. } | Appended::Duplicate { .. })
        ));
    }
    assert_eq!(world.last_seq().await, 101);
    assert_eq!(connection.connects(), 2);
}

#[tokio::test]
async fn ids_are_forgotten_with_the_connection_so_a_broker_that_lost_an_event_gets_it_again() {
    let mut world = World::start().await;
    let appender = world.appender(&AppendSettings::default()).await;
    appender.append(completed("t", "yes")).await.unwrap();
    world.server.kill();
    std::fs::remove_dir_all(world.server.store_dir()).unwrap();
    world.server.restart().await;
    let (connection, spec) = (world.connection.clone(), StreamSpec::default());
    eventually("the connection is back", SOON, async || {
        connection.is_connected() && connection.connects() > 1
    })
    .await;
    stream::declare::declare(&connection, &spec).await.unwrap();
    assert_eq!(
        appender.append(completed("t", "yes")).await,
        Ok(Appended::Stored { seq: 1 })
    );
}

#[tokio::test]
async fn an_outage_longer_than_the_limit_is_refused_at_once_and_ends_by_itself() {
    let mut world = World::start().await;
    let limit = Duration::from_millis(300);
    let settings = AppendSettings {
        publish_timeout: limit,
        ..AppendSettings::default()
    };
    let appender = world.appender(&settings).await;
    world.server.kill();
    let connection = world.connection.clone();
    eventually("the loss is noticed", SOON, async || !connection.is_connected()).await;
    assert_eq!(
        appender.append(completed("t", "yes")).await,
        Err(AppendError::Disconnected)
    );
    let start = Instant::now();
    assert_eq!(
        appender.append(completed("t", "yes")).await,
        Err(AppendError::Disconnected)
    );
    assert!(start.elapsed() < limit, "{:?}", start.elapsed());
    assert!(appender.probe(&Kind::ALL).await.is_err());
    world.server.restart().await;
    eventually("it is stored", SOON, async || {
        appender.append(completed("t", "yes")).await
    })
    .await;
}

#[tokio::test]
async fn callers_that_give_up_leave_nothing_behind() {
    let world = World::start().await;
    let (appender, worker) = Appender::start(
        &world.connection,
        &world.declared,
        &mode(Mode::Batch),
        Metrics::unregistered(),
    )
    .await
    .unwrap();
    let worker = tokio::spawn(worker.run());
    for n in 0..300 {
        let appender = appender.clone();
        let caller = tokio::spawn(async move { appender.append(completed(&format!("t-{n}"), "yes")).await });
        tokio::task::yield_now().await;
        caller.abort();
    }
    let answers = join_all((0..300).map(|n| appender.append(completed(&format!("t-{n}"), "yes")))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(world.last_seq().await, 300);
    // The worker ends only when nothing at all is under way any more.
    drop(appender);
    tokio::time::timeout(SOON, worker).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_subject_that_belongs_to_another_stream_is_an_error_that_says_so() {
    let world = World::start().await;
    let appender = world.appender(&mode(Mode::Auto)).await;
    let jetstream = &world.connection.jetstream;
    jetstream.delete_stream(world.declared.name()).await.unwrap();
    let other = async_nats::jetstream::stream::Config {
        name: "OTHER".to_owned(),
        subjects: vec!["answers.>".to_owned()],
        ..Default::default()
    };
    jetstream.create_stream(other).await.unwrap();
    let answer = appender.append(completed("t", "yes")).await;
    assert!(matches!(answer, Err(AppendError::WrongStream(_))), "{answer:?}");
}
