//! Killed between two steps: what was done is done once, and what was not is done by the next process.

use std::time::Duration;

use failures::world::SOON;
use failures::{Setup, Who, World};
use sandbox::api::{Fault, Operation};
use sandbox::eventually;

const PROJECTOR: Who = Who::Projector(0);
const RECONCILER: Who = Who::Reconciler(0);

/// The rows are there and the broker does not know: it delivers the messages again, and they change nothing.
#[tokio::test]
async fn the_projector_killed_between_the_commit_and_the_acknowledgment() {
    let mut world = World::start().await;
    // It has messages in hand and cannot commit.
    world.database_link(PROJECTOR).mute().await;
    world.finish_tasks(20);
    let in_hand = async || {
        world
            .consumer()
            .await
            .map_or(0, |consumer| consumer.num_ack_pending)
    };
    eventually("messages are in hand", SOON, async || in_hand().await > 0).await;
    // Now it can, and cannot say so. What the broker has sent still arrives.
    world.broker_link(PROJECTOR).hold_requests().await;
    world.database_link(PROJECTOR).restore().await;
    world.rows("answers", 1).await;
    let consumer = world.consumer().await.unwrap();
    assert!(consumer.num_ack_pending > 0, "{consumer:?}");
    assert_eq!(consumer.ack_floor.stream_sequence, 0, "{consumer:?}");
    world.kill(PROJECTOR);
    world.broker_link(PROJECTOR).cut().await;
    world.broker_link(PROJECTOR).restore().await;
    world.start_program(PROJECTOR).await;
    let verdict = world.settle_and_judge().await;
    assert_eq!((verdict.events, verdict.answers), (20, 20));
    let unchanged = world.metric(PROJECTOR, "projector_events_unchanged_total").await;
    assert!(unchanged > 0.0, "what was committed came again");
    world.end().await;
}

async fn reconciling() -> World {
    let setup = Setup {
        reconcilers: 1,
        ..Setup::default()
    };
    World::with(setup).await
}

/// Lets the reconciler fetch a result that no webhook brought, and gives its id once the provider has answered. The answer
/// waits on the link.
async fn fetched(world: &mut World) -> String {
    world.provider_link(RECONCILER).hold_answers().await;
    let ids = world.lose_tasks(1);
    world.record(&ids, Duration::ZERO).await;
    let [id] = ids.try_into().unwrap();
    eventually("the provider has answered", SOON, async || {
        let calls = world.api.calls();
        calls
            .iter()
            .any(|call| call.operation == Operation::Get && call.status == Some(200))
    })
    .await;
    id
}

/// Lets the answer that waits on the link arrive, and returns once the reconciler has it.
async fn arrives(world: &mut World) {
    world.provider_link(RECONCILER).restore().await;
    eventually("the reconciler has the answer", SOON, async || {
        world.metric(RECONCILER, "reconciler_calls_total").await > 0.0
    })
    .await;
}

async fn is_fetched_again(mut world: World, id: &str, calls_at_least: usize) {
    world.start_program(RECONCILER).await;
    let verdict = world.settle_and_judge().await;
    assert_eq!((verdict.events, verdict.answers), (1, 1));
    assert_eq!(world.submissions("SETTLED").await, 1);
    let calls = world.api.calls();
    let asked = calls
        .iter()
        .filter(|call| call.task.as_deref() == Some(id))
        .count();
    assert!(asked >= calls_at_least, "asked {asked} times");
    world.end().await;
}

/// The result is fetched and not yet on the stream. Once its lease is over it is fetched again.
#[tokio::test]
async fn the_reconciler_killed_between_the_fetch_and_the_append() {
    let mut world = reconciling().await;
    let id = fetched(&mut world).await;
    world.broker_link(RECONCILER).mute().await;
    arrives(&mut world).await;
    world.kill(RECONCILER);
    assert_eq!(world.judge().await.events, 0);
    world.broker_link(RECONCILER).cut().await;
    world.broker_link(RECONCILER).restore().await;
    is_fetched_again(world, &id, 2).await;
}

/// As above, and the broker is killed at that moment too.
#[tokio::test]
async fn the_reconciler_killed_between_the_fetch_and_the_append_with_the_broker_away() {
    let mut world = reconciling().await;
    let id = fetched(&mut world).await;
    world.kill_broker();
    arrives(&mut world).await;
    world.kill(RECONCILER);
    // It starts without a broker, and waits for it.
    world.begin(RECONCILER);
    world.becomes_unready(RECONCILER, "looking for the broker").await;
    world.kill(RECONCILER);
    world.restart_broker().await;
    is_fetched_again(world, &id, 2).await;
}

/// The result is on the stream and nobody noted it: its row settles it, and it is not on the stream twice.
#[tokio::test]
async fn the_reconciler_killed_between_the_append_and_its_note() {
    let mut world = reconciling().await;
    let id = fetched(&mut world).await;
    world.broker_link(RECONCILER).hold_answers().await;
    arrives(&mut world).await;
    world.rows("answers", 1).await;
    world.kill(RECONCILER);
    world.broker_link(RECONCILER).restore().await;
    is_fetched_again(world, &id, 1).await;
}

/// The broker is away when an answer is in hand, and nothing is killed: the answer is lost, and fetched again when the broker
/// is back.
#[tokio::test]
async fn the_broker_away_between_the_fetch_and_the_append() {
    let mut world = reconciling().await;
    let id = fetched(&mut world).await;
    world.kill_broker();
    arrives(&mut world).await;
    world.becomes_unready(RECONCILER, "stream").await;
    // An append that still waits when the broker comes back would be stored after all.
    eventually("the append was given up", SOON, async || {
        world.metric(RECONCILER, "reconciler_appends_total").await > 0.0
    })
    .await;
    world.restart_broker().await;
    world.becomes_ready(RECONCILER).await;
    let verdict = world.settle_and_judge().await;
    assert_eq!((verdict.events, verdict.answers), (1, 1));
    let calls = world.api.calls();
    assert!(
        calls
            .iter()
            .filter(|call| call.task.as_deref() == Some(&*id))
            .count()
            >= 2
    );
    world.end().await;
}

/// Nothing that the provider gets wrong becomes an event, and the true answer does in the end. Several reconcilers share it.
#[tokio::test]
async fn wrong_answers_of_the_provider_are_never_stored() {
    let mut world = World::with(Setup {
        reconcilers: 2,
        ..Setup::default()
    })
    .await;
    for fault in [
        Fault::OtherTask,
        Fault::NoId,
        Fault::MarkedTest,
        Fault::NotJson,
        Fault::Html,
        Fault::Empty,
        Fault::NoContent,
        Fault::Cut,
        Fault::Stall,
    ] {
        world.api.faults().next(3, fault);
    }
    let ids = world.lose_tasks(30);
    world.record(&ids, Duration::ZERO).await;
    let verdict = world.settle_and_judge().await;
    assert_eq!((verdict.events, verdict.answers), (30, 30));
    world.end().await;
}
