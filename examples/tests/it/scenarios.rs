//! What each of the two examples goes through.

use sandbox::eventually;

use crate::SOON;
use crate::subscriber::{InPython, InRust, Subscriber};
use crate::world::{World, odd_results, result, results};

/// Makes a test of each scenario for each example.
macro_rules! in_each_language {
    ($($scenario:ident),* $(,)?) => {
        mod in_rust {
            use super::*;
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario::<InRust>().await;
            })*
        }
        mod in_python {
            use super::*;
            $(#[tokio::test]
            async fn $scenario() {
                super::$scenario::<InPython>().await;
            })*
        }
    };
}

in_each_language!(
    joining_late_and_being_away_misses_nothing,
    one_that_has_nothing_to_do_stays_connected,
    killed_with_the_broker_in_the_middle_it_goes_on_and_keeps_each_event_once,
    a_replay_begins_at_any_time_and_doubles_nothing,
    a_later_result_under_the_same_id_counts_by_the_rule,
);

async fn joining_late_and_being_away_misses_nothing<S: Subscriber>() {
    let mut world = World::start().await;
    let mut subscriber = S::of(&world).await;
    world.append(results(0..300)).await;
    world.append(odd_results()).await;
    // Another result of a task that has one.
    world.append([result("task-7", "FAILED", "{}")]).await;
    assert!(world.ids().iter().any(|id| id.starts_with("task-7#")));

    subscriber.start();
    subscriber.has_all_of(&world).await;
    world.append(results(300..310)).await;
    subscriber.has_all_of(&world).await;
    subscriber.stop().await;
    world.all_is_acknowledged().await;

    world.append(results(310..350)).await;
    assert_eq!(world.consumer().await.num_pending, 40);
    subscriber.start();
    subscriber.has_all_of(&world).await;
    subscriber.stop().await;
    world.all_is_acknowledged().await;
    let all = world.appended.len() as u64;
    assert_eq!(subscriber.taken(), (all, all), "nothing came twice");
}

async fn one_that_has_nothing_to_do_stays_connected<S: Subscriber>() {
    let mut world = World::start().await;
    let mut subscriber = S::of(&world).await;
    world.append(results(0..1)).await;
    subscriber.start();
    subscriber.has_all_of(&world).await;
    let before = world.traffic().await;
    // At least one request for events a second, and one that looks for the consumer.
    eventually("it has asked in vain several times", SOON, async || {
        let now = world.traffic().await;
        let asked = now.messages - before.messages;
        if asked >= 12 { Ok(()) } else { Err(asked) }
    })
    .await;
    assert_eq!(world.traffic().await.connections, before.connections);
    subscriber.stop().await;
}

async fn killed_with_the_broker_in_the_middle_it_goes_on_and_keeps_each_event_once<S: Subscriber>() {
    let mut world = World::start().await;
    let mut subscriber = S::of(&world).await;
    subscriber.program().set("ACK_WAIT", S::a_second());
    world.append(results(0..1500)).await;
    subscriber.start();
    for at_least in [1, 400] {
        eventually("it is at work", SOON, async || {
            let rows = subscriber.rows().await.len();
            if rows >= at_least { Ok(()) } else { Err(rows) }
        })
        .await;
        subscriber.program().kill();
        subscriber.start();
    }
    world.nats.server.kill();
    world.nats.server.restart().await;
    world.append(results(1500..1510)).await;
    subscriber.has_all_of(&world).await;
    world.all_is_acknowledged().await;
    subscriber.stop().await;
}

async fn a_replay_begins_at_any_time_and_doubles_nothing<S: Subscriber>() {
    let mut world = World::start().await;
    let mut subscriber = S::of(&world).await;
    world.append(results(0..20)).await;
    let early = world.ids();
    world.append(results(20..30)).await;
    let stream = world.user("ingress").await.get_stream("ANSWERS").await.unwrap();
    let from = stream.get_raw_message(21).await.unwrap().time;
    let from = from.replace_microsecond(from.microsecond()).unwrap();
    let from = from
        .format(&time::format_description::well_known::Rfc3339)
        .unwrap();
    subscriber.program().set("FROM", from.replace('Z', "+00:00"));
    subscriber.start();
    let late: std::collections::BTreeSet<_> = world.ids().difference(&early).cloned().collect();
    eventually("it has the later ones", SOON, async || {
        let ids = subscriber.ids().await;
        if ids == late { Ok(()) } else { Err(ids) }
    })
    .await;
    world.all_is_acknowledged().await;
    assert_eq!(subscriber.ids().await, late);
    subscriber.stop().await;

    // A consumer that is made anew begins where it is told to; the table stays as it is.
    world.delete_consumer().await;
    subscriber.program().set("FROM", "2000-01-01T00:00:00+00:00");
    subscriber.start();
    subscriber.has_all_of(&world).await;
    world.all_is_acknowledged().await;
    assert_eq!(subscriber.taken(), (10 + 30, 10 + 20));

    // Also while it runs.
    world.delete_consumer().await;
    eventually("it has taken everything again", SOON, async || {
        match subscriber.taken() {
            (70, 30) => Ok(()),
            other => Err(other),
        }
    })
    .await;
    subscriber.has_all_of(&world).await;
    subscriber.stop().await;
}

async fn a_later_result_under_the_same_id_counts_by_the_rule<S: Subscriber>() {
    let mut world = World::with_short_memory().await;
    let mut subscriber = S::of(&world).await;
    let (failed, completed) = (result("t", "FAILED", "1"), result("t", "COMPLETED", "2"));
    let later = completed
        .replace("12:00:00Z", "12:00:00.000001Z")
        .replace(":2}", ":3}");
    for body in [&failed, &completed, &failed, &later, &completed] {
        world.append_again(body.clone()).await;
    }
    subscriber.start();
    eventually("all have come", SOON, async || match subscriber.taken() {
        (5, 3) => Ok(()),
        other => Err(other),
    })
    .await;
    subscriber.stop().await;
    let rows = subscriber.rows().await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    let body: String = later.bytes().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((rows[0].event_id.as_str(), rows[0].body == body), ("t", true));
}
