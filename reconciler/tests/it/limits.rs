//! The provider is left alone when it says so.

use std::time::Duration;

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use sandbox::api::{Fault, RetryAfter, Rule};
use sandbox::clock::Clock;
use sandbox::eventually;
use sandbox::servers::Postgres;
use time::OffsetDateTime;

use crate::process::Process;
use crate::world::{SOON, World, shared_nats};

const TWO_SECONDS: Duration = Duration::from_secs(2);

/// With many tasks due, so that calls would come if they could.
async fn busy() -> World {
    let world = World::new().await;
    submit_many(&world).await;
    world
}

async fn submit_many(world: &World) {
    for _ in 0..40 {
        let (_, task) = world.queued(None);
        world.submit(&task).await;
    }
}

/// When the one answer of this status was given, and when the first call began after it.
async fn pause_after(world: &World, status: u16) -> Duration {
    let calls = eventually("calls after the refusal", SOON, async || {
        let calls = world.api.calls();
        let refused = calls.iter().position(|call| call.status == Some(status))?;
        let after: Vec<OffsetDateTime> = calls[refused..].iter().map(|call| call.at).collect();
        (after.len() > 12).then_some(after)
    })
    .await;
    // Up to seven others were under way when the refusal came.
    let longest = calls.windows(2).map(|two| two[1] - two[0]).max().unwrap();
    longest.unsigned_abs()
}

async fn holds_back(fault: Fault, status: u16, least: Duration, most: Duration) {
    let world = busy().await;
    world.api.faults().next(1, fault.clone());
    let reconciler = world.reconciler().start();
    let pause = pause_after(&world, status).await;
    assert!(
        pause >= least && pause < most,
        "{fault:?}: {pause:?}\n{}",
        reconciler.log()
    );
}

#[tokio::test]
async fn seconds_hold_back_all_calls() {
    let fault = Fault::Status(429, RetryAfter::Seconds(2));
    holds_back(fault, 429, TWO_SECONDS, TWO_SECONDS * 10).await;
}

#[tokio::test]
async fn so_they_do_on_503() {
    let fault = Fault::Status(503, RetryAfter::Seconds(2));
    holds_back(fault, 503, TWO_SECONDS, TWO_SECONDS * 10).await;
}

/// A date has whole seconds, so it is up to one less away.
#[tokio::test]
async fn a_date_in_each_form_of_http_holds_back_all_calls() {
    let ahead = Duration::from_secs(3);
    let forms = [
        RetryAfter::Date(ahead),
        RetryAfter::Rfc850Date(ahead),
        RetryAfter::AsctimeDate(ahead),
    ];
    join_all(forms.map(|form| holds_back(Fault::Status(429, form), 429, TWO_SECONDS, TWO_SECONDS * 10)))
        .await;
}

#[tokio::test]
async fn a_provider_whose_clock_is_five_minutes_off_is_understood() {
    join_all([-5, 5].map(async |minutes| {
        let clock = Clock::new(move || Clock::system().now() + time::Duration::minutes(minutes));
        let database = Postgres::shared().await.fresh_database().await;
        let world = World::with(shared_nats().await.url(), database, clock).await;
        submit_many(&world).await;
        let fault = Fault::Status(429, RetryAfter::Date(Duration::from_secs(3)));
        world.api.faults().next(1, fault);
        let _reconciler = world.reconciler().start();
        let pause = pause_after(&world, 429).await;
        assert!(
            pause >= TWO_SECONDS && pause < TWO_SECONDS * 10,
            "{minutes} minutes: {pause:?}"
        );
    }))
    .await;
}

#[tokio::test]
async fn what_is_unreadable_or_past_means_a_pause_of_our_own_and_never_none() {
    let hour = Duration::from_secs(3_600);
    let forms = [
        RetryAfter::Absent,
        RetryAfter::Text("soon".to_owned()),
        RetryAfter::PastDate(hour),
    ];
    let (least, most) = (Duration::from_millis(500), TWO_SECONDS * 10);
    join_all(forms.map(|form| holds_back(Fault::Status(429, form), 429, least, most))).await;
}

