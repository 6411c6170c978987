//! The database: killed, read-only, mute, and put back to an older state. Ingress answers 204 all the while.

use failures::world::{Kind, SOON};
use failures::{Setup, Who, World};
use sandbox::eventually;
use sandbox::program::Readiness;
use sandbox::servers::PostgresOptions;
use tokio::time::Instant;

const INGRESS: Who = Who::Ingress(0);
const PROJECTORS: [Who; 2] = [Who::Projector(0), Who::Projector(1)];

async fn own_database() -> World {
    let setup = Setup {
        projectors: PROJECTORS.len(),
        postgres: Some(PostgresOptions {
            backups: true,
            ..PostgresOptions::default()
        }),
        ..Setup::default()
    };
    // A claim makes the projectors take turns; one that finds the server mute gives up soon.
    World::with(setup.set(Kind::Projector, "STATEMENT_TIMEOUT", "500ms")).await
}

/// Everything that is sent during the outage is answered 204, and nothing comes of it until the outage is over.
async fn outlasts(world: &mut World, outage: Instant, why: &str) {
    let load = world.load(100);
    for who in PROJECTORS {
        world.becomes_unready(who, why).await;
    }
    let delivered = world.tally().delivered;
    world.delivered(delivered as usize + 50).await;
    load.stop().await;
    let said = world.watch().since(INGRESS, outage);
    assert!(
        said.iter().all(|seen| seen.said == Readiness::Ready),
        "ingress needs no database: {said:?}"
    );
    assert_eq!(world.tally().retried, 0, "no delivery was refused");
}

#[tokio::test]
async fn the_database_killed_under_load() {
    let mut world = own_database().await;
    let load = world.load(200);
    world.rows("answers", 50).await;
    let outage = Instant::now();
    world.kill_database();
    load.stop().await;
    outlasts(&mut world, outage, "database").await;
    world.restart_database().await;
    let verdict = world.end().await;
    assert_eq!(verdict.sent, verdict.acknowledged);
    assert_eq!(verdict.parked, 0);
}

#[tokio::test]
async fn the_database_made_read_only_under_load() {
    let mut world = own_database().await;
    let load = world.load(200);
    world.rows("answers", 50).await;
    let outage = Instant::now();
    world.set_read_only(true).await;
    load.stop().await;
    outlasts(&mut world, outage, "database").await;
    // What fails is the database, whatever the message says of single rows: nothing is parked.
    let parked = world.judge().await.parked;
    assert_eq!(parked, 0);
    world.set_read_only(false).await;
    let verdict = world.end().await;
    assert_eq!((verdict.sent, verdict.parked), (verdict.acknowledged, 0));
}

/// The connections stay open and nothing comes back: only a limit of time tells.
#[tokio::test]
async fn the_database_muted_by_the_network_under_load() {
    let mut world = own_database().await;
    let load = world.load(200);
    world.rows("answers", 50).await;
    let outage = Instant::now();
    for who in PROJECTORS {
        world.database_link(who).mute().await;
    }
    load.stop().await;
    outlasts(&mut world, outage, "database").await;
    // Old connections would be fine again; they were given up all the same, and new ones are made.
    for who in PROJECTORS {
        world.database_link(who).restore().await;
    }
    let verdict = world.end().await;
    assert_eq!((verdict.sent, verdict.parked), (verdict.acknowledged, 0));
}

/// Rows are gone whose messages are acknowledged. The consumer begins again after the floor that the older state holds,
/// and nobody has to tell it.
#[tokio::test]
async fn the_database_put_back_to_an_older_state_under_load() {
    let mut world = own_database().await;
    let load = world.load(200);
    world.rows("answers", 50).await;
    let backup = world.back_up_database().await;
    let then = world.tally().delivered as usize;
    world.rows("answers", then + 100).await;
    eventually("most is acknowledged", SOON, async || {
        let floor = world.consumer().await.map(|it| it.ack_floor.stream_sequence);
        if floor >= Some(then as u64 + 100) {
            Ok(())
        } else {
            Err(floor)
        }
    })
    .await;
    world.put_back_database(&backup).await;
    let (rewound, acknowledged) = {
        let rows = world
            .sql()
            .await
            .query_one("select count(*) from answers", &[])
            .await;
        (rows.unwrap().get::<_, i64>(0), then as i64 + 100)
    };
    assert!(
        rewound < acknowledged,
        "{rewound} rows of {acknowledged} that were there"
    );
    let delivered = world.tally().delivered as usize;
    world.delivered(delivered + 50).await;
    load.stop().await;
    let verdict = world.settle_and_judge().await;
    assert_eq!((verdict.sent, verdict.parked), (verdict.acknowledged, 0));

    // A second time, with nothing on its way that would make the projectors look.
    world.put_back_database(&backup).await;
    world.rows("answers", verdict.answers).await;
    world.end().await;
}
