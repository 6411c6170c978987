//! Submissions whose task id is not known: the create call timed out, and its repetition got 409.

use sandbox::eventually;

use crate::world::{SOON, World};

async fn submit_key(world: &World, key: &str) -> i64 {
    let statement = "insert into submitted_tasks (idempotency_key) values ($1) returning submission_id";
    world.sql.query_one(statement, &[&key]).await.unwrap().get(0)
}

async fn submission(world: &World, id: i64) -> (Option<String>, String, Option<i64>) {
    let query = "select task_id, state, same_as from submitted_tasks where submission_id = $1";
    let row = world.sql.query_one(query, &[&id]).await.unwrap();
    (row.get(0), row.get(1), row.get(2))
}

async fn settles(world: &World, id: i64) -> (Option<String>, Option<i64>) {
    eventually("the submission is settled", SOON, async || {
        let (task, state, same_as) = submission(world, id).await;
        if state == "SETTLED" {
            Ok((task, same_as))
        } else {
            Err(state)
        }
    })
    .await
}

#[tokio::test]
async fn a_key_without_an_id_gets_its_id_from_the_answer() {
    let world = World::new().await;
    let _projector = world.project();
    let keys = ["kettles|DE|2026-11-30", "kettles|DE|2026-11-30-r2", "ключ 🫖"];
    let mut waiting = Vec::new();
    for key in keys {
        let (number, task) = world.finished_with_key(Some(key));
        waiting.push((submit_key(&world, key).await, number, task));
    }
    let reconciler = world.start().await;
    for (id, number, task) in &waiting {
        world.deliver(*number).await;
        assert_eq!(settles(&world, *id).await, (Some(task.clone()), None));
    }
    reconciler.metric_is("reconciler_task_ids_found_total", 3.0).await;
    assert_eq!(world.asked().len(), 0);
}

#[tokio::test]
async fn a_task_that_another_submission_has_is_named_and_no_violation_stops_the_sweep() {
    let world = World::new().await;
    let _projector = world.project();
    let (number, task) = world.finished_with_key(Some("k"));
    let first = submit_key(&world, "k").await;
    world.submit_with(&task, Some("k"), "0s", "-1h").await;
    let second = submit_key(&world, "k").await;
    let (other, other_task) = world.finished_with_key(Some("l"));
    let (third, fourth) = (submit_key(&world, "l").await, submit_key(&world, "l").await);
    let owner: i64 = world.of(&task, "submission_id").await;
    let _reconciler = world.start().await;
    for number in [number, other] {
        world.deliver(number).await;
    }
    assert_eq!(settles(&world, first).await, (None, Some(owner)));
    assert_eq!(settles(&world, second).await, (None, Some(owner)));
    assert_eq!(settles(&world, third).await, (Some(other_task), None));
    assert_eq!(settles(&world, fourth).await, (None, Some(third)));
    world.becomes(&task, "SETTLED").await;
}

/// A key may serve again once the provider has forgotten its task.
#[tokio::test]
async fn an_answer_of_another_time_is_not_taken_for_this_one() {
    let world = World::new().await;
    let _projector = world.project();
    world.declare().await;
    let body = |id: &str, created: &str| {
        format!(
            r#"{{"task":{{"id":"{id}","status":"COMPLETED","createdAt":"{created}","idempotencyKey":"k"}},"response":{{}}}}"#
        )
    };
    world
        .deliver_body(body("of-last-year", "2025-01-01T00:00:00Z").into())
        .await;
    world.rows("answers", 1).await;
    let id = submit_key(&world, "k").await;
    let _reconciler = world.start().await;
    let (_, witness) = world.queued(None);
    world.submit(&witness).await;
    world.is_asked_about(&witness, 4).await;
    assert_eq!(submission(&world, id).await, (None, "OPEN".to_owned(), None));
    let now: String = world
        .value(
            "select to_char(now() at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')",
            &[],
        )
        .await;
    world.deliver_body(body("of-now", &now).into()).await;
    assert_eq!(settles(&world, id).await, (Some("of-now".to_owned()), None));
}

#[tokio::test]
async fn many_that_stay_unknown_hide_none_that_becomes_known_and_are_given_up_in_time() {
    let world = World::new().await;
    let _projector = world.project();
    world
        .sql
        .batch_execute(
            "insert into submitted_tasks (idempotency_key, created_at)
             select 'never-' || n, now() - interval '25h' from generate_series(1, 2500) n",
        )
        .await
        .unwrap();
    let (number, task) = world.finished_with_key(Some("known"));
    let id = submit_key(&world, "known").await;
    let reconciler = world.start().await;
    world.deliver(number).await;
    assert_eq!(settles(&world, id).await, (Some(task), None));
    world.rows("submitted_tasks where state = 'LOST'", 2500).await;
    reconciler
        .metric_is("reconciler_submissions_without_id", 2500.0)
        .await;
    // A late delivery wins here too.
    let (late, late_task) = world.finished_with_key(Some("never-7"));
    let id: i64 = world
        .value(
            "select submission_id from submitted_tasks where idempotency_key = 'never-7'",
            &[],
        )
        .await;
    world
        .sql
        .execute(
            "update submitted_tasks set created_at = now() where submission_id = $1",
            &[&id],
        )
        .await
        .unwrap();
    world.deliver(late).await;
    assert_eq!(settles(&world, id).await, (Some(late_task), None));
}

#[tokio::test]
async fn an_id_that_is_recorded_while_it_is_found_stops_nothing() {
    let world = World::new().await;
    let _projector = world.project();
    let (number, task) = world.finished_with_key(Some("k"));
    world.deliver(number).await;
    world.rows("answers", 1).await;
    let id = submit_key(&world, "k").await;
    // Written, and not yet to be seen.
    let mut other = world.database.connect().await;
    let open = other.transaction().await.unwrap();
    let insert =
        "insert into submitted_tasks (task_id, idempotency_key) values ($1, 'k') returning submission_id";
    let owner: i64 = open.query_one(insert, &[&task]).await.unwrap().get(0);
    let reconciler = world.reconciler().start();
    let waits = "pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    world.rows(waits, 1).await;
    open.commit().await.unwrap();
    assert_eq!(settles(&world, id).await, (None, Some(owner)));
    world.becomes(&task, "SETTLED").await;
    let log = reconciler.stop().await;
    assert!(!log.contains("database is not well"), "{log}");
}
