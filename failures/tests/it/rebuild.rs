//! Tables that somebody changed behind the programs, put right beside live traffic.

use std::time::Duration;

use failures::{Setup, World};
use serde_json::Value;

async fn two_projectors() -> World {
    let setup = Setup {
        projectors: 2,
        ..Setup::default()
    };
    World::with(setup).await
}

#[tokio::test]
async fn rows_deleted_changed_and_invented_are_put_right_under_load() {
    let mut world = two_projectors().await;
    world.finish_tasks(400);
    world.rows("answers", 400).await;
    let load = world.load(100);
    let corrupted = world.corrupt(0).await;
    assert!(corrupted.iter().all(|rows| *rows > 0), "{corrupted:?}");
    let found = world.verify().await;
    assert_eq!(found.status.code(), Some(1));

    let report: Value = serde_json::from_slice(&world.rebuild().await.stdout).unwrap();
    let repaired = |table: &str| -> u64 {
        let counts = report[table]["repaired"].as_object().unwrap().values();
        counts.map(|count| count.as_u64().unwrap()).sum()
    };
    // One that was changed may have been overtaken by a result of its job meanwhile; none was overlooked.
    assert!(repaired("answers") >= corrupted[..3].iter().sum(), "{report}");
    assert!(repaired("winners") > 0, "{report}");
    load.stop().await;
    let verdict = world.end().await;
    assert_eq!(verdict.sent, verdict.acknowledged);
    assert_eq!(verdict.parked, 0);
}

/// Nothing is left behind that keeps the next one from its work.
#[tokio::test]
async fn a_rebuild_killed_at_any_moment_under_load() {
    let mut world = two_projectors().await;
    world.finish_tasks(400);
    world.rows("answers", 400).await;
    let load = world.load(100);
    for turn in 0..8 {
        world.corrupt(turn).await;
        world
            .rebuild_killed_after(Duration::from_millis(40 * u64::try_from(turn).unwrap()))
            .await;
    }
    world.rebuild().await;
    load.stop().await;
    world.end().await;
}
