use std::collections::BTreeMap;

use http::Uri;
use time::macros::datetime;

use super::*;
use crate::provider::Settings;
use crate::provider::secrets::Secret;
use crate::provider::task::{NewTask, Task};

const NOON: OffsetDateTime = datetime!(2026-11-30 12:00 UTC);

fn provider(concurrency: Option<usize>, tasks: usize) -> Provider {
    let settings = Settings {
        concurrency,
        ..Settings::loopback(Uri::from_static("http://127.0.0.1/"))
    };
    let mut provider = Provider::new(settings, Secret::generate(Seed(7), 0), Seed(7));
    for _ in 0..tasks {
        let request = NewTask {
            task_type: "GROK",
            priority: 1,
            idempotency_key: None,
        };
        provider.create(request, NOON).unwrap();
    }
    provider
}

fn runner() -> Runner {
    Runner::new(Seed(7), Pace::default())
}

/// Looks whenever there is something to do until all has ended; how many were in each state after each look.
fn run_out(runner: &mut Runner, provider: &mut Provider) -> Vec<BTreeMap<Status, usize>> {
    let mut seen = Vec::new();
    let mut now = NOON;
    while provider.tasks().iter().any(|task| !task.status.is_final()) {
        let progress = runner.look(provider, now, true);
        let mut counts = BTreeMap::new();
        for task in provider.tasks() {
            *counts.entry(task.status).or_default() += 1;
        }
        seen.push(counts);
        let next = progress.next.expect("something is still to come");
        assert!(next > now, "what is due was done");
        now = next;
    }
    seen
}

#[test]
fn every_task_runs_to_its_end_within_its_time() {
    let mut provider = provider(None, 200);
    run_out(&mut runner(), &mut provider);
    let pace = Pace::default();
    for task in provider.tasks() {
        let (started, ended) = (task.started_at.unwrap(), task.finished_at.unwrap());
        assert!(started - NOON <= pace.longest_wait);
        assert!(ended - started <= pace.longest_run * 2 + pace.longest_wait);
    }
    let failed = provider
        .tasks()
        .iter()
        .filter(|task| task.status == Status::Failed);
    assert!((8..40).contains(&failed.count()));
    assert_eq!(provider.deliveries().len(), 200);
}

#[test]
fn no_more_tasks_run_than_may_and_all_the_room_is_used() {
    let mut provider = provider(Some(3), 30);
    let seen = run_out(&mut runner(), &mut provider);
    let most = seen
        .iter()
        .filter_map(|counts| counts.get(&Status::Processing))
        .max();
    assert_eq!(most, Some(&3));
}

#[test]
fn some_tasks_go_back_to_the_queue_once() {
    let mut provider = provider(None, 200);
    let mut runner = runner();
    let seen = run_out(&mut runner, &mut provider);
    assert!(
        (8..40).contains(&runner.put_back.len()),
        "{}",
        runner.put_back.len()
    );
    let queued = seen
        .iter()
        .map(|counts| counts.get(&Status::Queued).copied().unwrap_or(0));
    let queued: Vec<usize> = queued.collect();
    assert!(queued.windows(2).any(|pair| pair[1] > pair[0]), "{queued:?}");
}

#[test]
fn what_becomes_of_a_task_follows_from_the_seed() {
    let ends = |seed| {
        let mut provider = provider(None, 50);
        run_out(&mut Runner::new(Seed(seed), Pace::default()), &mut provider);
        let end = |task: &Task| {
            (
                task.finished_at,
                task.response.as_ref().map(|raw| raw.get().to_owned()),
            )
        };
        provider.tasks().iter().map(end).collect::<Vec<_>>()
    };
    assert_eq!(ends(1), ends(1));
    assert_ne!(ends(1), ends(2));
}

#[test]
fn held_tasks_wait_until_their_four_hours_are_over() {
    let mut provider = provider(None, 2);
    let mut runner = runner();
    let limit = NOON + Duration::from_secs(4 * 3_600);
    let held = Progress {
        acted: false,
        next: Some(limit),
    };
    assert_eq!(runner.look(&mut provider, NOON, false), held);
    assert!(runner.look(&mut provider, limit, false).acted);
    assert!(provider.tasks().iter().all(|task| task.status == Status::Failed));
}

#[test]
fn a_step_that_somebody_else_forestalled_is_left_out() {
    let mut provider = provider(None, 1);
    let mut runner = Runner::new(
        Seed(7),
        Pace {
            put_back: 0.0,
            ..Pace::default()
        },
    );
    let starts = runner.look(&mut provider, NOON, true).next.unwrap();
    let ends = runner.look(&mut provider, starts, true).next.unwrap();
    assert_eq!(provider.tasks()[0].status, Status::Processing);
    provider.requeue(TaskNumber(0), starts).unwrap();
    assert!(!runner.look(&mut provider, ends, false).acted);
    assert_eq!(provider.tasks()[0].status, Status::Queued);
}
