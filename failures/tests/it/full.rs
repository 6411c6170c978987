//! No room: on the broker's disk, in the stream, on the disk of the database.

use std::time::Duration;

use failures::world::SOON;
use failures::{Setup, Who, World};
use sandbox::eventually;
use sandbox::sender;
use sandbox::servers::{Disk, NatsOptions};
use tokio::time::Instant;

const INGRESS: Who = Who::Ingress(0);

/// A broker that could not write keeps its stream as it is until it is restarted, whether there is room again or not.
/// Ingress says 503 in the time that a publish may take, and is not ready; nothing of ours is restarted.
#[tokio::test]
async fn the_brokers_disk_full_until_it_is_cleared_and_the_broker_restarted() {
    let disk = Disk::new(48 << 20).unwrap();
    let mut setup = Setup::default();
    setup.nats.store = Some(disk.path().join("store"));
    let mut world = World::with(setup).await;
    let load = world.load(50);
    world.delivered(50).await;
    disk.fill().unwrap();
    eventually("an attempt is refused", SOON, async || {
        let answers = world.tally().of(sender::Kind::Attempt);
        if answers.by_status.contains_key(&503) {
            Ok(())
        } else {
            Err(answers)
        }
    })
    .await;
    world.becomes_unready(INGRESS, "").await;
    let since = Instant::now();
    assert_eq!(
        world
            .post(INGRESS, r#"{"task":{"id":"x","status":"QUEUED"}}"#)
            .await,
        Some(503)
    );
    eprintln!("answered in {:?}", since.elapsed());
    eprintln!("{}", world.watch().story(INGRESS));
    eprintln!("{}", world.watch().story(Who::Projector(0)));
    eprintln!("{}", std::fs::read_to_string(world.broker.log()).unwrap());
    disk.clear().unwrap();
    world.restart_broker().await;
    load.stop().await;
    world.end().await;
}
