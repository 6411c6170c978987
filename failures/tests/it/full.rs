//! No room: on the broker's disk, in the stream, on the disk of the database.

use std::time::Duration;

use failures::world::{Kind, SOON};
use failures::{Setup, Who, World};
use sandbox::eventually;
use sandbox::provider::delivery::Reply;
use sandbox::servers::{Disk, PostgresOptions};
use tokio::time::Instant;

const INGRESS: Who = Who::Ingress(0);
const PROJECTOR: Who = Who::Projector(0);

/// A broker that could not write keeps its stream as it is until it is restarted, whether there is room again or not. Until
/// then every delivery gets 503 in the time that a publish may take, and ingress says why. Nothing of ours is restarted.
#[tokio::test]
async fn the_brokers_disk_full_until_it_is_cleared_and_the_broker_restarted() {
    let disk = Disk::new(48 << 20).unwrap();
    let mut setup = Setup::default();
    setup.nats.store = Some(disk.path().join("store"));
    let mut world = World::with(setup).await;
    let load = world.load(50);
    world.delivered(50).await;
    disk.fill().unwrap();
    world
        .becomes_unready(INGRESS, "the last events were not stored")
        .await;
    let asked = Instant::now();
    assert_eq!(world.post(INGRESS, "a body for nothing").await, Some(503));
    // PUBLISH_TIMEOUT of a world, and what a busy machine adds.
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());

    let (cleared, before) = (Instant::now(), world.tally().delivered);
    disk.clear().unwrap();
    assert_eq!(world.post(INGRESS, "room alone changes nothing").await, Some(503));
    assert_eq!(world.tally().delivered, before);
    world.stayed_unready(INGRESS, cleared);

    world.restart_broker().await;
    world.becomes_ready(INGRESS).await;
    load.stop().await;
    world.end().await;
}

/// A stream that has reached its limit refuses and loses nothing; `ingress stream update` makes it larger.
#[tokio::test]
async fn the_stream_full_until_it_is_made_larger() {
    // Room for the largest message is kept free, so that is made small too.
    let setup = Setup::default()
        .set(Kind::Ingress, "STREAM_MAX_BYTES", "256KiB")
        .set(Kind::Projector, "STREAM_MAX_BYTES", "256KiB");
    let mut world = World::with(setup).await;
    let load = world.load(50);
    world.becomes_unready(INGRESS, "the stream is full").await;
    let refused = async || {
        let answers = world.tally().of(sandbox::sender::Kind::Attempt);
        if answers.by_status.contains_key(&503) {
            Ok(())
        } else {
            Err(answers)
        }
    };
    eventually("a delivery gets 503", SOON, refused).await;
    world.set(INGRESS, "STREAM_MAX_BYTES", "64MiB");
    let updated = world.run(INGRESS, &["stream", "update"]).await;
    assert!(updated.status.success(), "{updated:?}");
    world.becomes_ready(INGRESS).await;
    load.stop().await;
    world.end().await;
}

/// A full disk is an outage of the database, not bad data: nothing is parked, deliveries get their 204, and once there is room
/// the rows come by themselves.
#[tokio::test]
async fn the_disk_of_the_database_full_until_it_is_cleared() {
    let disk = Disk::new(192 << 20).unwrap();
    let setup = Setup {
        projectors: 2,
        postgres: Some(PostgresOptions {
            data: Some(disk.path().join("data")),
            ..PostgresOptions::default()
        }),
        ..Setup::default()
    };
    let world = World::with(setup).await;
    let load = world.load(50);
    world.rows("answers", 50).await;
    // With a fresh segment of its log, which has its whole size from the beginning, the server finds no room for rows; without
    // one it could meet the end of a segment first, and crash.
    world
        .sql()
        .await
        .execute("select pg_switch_wal()", &[])
        .await
        .unwrap();
    world.rows("answers", 100).await;
    let filled = Instant::now();
    disk.fill().unwrap();
    world.becomes_unready(PROJECTOR, "No space left on device").await;
    let before = usize::try_from(world.tally().delivered).unwrap();
    world.delivered(before + 50).await;
    world.stayed_ready(INGRESS, filled);
    disk.clear().unwrap();
    world.becomes_ready(PROJECTOR).await;
    for id in load.stop().await {
        world.delivered_task(&id).await;
        let replies = world.delivery(&id, |delivery| {
            delivery
                .attempts
                .iter()
                .map(|attempt| attempt.reply.clone())
                .collect::<Vec<_>>()
        });
        assert_eq!(replies, [Some(Reply::Status(204))], "task {id}");
    }
    let verdict = world.end().await;
    assert_eq!(verdict.parked, 0);
}