#[tokio::test]
async fn a_long_time_is_capped() {
    let world = busy().await;
    world
        .api
        .faults()
        .next(1, Fault::Status(503, RetryAfter::Seconds(86_400)));
    let _reconciler = world.reconciler().set("MAX_RETRY_AFTER", "2s").start();
    let pause = pause_after(&world, 503).await;
    assert!(pause >= TWO_SECONDS && pause < TWO_SECONDS * 10, "{pause:?}");
}

#[tokio::test]
async fn it_holds_back_the_other_reconcilers_too() {
    let world = busy().await;
    let reconcilers = [world.start().await, world.start().await, world.start().await];
    // The rows are asked for over and over.
    eventually("calls come", SOON, async || world.asked().len() > 50).await;
    world
        .api
        .faults()
        .next(1, Fault::Status(429, RetryAfter::Seconds(5)));
    let refused = eventually("the refusal", SOON, async || {
        world
            .api
            .calls()
            .into_iter()
            .find(|call| call.status == Some(429))
    })
    .await;
    paused(&reconcilers, &world).await;
    let during = |call: &OffsetDateTime| {
        // A call that was claimed before the pause was noted may have been on its way.
        *call > refused.at + Duration::from_secs(2) && *call < refused.at + Duration::from_secs(5)
    };
    eventually("calls after the pause", SOON, async || {
        let calls = world.api.calls();
        calls
            .last()
            .is_some_and(|call| call.at > refused.at + Duration::from_secs(5))
    })
    .await;
    let calls: Vec<OffsetDateTime> = world.api.calls().iter().map(|call| call.at).collect();
    assert_eq!(calls.iter().filter(|at| during(at)).count(), 0);
}

async fn paused(reconcilers: &[Process], world: &World) {
    let closed = r#"reconciler_closed{reason="throttled"}"#;
    for reconciler in reconcilers {
        reconciler.metric_is(closed, 1.0).await;
    }
    assert_eq!(world.count("provider_pause where paused_until > now()").await, 1);
}

/// A backlog waits in the order in which it was due, and a task that is always refused stands behind the others.
#[tokio::test]
async fn a_task_that_is_always_refused_blocks_no_other() {
    let world = World::new().await;
    let _projector = world.project();
    let refused = world.finished();
    world
        .api
        .faults()
        .task(&refused, Fault::Status(429, RetryAfter::Seconds(1)));
    world.submit_with(&refused, None, "0s", "1h").await;
    let others: Vec<String> = (0..30).map(|_| world.finished()).collect();
    for task in &others {
        world.submit(task).await;
    }
    let _reconciler = world.reconciler().set("MAX_IN_FLIGHT", 2).start();
    for task in &others {
        world.becomes(task, "SETTLED").await;
    }
    assert_eq!(world.state(&refused).await, "OPEN");
}

#[tokio::test]
async fn a_stop_signal_ends_the_wait_at_once() {
    let world = busy().await;
    world
        .api
        .faults()
        .add(Rule::new(Fault::Status(429, RetryAfter::Seconds(300))));
    let mut reconciler = world.reconciler().set("SWEEP_INTERVAL", "10m").start();
    eventually("the refusal is noted", SOON, async || {
        world.count("provider_pause where paused_until > now()").await == 1
    })
    .await;
    reconciler.signal(Signal::SIGTERM);
    let status = reconciler.ended(Duration::from_secs(5)).await;
    assert_eq!(status.code(), Some(0), "{}", reconciler.log());
}

/// A provider that does nothing else is not well, and says so often enough itself.
#[tokio::test]
async fn pauses_without_an_answer_in_between_make_it_unready_and_fill_no_log() {
    let world = busy().await;
    world.api.faults().all(Fault::Status(429, RetryAfter::Seconds(1)));
    let reconciler = world.reconciler().start();
    reconciler.unready("again and again").await;
    let log = reconciler.log();
    let lines = |words| log.lines().filter(|line| line.contains(words)).count();
    assert_eq!(lines("asks to be left alone"), 1, "{log}");
    assert!(lines("swept") <= 1, "{log}");
    world.api.faults().clear();
    reconciler.ready().await;
}
