//! Nothing is broken.

use failures::World;

#[tokio::test]
async fn everything_that_is_sent_becomes_a_row() {
    let world = World::start().await;
    world.finish_tasks(200);
    let verdict = world.end().await;
    assert_eq!(verdict.sent, 200);
    assert_eq!(verdict.acknowledged, 200);
    assert_eq!(verdict.events, 200);
    assert_eq!(verdict.answers, 200);
    assert_eq!(verdict.parked, 0);
}

#[tokio::test]
async fn the_judge_finds_what_was_taken_away_behind_the_programs() {
    let mut world = World::start().await;
    let ids = world.finish_tasks(20);
    world.settle_and_judge().await;
    let sql = world.sql().await;
    sql.execute("delete from answers where task_id = $1", &[&ids[3]])
        .await
        .unwrap();
    let verdict = world.judge().await;
    assert_eq!(verdict.faults.len(), 2, "{verdict}");
    assert!(
        verdict.faults[0].contains(&format!("answers `{}` is missing", ids[3])),
        "{verdict}"
    );

    world.stream().await.delete_message(7).await.unwrap();
    let verdict = world.judge().await;
    let lost = verdict
        .faults
        .iter()
        .filter(|fault| fault.contains("is not on the stream"));
    assert_eq!(lost.count(), 1, "{verdict}");
}
