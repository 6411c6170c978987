//! From a submission that no webhook answers to its row.

use sandbox::eventually;
use sandbox::provider::outcome::Outcome;
use sandbox::provider::task::Status;

use crate::world::{SOON, World};

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

#[tokio::test]
async fn a_failure_is_a_result_too() {
    let world = World::new().await;
    let _projector = world.project();
    let (number, task) = world.queued(None);
    let now = world.clock.now();
    world
        .account
        .with(|provider| provider.finish(number, Outcome::queue_wait_exceeded(), now))
        .unwrap();
    world.submit(&task).await;
    let _reconciler = world.start().await;
    world.becomes(&task, "SETTLED").await;
    let code: String = world
        .value(
            "select error_code from failed_answers where task_id = $1",
            &[&task],
        )
        .await;
    assert_eq!(code, "QUEUE_WAIT_EXCEEDED");
}

#[tokio::test]
async fn what_a_webhook_brought_is_settled_and_never_asked_for() {
    let world = World::new().await;
    let _projector = world.project();
    let (number, task) = world.finished_with_key(None);
    world.deliver(number).await;
    world.rows("answers", 1).await;
    world.submit(&task).await;
    let reconciler = world.start().await;
    world.becomes(&task, "SETTLED").await;
    reconciler.stop().await;
    assert_eq!(world.asked_about(&task), 0);
}

#[tokio::test]
async fn a_task_that_runs_is_asked_for_until_it_ends() {
    let world = World::new().await;
    let _projector = world.project();
    let (number, task) = world.queued(None);
    world.submit(&task).await;
    let reconciler = world.start().await;
    world.is_asked_about(&task, 2).await;
    let now = world.clock.now();
    world
        .account
        .with(|provider| provider.start(number, now))
        .unwrap();
    let asked = world.asked_about(&task);
    world.is_asked_about(&task, asked + 2).await;
    assert_eq!(world.state(&task).await, "OPEN");
    world
        .account
        .with(|provider| provider.finish(number, Outcome::timed_out(), now))
        .unwrap();
    world.becomes(&task, "SETTLED").await;
    assert!(reconciler.metric("reconciler_open_answers_total").await >= 3.0);
}

#[tokio::test]
async fn a_result_that_is_on_the_stream_already_is_not_stored_twice() {
    let world = World::new().await;
    let (number, task) = world.finished_with_key(None);
    world.declare().await;
    world.deliver(number).await;
    world.submit(&task).await;
    let reconciler = world.start().await;
    world.row_is(&task, "appended_seq", Some(1_i64)).await;
    let duplicates = r#"reconciler_appends_total{outcome="duplicate"}"#;
    reconciler.metric_is(duplicates, 1.0).await;
    assert_eq!(world.events().await, 1);
    let _projector = world.project();
    world.becomes(&task, "SETTLED").await;
}

#[tokio::test]
async fn another_result_than_the_one_delivered_is_kept_beside_it() {
    let world = World::new().await;
    let (_, task) = world.queued(None);
    let body = format!(
        r#"{{"task":{{"id":"{task}","status":"FAILED","createdAt":"2026-11-30T12:00:00Z"}},"response":{{"error":{{"code":"X"}}}}}}"#
    );
    world.declare().await;
    world.deliver_body(body.into()).await;
    let now = world.clock.now();
    let outcome = Outcome::with_response(Status::Completed, r#"{"result":{}}"#);
    world
        .account
        .with(|provider| {
            let number = provider.find(&task).unwrap();
            provider.finish(number, outcome, now)
        })
        .unwrap();
    world.submit(&task).await;
    let reconciler = world.start().await;
    world.row_is(&task, "appended_seq", Some(2_i64)).await;
    let divergent = r#"reconciler_appends_total{outcome="divergent"}"#;
    reconciler.metric_is(divergent, 1.0).await;
    let _projector = world.project();
    world.becomes(&task, "SETTLED").await;
    let status: String = world.value("select status from answers", &[]).await;
    assert_eq!(status, "COMPLETED");
}

#[tokio::test]
async fn what_was_appended_waits_for_its_row_and_is_not_asked_for_again() {
    let world = World::new().await;
    let (task, other) = (world.finished(), world.finished());
    world.submit(&task).await;
    let reconciler = world.start().await;
    world.row_is(&task, "appended_seq", Some(1_i64)).await;
    // It was due again long ago by the time that another one has been asked for several times.
    let (_, waiting) = world.queued(None);
    world.submit(&waiting).await;
    world.is_asked_about(&waiting, 6).await;
    assert_eq!(
        (world.asked_about(&task), world.state(&task).await),
        (1, "OPEN".to_owned())
    );
    reconciler.metric_is("reconciler_submissions_appended", 1.0).await;
    let _projector = world.project();
    world.becomes(&task, "SETTLED").await;
    world.submit(&other).await;
    world.becomes(&other, "SETTLED").await;
}

#[tokio::test]
async fn while_the_projection_is_far_behind_nothing_is_asked_for() {
    let world = World::new().await;
    world.declare().await;
    let delivered: Vec<String> = {
        let mut delivered = Vec::new();
        for _ in 0..5 {
            let (number, task) = world.finished_with_key(None);
            world.deliver(number).await;
            world.submit(&task).await;
            delivered.push(task);
        }
        delivered
    };
    let reconciler = world.reconciler().set("MAX_LAG", 4).start();
    eventually("it waits for the projection", SOON, async || {
        reconciler.try_metric("reconciler_waiting_for_projection").await == Some(1.0)
    })
    .await;
    let _projector = world.project();
    for task in &delivered {
        world.becomes(task, "SETTLED").await;
    }
    assert_eq!(world.asked().len(), 0);
    let missing = world.finished();
    world.submit(&missing).await;
    world.becomes(&missing, "SETTLED").await;
    assert_eq!(world.asked_about(&missing), 1);
}

/// Its sequence says nothing about another stream.
#[tokio::test]
async fn what_was_appended_to_a_stream_that_is_gone_is_asked_for_again() {
    let world = World::new().await;
    let task = world.finished();
    world.submit(&task).await;
    let reconciler = world.start().await;
    world.row_is(&task, "appended_seq", Some(1_i64)).await;
    let jetstream = world.connect().await.jetstream;
    jetstream.delete_stream(&world.spec.name).await.unwrap();
    reconciler.unready("there is no stream").await;
    world.declare().await;
    world.is_asked_about(&task, 2).await;
    let _projector = world.project();
    world.becomes(&task, "SETTLED").await;
    reconciler.ready().await;
}

#[tokio::test]
async fn without_a_projector_it_says_why_it_asks_for_nothing() {
    let world = World::new().await;
    world.declare().await;
    for _ in 0..3 {
        world.deliver(world.finished_with_key(None).0).await;
    }
    world.submit(&world.finished()).await;
    let reconciler = world.reconciler().set("MAX_LAG", 2).start_ready().await;
    eventually("it says so", SOON, async || {
        reconciler.log().contains("nobody projects the stream")
    })
    .await;
    assert_eq!(world.asked().len(), 0);
}

#[tokio::test]
async fn an_id_of_any_letters_is_asked_for_and_dots_are_not() {
    let world = World::new().await;
    let odd = "../a b/ü?x=1#%2e";
    for task in [odd, "..", "."] {
        world.submit(task).await;
    }
    let _reconciler = world.start().await;
    world.is_asked_about(odd, 1).await;
    for task in ["..", "."] {
        let reason = "a task id of dots alone cannot be asked for".to_owned();
        world.row_is(task, "last_error", Some(reason)).await;
        assert_eq!(world.asked_about(task), 0);
    }
}
