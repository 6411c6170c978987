//! The consumer and the broker: taken away, frozen, changed by others.

use std::collections::HashMap;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull, push};
use sandbox::eventually;
use sandbox::servers::{Link, Postgres};
use tokio::time::Instant;

use crate::answer::Answer;
use crate::projector::Projector;
use crate::world::{SOON, World, nats};

fn answers(prefix: &str, count: usize) -> impl Iterator<Item = Answer> {
    (0..count).map(move |number| Answer::of(&format!("{prefix}{number}")))
}

#[tokio::test]
async fn a_deleted_consumer_is_made_anew_with_nothing_skipped() {
    let world = World::new().await;
    let projector = world.start().await;
    world.publish_all(answers("a", 5)).await;
    world.rows("answers", 5).await;
    world.stream().await.delete_consumer("projector").await.unwrap();
    world.publish_all(answers("b", 5)).await;
    world.rows("answers", 10).await;
    projector.ready().await;
    world.settled().await;
    assert!(
        projector.log().contains("the consumer was deleted"),
        "{}",
        projector.log()
    );
    assert_eq!(world.count("parked").await, 0);
}

#[tokio::test]
async fn after_a_restart_of_the_broker_projecting_goes_on_by_itself_and_costs_nothing_meanwhile() {
    let mut nats = nats().await;
    let world = World::on(&nats, Postgres::shared().await.fresh_database().await).await;
    let projector = world.start().await;
    world.publish_all(answers("a", 3)).await;
    world.rows("answers", 3).await;
    nats.kill();
    projector.unready("broker").await;
    let (begun, used) = (Instant::now(), projector.processor_seconds());
    let window = Duration::from_millis(1500);
    eventually("a while has passed", SOON, async || begun.elapsed() > window).await;
    let share = (projector.processor_seconds() - used) / begun.elapsed().as_secs_f64();
    assert!(share < 0.1, "{share} of a core");
    assert!(projector.log().lines().count() < 20, "{}", projector.log());
    nats.restart().await;
    eventually("the test's own connection is back", SOON, async || {
        world.connection.is_connected()
    })
    .await;
    world.publish_all(answers("b", 3)).await;
    world.rows("answers", 6).await;
    projector.ready().await;
}

#[tokio::test]
async fn a_frozen_link_to_the_broker_is_noticed_and_got_over() {
    let world = World::new().await;
    let broker = world.nats_url.trim_start_matches("nats://").parse().unwrap();
    let mut link = Link::to(broker).await;
    let projector = world
        .projector()
        .set("NATS_URL", link.nats_url())
        .start_ready()
        .await;
    link.mute().await;
    projector.unready("broker").await;
    world.publish_all(answers("a", 3)).await;
    link.restore().await;
    world.rows("answers", 3).await;
    projector.ready().await;
}

#[tokio::test]
async fn a_consumer_of_our_name_that_is_not_of_our_making_is_reported_and_replaced() {
    let pull = |change: fn(&mut pull::Config)| {
        let mut config = pull::Config {
            durable_name: Some("projector".to_owned()),
            ..pull::Config::default()
        };
        change(&mut config);
        config
    };
    let pulls = [
        pull(|config| config.filter_subject = "nothing.at.all".to_owned()),
        pull(|config| config.deliver_policy = DeliverPolicy::New),
        pull(|config| config.ack_policy = AckPolicy::None),
        pull(|config| config.max_deliver = 1),
        pull(|config| config.headers_only = true),
        pull(|config| {
            config.metadata = HashMap::from([("answerlog.claim".to_owned(), "another life".to_owned())])
        }),
    ];
    for (number, config) in pulls.into_iter().enumerate() {
        let world = World::new().await;
        world.publish(&Answer::of("before")).await;
        let mut config = config;
        if !config.filter_subject.is_empty() {
            config.filter_subject = world.spec.subjects.results().to_owned();
        }
        world.stream().await.create_consumer(config).await.unwrap();
        let projector = world.start().await;
        world.publish_body("no json").await;
        world.rows("answers", 1).await;
        world.rows("parked", 1).await;
        let log = projector.log();
        assert!(
            [
                "is replaced",
                "projecting again after sequence 0",
                "projecting all of it"
            ]
            .iter()
            .any(|words| log.contains(words)),
            "{number}: {log}"
        );
    }

    let world = World::new().await;
    world.publish(&Answer::of("before")).await;
    let pushing = push::Config {
        durable_name: Some("projector".to_owned()),
        deliver_subject: "somewhere.else".to_owned(),
        ..push::Config::default()
    };
    world.stream().await.create_consumer(pushing).await.unwrap();
    let _projector = world.start().await;
    world.rows("answers", 1).await;
}

