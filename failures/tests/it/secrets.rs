//! Signatures that are about more than one body: clocks apart, secrets rotated.

use failures::world::SOON;
use failures::{Who, World};
use sandbox::eventually;
use sandbox::sender;
use time::Duration;

const INGRESS: Who = Who::Ingress(0);

/// Attempts that were refused with 400.
fn refused(world: &World) -> u64 {
    let attempts = world.tally().of(sender::Kind::Attempt);
    attempts.by_status.get(&400).copied().unwrap_or(0)
}

/// The tolerance is 300 s, either way, in whole seconds. Only posts during which no second ends say what happens at exactly
/// so many seconds; others are made again.
#[tokio::test]
async fn the_clocks_299_to_301_seconds_apart() {
    let mut world = World::start().await;
    for (ahead, status) in [
        (-301, 400),
        (-300, 204),
        (-299, 204),
        (299, 204),
        (300, 204),
        (301, 400),
    ] {
        world.shift_provider_clock(Duration::seconds(ahead));
        let id = format!("{ahead} s");
        let what = format!("a post {ahead} s ahead during which no second ends");
        let found = eventually(&what, SOON, async || {
            let body = format!(r#"{{"task":{{"id":"{id}","status":"COMPLETED"}},"response":{{}}}}"#);
            let posted = world.post_by_the_clock(INGRESS, body).await;
            posted.within_a_second.then_some(posted.status)
        });
        assert_eq!(found.await, Some(status), "{ahead} s");
    }
    world.shift_provider_clock(Duration::ZERO);
    world.end().await;
}

/// While the clocks are apart every delivery is refused and none is stored; once they are right the provider's retries arrive.
#[tokio::test]
async fn the_clocks_apart_until_somebody_sets_them_right() {
    let mut world = World::start().await;
    for ahead in [-400, 400] {
        world.shift_provider_clock(Duration::seconds(ahead));
        let stored = usize::try_from(world.tally().delivered).unwrap();
        let before = refused(&world);
        world.finish_tasks(20);
        eventually("every delivery was refused", SOON, async || {
            refused(&world) >= before + 20
        })
        .await;
        assert_eq!(world.tally().delivered, stored as u64);
        world.shift_provider_clock(Duration::ZERO);
        world.hasten_retries();
        world.delivered(stored + 20).await;
    }
    let verdict = world.end().await;
    assert_eq!((verdict.events, verdict.answers), (40, 40));
}

/// The receiver first: it has both secrets before the provider signs with the new one. No delivery is refused.
#[tokio::test]
async fn the_secret_rotated_at_the_receiver_first() {
    let mut world = World::start().await;
    let load = world.load(50);
    world.delivered(20).await;
    let (old, new) = (world.secret_of(0), world.secret_of(1));
    world.set(
        INGRESS,
        "WEBHOOK_SECRETS",
        format!("{},{}", new.text(), old.text()),
    );
    world.stop(INGRESS).await;
    world.start_program(INGRESS).await;
    world.rotate_secret(&new);
    both_sign_then_the_new_one_alone(&world).await;
    world.set(INGRESS, "WEBHOOK_SECRETS", new.text());
    world.stop(INGRESS).await;
    world.start_program(INGRESS).await;
    load.stop().await;
    let world = judged(world).await;
    assert_eq!(refused(&world), 0);
    world.end().await;
}

/// The provider first, and its old secret gone at once: deliveries get 400 until the receiver has the new one, and are sent
/// again.
#[tokio::test]
async fn the_secret_rotated_at_the_provider_first() {
    let mut world = World::start().await;
    let load = world.load(50);
    world.delivered(20).await;
    let new = world.secret_of(1);
    world.rotate_secret(&new);
    // While both sign, the receiver needs neither more nor less than it has.
    let before = usize::try_from(world.tally().delivered).unwrap();
    world.delivered(before + 20).await;
    assert_eq!(refused(&world), 0);
    world.retire_old_secrets();
    eventually("deliveries are refused", SOON, async || refused(&world) > 10).await;
    let stored = world.tally().delivered;
    assert_eq!(
        world.post(INGRESS, "signed with the new secret alone").await,
        Some(400)
    );
    assert_eq!(world.tally().delivered, stored);
    world.set(INGRESS, "WEBHOOK_SECRETS", new.text());
    world.stop(INGRESS).await;
    world.start_program(INGRESS).await;
    load.stop().await;
    world.end().await;
}

async fn both_sign_then_the_new_one_alone(world: &World) {
    let before = usize::try_from(world.tally().delivered).unwrap();
    world.delivered(before + 20).await;
    world.retire_old_secrets();
    let before = usize::try_from(world.tally().delivered).unwrap();
    world.delivered(before + 20).await;
}

async fn judged(mut world: World) -> World {
    world.settle_and_judge().await;
    world
}
