//! A key that is not accepted, and a provider that knows none of our tasks.

use std::time::Duration;

use sandbox::api::{Fault, Operation};
use sandbox::eventually;

use crate::world::{SOON, World};

#[tokio::test]
async fn a_wrong_key_stops_all_calls_leaves_the_submissions_alone_and_says_so() {
    let world = World::new().await;
    let tasks: Vec<String> = (0..20).map(|_| world.finished()).collect();
    for task in &tasks {
        world.submit(task).await;
    }
    let reconciler = world
        .reconciler()
        .set("PROVIDER_API_KEY", "ak_of_somebody_else")
        .set("MAX_IN_FLIGHT", 2)
        .set("DENIED_PROBE_INTERVAL", "1s")
        .start();
    reconciler
        .unready("provider: the provider does not accept the key (401")
        .await;
    assert!(reconciler.lives().await);
    let first = world.api.calls()[0].at;
    eventually("it tries again a second later", SOON, async || {
        let calls = world.api.calls();
        calls
            .last()
            .is_some_and(|call| call.at >= first + Duration::from_secs(2))
    })
    .await;
    let calls: Vec<_> = world.api.calls().iter().map(|call| call.at - first).collect();
    // Two at once at first; one at a time from then on.
    let early = calls
        .iter()
        .filter(|at| **at < Duration::from_millis(900))
        .count();
    assert!(early <= 2 && calls.len() <= 5, "{calls:?}");
    let changed = "submitted_tasks where state <> 'OPEN' or checks <> 0 or not_found <> 0";
    eventually("the submissions are as they were", SOON, async || {
        match world.count(changed).await {
            0 => Ok(()),
            changed => Err(changed),
        }
    })
    .await;
    assert!(reconciler.log().contains("provider is not well"));
}

#[tokio::test]
async fn once_the_key_is_accepted_again_everything_goes_on() {
    let world = World::new().await;
    let _projector = world.project();
    let task = world.finished();
    world.submit(&task).await;
    world.api.faults().all(Fault::status(401));
    let reconciler = world.reconciler().set("DENIED_PROBE_INTERVAL", "300ms").start();
    reconciler.unready("does not accept the key").await;
    world.api.faults().clear();
    reconciler.ready().await;
    world.becomes(&task, "SETTLED").await;
}

/// Before the first result is missing, too.
#[tokio::test]
async fn a_wrong_key_is_known_before_anything_is_due() {
    let world = World::new().await;
    let builder = world.reconciler().set("PROVIDER_API_KEY", "wrong");
    let reconciler = builder.start();
    reconciler.unready("does not accept the key (401").await;
    let calls = world.api.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].operation, Operation::Status);
}

#[tokio::test]
async fn a_task_that_is_forbidden_alone_does_not_stop_the_others() {
    let world = World::new().await;
    let _projector = world.project();
    let (forbidden, task) = (world.finished(), world.finished());
    world.api.faults().task(&forbidden, Fault::status(403));
    world.submit_with(&forbidden, None, "0s", "1h").await;
    world.submit(&task).await;
    let reconciler = world.reconciler().set("MAX_IN_FLIGHT", 1).start_ready().await;
    world.becomes(&task, "SETTLED").await;
    world.is_asked_about(&forbidden, 3).await;
    reconciler.ready().await;
    assert_eq!(world.state(&forbidden).await, "OPEN");
}

#[tokio::test]
async fn a_key_that_is_forbidden_everything_stops_all_calls() {
    let world = World::new().await;
    world.submit(&world.finished()).await;
    world.api.faults().all(Fault::status(403));
    let reconciler = world.reconciler().start();
    reconciler.unready("does not accept the key (403").await;
    assert!(reconciler.lives().await);
}