#[tokio::test]
async fn new_settings_change_the_consumer_as_it_runs() {
    let world = World::new().await;
    let old = world.projector().set("ACK_WAIT", "40s").start_ready().await;
    let before = world.consumer().await.unwrap();
    assert_eq!(before.config.ack_wait, Duration::from_secs(40));
    let new = world.projector().set("ACK_WAIT", "50s").start_ready().await;
    let after = world.consumer().await.unwrap();
    assert_eq!(
        (after.config.ack_wait, after.created),
        (Duration::from_secs(50), before.created)
    );
    assert!(new.log().contains("ack_wait"), "{}", new.log());
    world.publish_all(answers("a", 3)).await;
    world.rows("answers", 3).await;
    old.ready().await;
    assert_eq!(world.consumer().await.unwrap().created, before.created);
}

#[tokio::test]
async fn a_filter_put_on_the_consumer_as_it_runs_is_taken_off_and_what_it_hid_is_projected() {
    let world = World::new().await;
    let projector = world.start().await;
    world.publish(&Answer::of("a")).await;
    world.rows("answers", 1).await;
    let mut config = world.consumer().await.unwrap().config;
    config.filter_subject = world.spec.subjects.results().to_owned();
    let config = pull::Config {
        durable_name: Some("projector".to_owned()),
        deliver_policy: config.deliver_policy,
        ack_wait: config.ack_wait,
        filter_subject: config.filter_subject,
        max_ack_pending: config.max_ack_pending,
        max_deliver: -1,
        metadata: config.metadata,
        ..pull::Config::default()
    };
    world.stream().await.update_consumer(config).await.unwrap();
    world.publish_body("no json").await;
    world.publish(&Answer::of("b")).await;
    world.rows("parked", 1).await;
    world.rows("answers", 2).await;
    assert!(
        projector.log().contains("somebody changed the consumer"),
        "{}",
        projector.log()
    );
}

#[tokio::test]
async fn a_pause_and_limits_below_a_batch_are_said_and_put_right_before_and_while_it_runs() {
    let world = World::new().await;
    let projector = world.start().await;
    let (stream, created) = (world.stream().await, world.consumer().await.unwrap());
    let limited = pull::Config {
        durable_name: Some("projector".to_owned()),
        ack_wait: created.config.ack_wait,
        filter_subject: created.config.filter_subject,
        metadata: created.config.metadata,
        max_ack_pending: 1,
        max_batch: 1,
        ..pull::Config::default()
    };
    stream.update_consumer(limited).await.unwrap();
    put_right(&world, &projector, "its max_ack_pending is 1, its max_batch is 1").await;

    let far = time::macros::datetime!(2100-01-01 0:00 UTC);
    stream.pause_consumer("projector", far).await.unwrap();
    world.publish_all(answers("a", 20)).await;
    put_right(&world, &projector, "it is paused for another").await;
    world.rows("answers", 20).await;
    projector.stop().await;

    stream.pause_consumer("projector", far).await.unwrap();
    world.publish(&Answer::of("later")).await;
    let projector = world.start().await;
    world.rows("answers", 21).await;
    put_right(&world, &projector, "pause_until").await;
    assert_eq!(world.consumer().await.unwrap().created, created.created);
}

/// Waits until the consumer is as it was, and the projector has said what was wrong with it.
async fn put_right(world: &World, projector: &Projector, said: &str) {
    eventually("the consumer is as it should be", SOON, async || {
        let now = world.consumer().await.unwrap();
        match (now.config.max_ack_pending, now.config.max_batch, now.paused) {
            (20_000, 0, false) => Ok(()),
            other => Err(other),
        }
    })
    .await;
    assert!(projector.log().contains(said), "{}", projector.log());
    projector.ready().await;
}

#[tokio::test]
async fn slow_batches_are_not_delivered_again_and_again() {
    let world = World::new().await;
    let projector = world
        .projector()
        .set("STATEMENT_TIMEOUT", "300ms")
        .set("ACK_WAIT", "1500ms")
        .start_ready()
        .await;
    let mut other = world.database.connect().await;
    let lock = other.transaction().await.unwrap();
    lock.batch_execute("lock table answers in exclusive mode")
        .await
        .unwrap();
    world.publish_all(answers("a", 40)).await;
    // Longer than the ack wait: each try takes the statement timeout.
    eventually("many tries were too slow", SOON, async || {
        projector.metric("projector_transaction_retries_total").await >= 7.0
    })
    .await;
    lock.rollback().await.unwrap();
    world.rows("answers", 40).await;
    world.settled().await;
    let again = projector.metric("projector_messages_redelivered_total").await;
    assert!(again <= 10.0, "{again} came again");
    assert_eq!(world.count("parked").await, 0);
    projector.ready().await;
}

#[tokio::test]
async fn many_refused_messages_leave_room_for_good_ones() {
    let world = World::new().await;
    for number in 0..300 {
        world.publish_body(format!("bad {number}")).await;
    }
    world.publish(&Answer::of("good")).await;
    let builder = world
        .projector()
        .set("BATCH_MESSAGES", 50)
        .set("MAX_ACK_PENDING", 200);
    let _projector = builder.start_ready().await;
    world.rows("answers", 1).await;
    world.rows("parked", 300).await;
}
