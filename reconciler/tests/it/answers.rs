//! Every answer that the provider's API describes, and those that it does not.

use std::time::Duration;

use bytes::Bytes;
use sandbox::api::{Fault, Operation, Rule};
use sandbox::eventually;

use crate::world::{SOON, World};

/// What is not about the task that was asked for carries no signature: it is stored under no name.
#[tokio::test]
async fn an_answer_about_something_else_is_an_error_of_its_submission_and_never_stored() {
    let world = World::new().await;
    for (fault, reason, words) in [
        (Fault::OtherTask, "other_task", "another task"),
        (Fault::NoId, "other_task", "another task"),
        (Fault::MarkedTest, "test", "a test"),
    ] {
        let task = world.finished();
        world.api.faults().task(&task, fault.clone());
        world.submit(&task).await;
        let reconciler = world.start().await;
        let metric = format!(r#"reconciler_unusable_answers_total{{reason="{reason}"}}"#);
        eventually("three answers in a row were of no use", SOON, async || {
            world.of::<i32>(&task, "unusable_answers").await >= 3
        })
        .await;
        assert!(reconciler.metric(&metric).await >= 3.0);
        let error: Option<String> = world.of(&task, "last_error").await;
        assert!(
            error.as_deref().is_some_and(|error| error.contains(words)),
            "{fault:?}: {error:?}"
        );
        assert_eq!(world.state(&task).await, "OPEN");
        let log = reconciler.stop().await;
        let alerts = log.lines().filter(|line| line.contains("several answers"));
        assert_eq!(alerts.count(), 1, "{fault:?}: {log}");
    }
    assert_eq!(world.events().await, 0);
}

#[tokio::test]
async fn bad_answers_are_bounded_in_time_and_size_and_hold_up_no_other_task() {
    let world = World::new().await;
    let _projector = world.project();
    let faults = [
        Fault::Silence,
        Fault::Stall,
        Fault::Drip(Duration::from_millis(200)),
        Fault::HangUp,
        Fault::Cut,
        Fault::NotJson,
        Fault::Html,
        Fault::Empty,
        Fault::NoContent,
        Fault::Redirect(302, "http://127.0.0.1:1/".to_owned()),
        Fault::status(500),
        Fault::status(418),
        Fault::Body(Bytes::from_static(b"[]")),
        Fault::OtherTask,
    ];
    let mut bad = Vec::new();
    for fault in faults {
        let task = world.finished();
        world.api.faults().task(&task, fault.clone());
        world.submit_with(&task, None, "0s", "1h").await;
        bad.push((task, fault));
    }
    let huge = world.finished();
    world.api.faults().task(&huge, Fault::Huge(2 << 20));
    world.submit_with(&huge, None, "0s", "1h").await;
    let good: Vec<String> = (0..20).map(|_| world.finished()).collect();
    for task in &good {
        world.submit(task).await;
    }
    let reconciler = world
        .reconciler()
        .set("REQUEST_TIMEOUT", "700ms")
        .set("BODY_LIMIT", "1MiB")
        .start();
    for task in &good {
        world.becomes(task, "SETTLED").await;
    }
    let calls = world.asked();
    let last = calls
        .iter()
        .rfind(|call| good.iter().any(|task| call.task.as_ref() == Some(task)));
    let took = last.unwrap().at - calls[0].at;
    world.becomes(&huge, "TOO_LARGE").await;
    for (task, fault) in &bad {
        eventually(&format!("{fault:?} is an error"), SOON, async || {
            world.of::<Option<String>>(task, "last_error").await.is_some()
        })
        .await;
        assert_eq!(world.state(task).await, "OPEN", "{fault:?}");
    }
    assert!(took < Duration::from_secs(20), "{took}");
    assert_eq!(world.count("answers").await, 20);
    assert_eq!(world.events().await, 20);
    // Once the provider is well, so is everything.
    world.api.faults().clear();
    for (task, _) in &bad {
        world.becomes(task, "SETTLED").await;
    }
    reconciler.ready().await;
}

#[tokio::test]
async fn a_task_that_is_not_found_is_gone_after_three_times_over_the_time_given() {
    let world = World::new().await;
    let task = "deleted-from-the-queue";
    world.submit(task).await;
    let reconciler = world.reconciler().set("GONE_AFTER", "700ms").start();
    world.becomes(task, "GONE").await;
    let row = "select not_found >= 3 and checked_at - not_found_since >= '700ms' from submitted_tasks";
    assert!(world.value::<bool>(row, &[]).await);
    let asked = world.asked_about(task);
    assert!(asked > 3, "three times were over too soon: {asked}");
    let (_, other) = world.queued(None);
    world.submit(&other).await;
    world.is_asked_about(&other, 5).await;
    assert_eq!(world.asked_about(task), asked, "it is not asked for any more");
    assert!(
        reconciler
            .stop()
            .await
            .contains("the provider does not know a task")
    );
}

#[tokio::test]
async fn a_task_that_is_found_in_between_is_not_gone() {
    let world = World::new().await;
    let (_, task) = world.queued(None);
    world
        .api
        .faults()
        .add(Rule::new(Fault::status(404)).for_task(&task).times(2));
    world.submit(&task).await;
    let _reconciler = world.reconciler().set("GONE_AFTER", "0s").start_ready().await;
    world.is_asked_about(&task, 3).await;
    world.row_is(&task, "not_found", 0).await;
    assert_eq!(world.state(&task).await, "OPEN");
}

#[tokio::test]
async fn what_is_deleted_for_ever_is_gone_at_once() {
    let world = World::new().await;
    let task = world.finished();
    world.api.faults().task(&task, Fault::status(410));
    world.submit(&task).await;
    let _reconciler = world.start().await;
    world.becomes(&task, "GONE").await;
    assert_eq!(world.asked_about(&task), 1);
}

#[tokio::test]
async fn an_answer_over_the_limit_is_listed_and_not_asked_for_again() {
    let world = World::new().await;
    let task = world.finished();
    world.api.faults().task(&task, Fault::Huge(64 << 10));
    world.submit(&task).await;
    let reconciler = world.reconciler().set("BODY_LIMIT", "64KiB").start();
    world.becomes(&task, "TOO_LARGE").await;
    let (_, other) = world.queued(None);
    world.submit(&other).await;
    world.is_asked_about(&other, 4).await;
    assert_eq!(world.asked_about(&task), 1);
    reconciler
        .metric_is(r#"reconciler_submissions{state="too_large"}"#, 1.0)
        .await;
}

#[tokio::test]
async fn an_answer_of_exactly_the_limit_is_taken() {
    let world = World::new().await;
    let _projector = world.project();
    let (_, task) = world.queued(None);
    let head = format!(r#"{{"task":{{"id":"{task}","status":"COMPLETED"}},"response":""#);
    let limit = 100_000;
    let body = |length: usize| {
        let text = "x".repeat(length - head.len() - 2);
        Fault::Body(Bytes::from(format!("{head}{text}\"}}")))
    };
    world.api.faults().task(&task, body(limit));
    world.submit(&task).await;
    let _reconciler = world.reconciler().set("BODY_LIMIT", limit).start();
    world.becomes(&task, "SETTLED").await;
    let (_, one_more) = world.queued(None);
    world.api.faults().task(&one_more, body(limit + 1));
    world.submit(&one_more).await;
    world.becomes(&one_more, "TOO_LARGE").await;
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_makes_it_unready() {
    let world = World::new().await;
    let elsewhere = World::new().await;
    let task = world.finished();
    let target = format!("{}/v1/async/task/{task}", elsewhere.api.url());
    world.api.faults().all(Fault::Redirect(307, target));
    world.submit(&task).await;
    let reconciler = world.reconciler().start();
    reconciler.unready("redirects (307").await;
    assert_eq!(elsewhere.api.calls().len(), 0);
    world.api.faults().clear();
    reconciler.ready().await;
}

/// Five of them are enough: then the provider is left alone for longer and longer.
#[tokio::test]
async fn failures_in_a_row_stop_all_calls_for_a_while() {
    let world = World::new().await;
    world.api.faults().all(Fault::status(500));
    for number in 0..40 {
        world.submit(&format!("task-{number}")).await;
    }
    let reconciler = world.reconciler().set("MAX_IN_FLIGHT", 1).start();
    reconciler.unready("calls fail one after the other").await;
    reconciler
        .metric_is(r#"reconciler_closed{reason="failing"}"#, 1.0)
        .await;
    assert!(reconciler.lives().await);
    // The fifth failure closes the gate for a second, shortened by up to a half. Then the queue is asked for, not a task.
    let calls = eventually("a sixth call", SOON, async || {
        let calls = world.api.calls();
        (calls.len() > 5).then_some(calls)
    })
    .await;
    let gap = calls[5].at - calls[4].at;
    assert!(gap >= Duration::from_millis(500), "{gap}");
    assert_eq!(calls[5].operation, Operation::Status);
    world.api.faults().clear();
    reconciler.ready().await;
}

/// Many that time out look like a provider that is away; its queue tells the difference.
#[tokio::test]
async fn many_tasks_that_cannot_be_asked_for_do_not_block_those_behind_them() {
    let world = World::new().await;
    let _projector = world.project();
    for _ in 0..40 {
        let task = world.finished();
        world.api.faults().task(&task, Fault::Silence);
        world.submit_with(&task, None, "0s", "1h").await;
    }
    let task = world.finished();
    world.submit(&task).await;
    let _reconciler = world
        .reconciler()
        .set("REQUEST_TIMEOUT", "300ms")
        .set("CHECK_INTERVAL", "1m")
        .set("MAX_CHECK_INTERVAL", "30m")
        .start();
    world.becomes(&task, "SETTLED").await;
}

/// As when the URL leads to another server.
#[tokio::test]
async fn who_answers_everything_with_a_page_for_people_is_not_the_provider() {
    let world = World::new().await;
    world.api.faults().all(Fault::Html);
    world.submit(&world.finished()).await;
    let reconciler = world.reconciler().start();
    reconciler.metric_is("reconciler_submissions_unusable", 1.0).await;
    reconciler.unready("provider: starting").await;
    world.api.faults().clear();
    reconciler.ready().await;
}

/// As where a proxy answers in the provider's place, or the URL is that of a website.
#[tokio::test]
async fn when_no_answer_can_be_used_it_is_unready_until_one_can() {
    for fault in [Fault::Html, Fault::status(400)] {
        let world = World::new().await;
        let tasks: Vec<String> = (0..12).map(|_| world.queued(None).1).collect();
        world.api.faults().all(fault);
        for task in &tasks {
            world.submit(task).await;
        }
        let reconciler = world.reconciler().start();
        reconciler.unready("none of its answers can be used").await;
        assert!(reconciler.lives().await);
        world.api.faults().clear();
        reconciler.ready().await;
    }
}