/// As with the key of another account.
#[tokio::test]
async fn when_no_task_of_ours_is_known_none_is_given_up() {
    let world = World::new().await;
    for number in 0..30 {
        world.submit(&format!("of-another-account-{number}")).await;
    }
    let builder = world
        .reconciler()
        .set("GONE_AFTER", "2s")
        .set("CHECK_INTERVAL", "300ms")
        .set("MAX_CHECK_INTERVAL", "600ms")
        .set("DENIED_PROBE_INTERVAL", "500ms")
        .set("MAX_IN_FLIGHT", 2);
    let reconciler = builder.start();
    reconciler.unready("knows none of our tasks").await;
    let asked = world.asked().len();
    assert!(asked <= 12, "{asked}");
    // One at a time from then on.
    eventually("it tries again", SOON, async || world.asked().len() >= asked + 4).await;
    assert_eq!(world.count("submitted_tasks where state <> 'OPEN'").await, 0);
    // A task that it does know: the environment is the right one, and the others are gone.
    let (_, known) = world.queued(None);
    world.submit_with(&known, None, "0s", "1h").await;
    world.rows("submitted_tasks where state = 'GONE'", 30).await;
    reconciler.ready().await;
}

/// As after clearing the queue: all that is left to ask for was deleted, and what was answered before is still known.
#[tokio::test]
async fn a_task_that_was_answered_before_proves_that_the_unknown_ones_are_gone() {
    let world = World::new().await;
    let _projector = world.project();
    let (number, answered) = world.finished_with_key(None);
    world.deliver(number).await;
    world.submit(&answered).await;
    world.rows("answers", 1).await;
    // Recorded long after it was created, it proves nothing: the provider keeps it no longer.
    world
        .sql
        .batch_execute(
            "insert into answers (task_id, job_key, status, created_at, response_digest, via, stream_seq, received_at)
             values ('old', 'old', 'COMPLETED', now() - interval '30h', sha256(''), 'webhook', 1, now());
             insert into submitted_tasks (task_id, state, settled_at) values ('old', 'SETTLED', now())",
        )
        .await
        .unwrap();
    for number in 0..30 {
        world.submit(&format!("cleared-{number}")).await;
    }
    let reconciler = world.reconciler().set("GONE_AFTER", "0s").start_ready().await;
    world.rows("submitted_tasks where state = 'GONE'", 30).await;
    assert_eq!(world.state(&answered).await, "SETTLED");
    assert!(world.asked_about(&answered) >= 1);
    assert_eq!(world.asked_about("old"), 0);
    reconciler.ready().await;
}

/// Of what the provider keeps no longer, not to be known says nothing about the key.
#[tokio::test]
async fn tasks_that_are_too_old_raise_no_doubt() {
    let world = World::new().await;
    for number in 0..30 {
        world
            .submit_with(&format!("old-{number}"), None, "25h", "1h")
            .await;
    }
    let reconciler = world.start().await;
    world.rows("submitted_tasks where state = 'LOST'", 30).await;
    reconciler.ready().await;
    reconciler.stop().await;
}

/// As when the path of a gateway is missing: everything is 404, and readiness does not flap.
#[tokio::test]
async fn a_wrong_url_is_said_to_be_one_until_it_is_right() {
    let world = World::new().await;
    for number in 0..12 {
        world.submit(&format!("task-{number}")).await;
    }
    let reconciler = world
        .reconciler()
        .set("PROVIDER_URL", format!("{}/gateway", world.api.url()))
        .set("DENIED_PROBE_INTERVAL", "100ms")
        .start();
    reconciler.unready("knows none of our tasks").await;
    let asked = world.api.calls().len();
    eventually("it goes on trying", SOON, async || {
        world.api.calls().len() > asked + 5
    })
    .await;
    let log = reconciler.stop().await;
    assert!(!log.contains("well again"), "{log}");
    // Nothing is due: the queue is asked for.
    world
        .sql
        .batch_execute("delete from submitted_tasks")
        .await
        .unwrap();
    let builder = world.reconciler();
    let builder = builder.set("PROVIDER_URL", format!("{}/gateway", world.api.url()));
    let reconciler = builder.start();
    reconciler.unready("is --provider-url right?").await;
}
