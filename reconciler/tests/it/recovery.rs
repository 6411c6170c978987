//! From a submission that no webhook answers to its row.

use crate::world::World;

#[tokio::test]
async fn a_result_that_no_webhook_brought_becomes_a_row_and_settles_its_submission() {
    let world = World::new().await;
    let _projector = world.project();
    let task = world.finished();
    world.submit(&task).await;
    let reconciler = world.start().await;
    world.becomes(&task, "SETTLED").await;
    let row: (String, i64) = {
        let query = "select via, stream_seq from answers where task_id = $1";
        let row = world.sql.query_one(query, &[&task]).await.unwrap();
        (row.get(0), row.get(1))
    };
    assert_eq!(
        row,
        ("reconciler".to_owned(), world.of(&task, "appended_seq").await)
    );
    assert_eq!(world.asked_about(&task), 1);
    reconciler.metric_is("reconciler_recovered_total", 1.0).await;
    reconciler.stop().await;
}
