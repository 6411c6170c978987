//! What time does to a submission, and that a delivery always wins.

use sandbox::api::Fault;
use sandbox::eventually;

use crate::world::{SOON, World};

#[tokio::test]
async fn past_the_horizon_a_task_is_overdue_and_still_asked_for() {
    let world = World::new().await;
    let _projector = world.project();
    let (number, task) = world.queued(None);
    world.submit_with(&task, None, "5h 1s", "0s").await;
    let young = world.queued(None).1;
    world.submit_with(&young, None, "4h 59m", "0s").await;
    let reconciler = world.start().await;
    world.becomes(&task, "OVERDUE").await;
    let asked = world.asked_about(&task);
    world.is_asked_about(&task, asked + 2).await;
    assert_eq!(world.state(&young).await, "OPEN");
    reconciler
        .metric_is(r#"reconciler_submissions{state="overdue"}"#, 1.0)
        .await;
    let now = world.clock.now();
    let outcome = sandbox::provider::outcome::Outcome::timed_out();
    world
        .account
        .with(|provider| provider.finish(number, outcome, now))
        .unwrap();
    world.becomes(&task, "SETTLED").await;
}

#[tokio::test]
async fn what_waits_for_far_too_long_is_reported_once_by_one_of_all() {
    let world = World::new().await;
    let (_, task) = world.queued(None);
    world.submit_with(&task, None, "12h 1s", "0s").await;
    let reconcilers = [world.start().await, world.start().await];
    for reconciler in &reconcilers {
        reconciler.metric_is("reconciler_submissions_critical", 1.0).await;
    }
    world.is_asked_about(&task, 4).await;
    let mut lines = 0;
    for reconciler in reconcilers {
        let log = reconciler.stop().await;
        lines += log.lines().filter(|line| line.contains("far too long")).count();
    }
    assert_eq!(lines, 1);
}

#[tokio::test]
async fn what_the_provider_keeps_no_longer_is_asked_for_once_more_and_then_lost() {
    let world = World::new().await;
    let (_, waits) = world.queued(None);
    let tasks = ["never-known", &waits];
    for task in tasks {
        world.submit_with(task, None, "24h 1s", "0s").await;
    }
    let unhurried = world
        .reconciler()
        .set("CHECK_INTERVAL", "1m")
        .set("MAX_CHECK_INTERVAL", "1m");
    let reconciler = unhurried.start_ready().await;
    for task in tasks {
        world.becomes(task, "LOST").await;
        assert_eq!(world.asked_about(task), 1, "{task}");
    }
    assert!(reconciler.stop().await.contains("submissions are given up"));
    let _reconciler = world.start().await;
    let other = world.queued(None).1;
    world.submit(&other).await;
    world.is_asked_about(&other, 4).await;
    for task in tasks {
        assert_eq!(world.asked_about(task), 1, "{task}");
    }
}

/// The last chance is taken, not timed out: after an outage of ours there may still be something to get.
#[tokio::test]
async fn a_result_that_the_provider_still_has_after_a_day_is_taken() {
    let world = World::new().await;
    let _projector = world.project();
    let task = world.finished();
    world.submit_with(&task, None, "26h", "0s").await;
    let _reconciler = world.start().await;
    world.becomes(&task, "SETTLED").await;
}

#[tokio::test]
async fn nothing_is_lost_while_nobody_can_be_asked() {
    let world = World::new().await;
    let task = world.finished();
    world.submit_with(&task, None, "30h", "0s").await;
    world.api.faults().all(Fault::status(401));
    let reconciler = world.reconciler().set("DENIED_PROBE_INTERVAL", "200ms").start();
    reconciler.unready("does not accept the key").await;
    world.becomes(&task, "OVERDUE").await;
    let asked = world.asked().len();
    eventually("it is refused again", SOON, async || {
        world.asked().len() > asked + 2
    })
    .await;
    assert_eq!(world.state(&task).await, "OVERDUE");
}

#[tokio::test]
async fn a_delivery_that_comes_late_wins_over_every_state() {
    let world = World::new().await;
    let _projector = world.project();
    let states = ["OPEN", "OVERDUE", "GONE", "LOST", "TOO_LARGE"];
    let mut tasks = Vec::new();
    for state in states {
        let (number, task) = world.finished_with_key(None);
        let statement = "insert into submitted_tasks (task_id, state, last_error) values ($1, $2, 'before')";
        world.sql.execute(statement, &[&task, &state]).await.unwrap();
        tasks.push((number, task));
    }
    let reconciler = world.start().await;
    for (number, task) in &tasks {
        world.deliver(*number).await;
        world.becomes(task, "SETTLED").await;
    }
    let left = "submitted_tasks where settled_at is null or last_error is not null";
    assert_eq!(world.count(left).await, 0);
    reconciler.metric_is("reconciler_settled_total", 5.0).await;
    reconciler.metric_is("reconciler_recovered_total", 0.0).await;
    assert_eq!(world.asked().len(), 0);
}

#[tokio::test]
async fn an_event_that_the_database_refuses_settles_its_submission_and_a_strangers_does_not() {
    let world = World::new().await;
    let park = "insert into parked (stream_created, stream_seq, subject, task_id, reason, body, parked_at)
                values (now(), $1, 's', $2, $3, '', now())";
    for (seq, task, reason) in [
        (1_i64, "refused", "database_refuses"),
        (2, "of-a-stranger", "msg_id_disagrees"),
    ] {
        world.sql.execute(park, &[&seq, &task, &reason]).await.unwrap();
        world.submit(task).await;
    }
    let _reconciler = world.start().await;
    world.becomes("refused", "SETTLED").await;
    let why: Option<String> = world.of("refused", "last_error").await;
    assert_eq!(why.as_deref(), Some("parked: database_refuses"));
    world.is_asked_about("of-a-stranger", 2).await;
    assert_eq!(world.state("of-a-stranger").await, "OPEN");
}

/// A sweep looks through so many; the next one goes on behind them. What is due is looked at first in any case.
#[tokio::test]
async fn of_more_than_one_sweep_looks_through_all_are_settled() {
    let world = World::new().await;
    let many = "insert into submitted_tasks (task_id) select 'task-' || n from generate_series(1, 25000) n;
                insert into answers (task_id, job_key, status, response_digest, via, stream_seq, received_at)
                select 'task-' || n, 'task-' || n, 'COMPLETED', sha256(''), 'webhook', n, now()
                  from unnest(array[1, 12000, 24000, 25000]) n;
                update submitted_tasks set next_check_at = now() where task_id = 'task-25000'";
    world.sql.batch_execute(many).await.unwrap();
    let reconciler = world.start().await;
    world.rows("submitted_tasks where state = 'SETTLED'", 4).await;
    // From the beginning again.
    world
        .sql
        .batch_execute(
            "insert into answers (task_id, job_key, status, response_digest, via, stream_seq, received_at)
             values ('task-2', 'task-2', 'COMPLETED', sha256(''), 'webhook', 2, now())",
        )
        .await
        .unwrap();
    world.becomes("task-2", "SETTLED").await;
    assert_eq!(world.asked().len(), 0);
    reconciler.metric_is("reconciler_settled_total", 5.0).await;
}

#[tokio::test]
async fn hopeless_tasks_do_not_block_those_behind_them_and_are_tried_ever_less() {
    let world = World::new().await;
    let _projector = world.project();
    // They never end.
    for _ in 0..200 {
        world
            .submit_with(&world.queued(None).1, Some("hopeless"), "6h", "2h")
            .await;
    }
    let last = world.finished();
    world.submit_with(&last, None, "6h", "1h").await;
    let _reconciler = world
        .reconciler()
        .set("SWEEP_LIMIT", 40)
        .set("CHECK_INTERVAL", "1m")
        .set("MAX_CHECK_INTERVAL", "30m")
        .start();
    world.becomes(&last, "SETTLED").await;
    let asked = world.asked();
    assert!(asked.len() <= 201 + 16, "{}", asked.len());
    // Each waits for longer than the one before.
    let grows =
        "select bool_and(next_check_at - checked_at between interval '44 seconds' and interval '61 seconds')
                   from submitted_tasks where checks = 1 and idempotency_key = 'hopeless'";
    assert!(world.value::<bool>(grows, &[]).await);
    world
        .sql
        .batch_execute("update submitted_tasks set next_check_at = now() where idempotency_key = 'hopeless'")
        .await
        .unwrap();
    world.rows("submitted_tasks where checks = 2", 200).await;
    let grows =
        "select bool_and(next_check_at - checked_at between interval '89 seconds' and interval '121 seconds')
                   from submitted_tasks where checks = 2";
    eventually("the second checks are noted", SOON, async || {
        world.value::<Option<bool>>(grows, &[]).await == Some(true)
    })
    .await;
}
