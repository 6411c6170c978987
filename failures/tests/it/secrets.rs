//! Signatures that are about more than one body: clocks apart, secrets rotated.

use failures::world::SOON;
use failures::{Who, World};
use sandbox::eventually;
use sandbox::provider::delivery::Reply;
use sandbox::sender;
use time::Duration;

const INGRESS: Who = Who::Ingress(0);

/// Replies to all attempts for a task.
fn replies(world: &World, id: &str) -> Vec<Option<Reply>> {
    world.delivery(id, |delivery| {
        delivery
            .attempts
            .iter()
            .map(|attempt| attempt.reply.clone())
            .collect()
    })
}

/// Attempts that were refused with 400.
fn refused(world: &World) -> u64 {
    let attempts = world.tally().of(sender::Kind::Attempt);
    attempts.by_status.get(&400).copied().unwrap_or(0)
}

/// 299 s either way are within the tolerance of 300 s. A second more goes by at most between signing and looking.
#[tokio::test]
async fn the_clocks_299_seconds_apart() {
    let world = World::start().await;
    for ahead in [-299, 299] {
        world.shift_provider_clock(Duration::seconds(ahead));
        let ids = world.finish_tasks(20);
        for id in &ids {
            world.delivered_task(id).await;
            assert_eq!(
                replies(&world, id),
                [Some(Reply::Status(204))],
                "{ahead} s, task {id}"
            );
        }
    }
    world.shift_provider_clock(Duration::ZERO);
    world.end().await;
}

/// 301 s either way are refused, and nothing is stored; once the clock is right the provider's retries arrive.
///
/// The stamp is in whole seconds, and so is the receiver's clock when it looks. Ahead, a second that passes in between takes
/// one from the difference, so nine tenths are added, which are cut off unless a second passes.
#[tokio::test]
async fn the_clocks_301_seconds_apart() {
    let world = World::start().await;
    let mut sent = 0;
    for ahead in [Duration::seconds(-301), Duration::milliseconds(301_900)] {
        world.shift_provider_clock(ahead);
        let stored = world.tally().delivered;
        let before = refused(&world);
        let ids = world.finish_tasks(20);
        sent += 20;
        eventually("every delivery was tried", SOON, async || {
            let untried = ids
                .iter()
                .filter(|id| replies(&world, id).first().is_none_or(Option::is_none));
            match untried.count() {
                0 => Ok(()),
                untried => Err(untried),
            }
        })
        .await;
        assert!(refused(&world) >= before + 20);
        for id in &ids {
            let replies = replies(&world, id);
            assert!(
                replies.iter().flatten().all(|reply| *reply == Reply::Status(400)),
                "{ahead}: {replies:?}"
            );
        }
        assert_eq!(world.tally().delivered, stored);
        world.shift_provider_clock(Duration::ZERO);
        world.hasten_retries();
        world.delivered(sent).await;
    }
    world.end().await;
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
