//! The broker, killed and taken away.

use std::time::Duration;

use failures::world::{Kind, SOON};
use failures::{Setup, Who, World};
use sandbox::eventually;
use sandbox::sender;
use tokio::time::Instant;

const INGRESS: Who = Who::Ingress(0);

/// The documented time from the broker's return to the first 2xx.
const BACK_WITHIN: Duration = Duration::from_secs(10);

/// Killed while deliveries flow, and long enough away for everybody to say so; then twice for a moment only.
#[tokio::test]
async fn the_broker_killed_and_restarted_under_load() {
    let setup = Setup {
        ingresses: 2,
        projectors: 2,
        ..Setup::default()
    };
    let mut world = World::with(setup).await;
    let load = world.load(100);
    world.delivered(50).await;
    world.kill_broker();
    let all = [world.all(Kind::Ingress), world.all(Kind::Projector)].concat();
    for who in &all {
        world.becomes_unready(*who, "broker").await;
    }
    let away = Instant::now();
    refusals_so_far(&world).await;
    for who in &all {
        world.stayed_unready(*who, away);
    }
    world.restart_broker().await;
    let (back, before) = (Instant::now(), world.tally().delivered);
    eventually("a delivery is accepted", SOON, async || {
        world.tally().delivered > before
    })
    .await;
    assert!(back.elapsed() < BACK_WITHIN, "took {:?}", back.elapsed());
    for _ in 0..2 {
        let before = usize::try_from(world.tally().delivered).unwrap();
        world.delivered(before + 50).await;
        world.kill_broker();
        world.restart_broker().await;
    }
    load.stop().await;
    assert_eq!(world.tally().wrongly_refused(), 0);
    world.end().await;
}

/// Waits until an attempt was refused, and holds that it was refused with 503.
async fn refusals_so_far(world: &World) -> u64 {
    eventually("an attempt is refused", SOON, async || {
        let answers = world.tally().of(sender::Kind::Attempt);
        let refused: u64 = answers.by_status.range(300..).map(|(_, count)| count).sum();
        assert_eq!(
            answers.by_status.get(&503).copied().unwrap_or(0),
            refused,
            "{answers:?}"
        );
        if refused > 0 { Ok(refused) } else { Err(answers) }
    })
    .await
}

/// The consumer is deleted while events flow: it is made anew, with nothing skipped.
#[tokio::test]
async fn the_consumer_deleted_under_load() {
    let setup = Setup {
        projectors: 2,
        ..Setup::default()
    };
    let world = World::with(setup).await;
    let load = world.load(100);
    for round in 1..=3 {
        world.rows("answers", 50 * round).await;
        world.delete_consumer().await;
    }
    load.stop().await;
    world.end().await;
}

/// As above, while events go out in atomic batches: what was of a batch under way is stored once or sent again.
#[tokio::test]
async fn the_broker_killed_while_batches_are_under_way() {
    let setup = Setup {
        concurrency: 64,
        ..Setup::default().set(Kind::Ingress, "APPEND_MODE", "batch")
    };
    let mut world = World::with(setup).await;
    for round in 1..=3 {
        world.finish_tasks(150);
        world.delivered(150 * (round - 1) + 20).await;
        world.kill_broker();
        world.restart_broker().await;
        world.becomes_ready(INGRESS).await;
        world.hasten_retries();
        world.delivered(150 * round).await;
    }
    assert!(world.metric(INGRESS, "append_batch_events_count").await >= 3.0);
    let verdict = world.end().await;
    assert_eq!((verdict.events, verdict.answers), (450, 450));
}

/// A broker that is frozen keeps its connections and says nothing. What it had in its buffers it stores when it goes on, and
/// by then the provider has been told to send it again.
#[tokio::test]
async fn the_broker_frozen_under_load() {
    let setup = Setup {
        projectors: 2,
        ..Setup::default()
    };
    let world = World::with(setup).await;
    let load = world.load(50);
    world.delivered(20).await;
    world.broker.pause();
    refusals_so_far(&world).await;
    for who in [world.all(Kind::Ingress), world.all(Kind::Projector)].concat() {
        world.becomes_unready(who, "broker").await;
    }
    world.broker.resume();
    let before = usize::try_from(world.tally().delivered).unwrap();
    world.delivered(before + 50).await;
    load.stop().await;
    world.end().await;
}

/// The broker stores and its acknowledgments get lost, for one of two ingresses: that one says 503 to events that are on the
/// stream, and the other meets them as duplicates.
#[tokio::test]
async fn acknowledgments_lost_for_a_while() {
    let setup = Setup {
        ingresses: 2,
        ..Setup::default()
    };
    let mut world = World::with(setup).await;
    let load = world.load(50);
    world.delivered(20).await;
    world.broker_link(INGRESS).hold_answers().await;
    refusals_so_far(&world).await;
    world.becomes_unready(INGRESS, "broker").await;
    // Both ends give the connection up; what was held back is gone with it.
    world.broker_link(INGRESS).cut().await;
    world.broker_link(INGRESS).restore().await;
    world.becomes_ready(INGRESS).await;
    load.stop().await;
    let duplicates = world
        .metric(Who::Ingress(1), "append_duplicate_checks_total")
        .await;
    assert!(duplicates > 0.0);
    world.end().await;
}
