//! What time alone brings about, and what a task's record is good for.

use super::*;
use crate::provider::task::Removal;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const QUEUE_WAIT: Duration = Duration::from_secs(4 * 3_600);
const RUN: Duration = Duration::from_secs(300);
const RETENTION: Duration = Duration::from_secs(24 * 3_600);

fn get(provider: &mut Provider, task: TaskNumber, at: OffsetDateTime) -> Result<Value, NotFound> {
    let id = provider.task(task).id.clone();
    let body = provider.get(&id, at)?;
    Ok(serde_json::from_slice(&body).unwrap())
}

fn error_code(task: &Task) -> String {
    let response: Value = serde_json::from_str(task.response.as_ref().unwrap().get()).unwrap();
    response["error"]["code"].as_str().unwrap().to_owned()
}

#[test]
fn a_task_that_never_starts_fails_after_four_hours_and_its_delivery_is_due_then() {
    let mut provider = provider();
    let task = provider.create(ask(Some("k")), NOW).unwrap();
    provider.advance(NOW + QUEUE_WAIT - SECOND);
    assert_eq!(provider.task(task).status, Status::Queued);
    assert_eq!(provider.next_limit(), Some(NOW + QUEUE_WAIT));
    provider.advance(NOW + 2 * QUEUE_WAIT);
    let failed = provider.task(task);
    assert_eq!((failed.status, failed.started_at), (Status::Failed, None));
    assert_eq!(failed.finished_at, Some(NOW + QUEUE_WAIT));
    assert_eq!(error_code(failed), "QUEUE_WAIT_EXCEEDED");
    let (due, delivery) = provider.next_due().unwrap();
    assert_eq!((due, delivery.subject), (NOW + QUEUE_WAIT, Subject::Task(task)));
    let body: Value = serde_json::from_slice(&delivery.body).unwrap();
    assert_eq!(body["credits"]["creditsCharged"], 0);
}

#[test]
fn the_time_to_run_counts_from_the_first_start_through_a_return_to_the_queue() {
    let mut provider = provider();
    let task = provider.create(ask(None), NOW).unwrap();
    let started = NOW + HOUR;
    assert_eq!(
        provider.requeue(task, NOW),
        Err(Refused::NotProcessing(Status::Queued))
    );
    provider.start(task, started).unwrap();
    provider.requeue(task, started + 100 * SECOND).unwrap();
    assert_eq!(provider.task(task).status, Status::Queued);
    assert_eq!(provider.queue().collect::<Vec<_>>(), [task]);
    provider.start(task, started + 200 * SECOND).unwrap();
    assert_eq!(provider.task(task).started_at, Some(started));
    provider.advance(started + RUN);
    let failed = provider.task(task);
    assert_eq!(
        (failed.status, failed.finished_at),
        (Status::Failed, Some(started + RUN))
    );
    assert_eq!(error_code(failed), "INTERNAL_SERVER_ERROR");
}

#[test]
fn a_task_back_in_the_queue_has_its_time_to_run_and_not_the_four_hours() {
    let mut provider = provider();
    let task = provider.create(ask(None), NOW).unwrap();
    provider.start(task, NOW).unwrap();
    provider.requeue(task, NOW).unwrap();
    provider.advance(NOW + RUN);
    assert_eq!(error_code(provider.task(task)), "INTERNAL_SERVER_ERROR");
}

#[test]
fn a_step_comes_too_late_once_a_limit_has_passed() {
    let mut provider = provider();
    let late = provider.create(ask(None), NOW).unwrap();
    let failed = Err(Refused::NotQueued(Status::Failed));
    assert_eq!(provider.start(late, NOW + QUEUE_WAIT), failed);
    let slow = provider.create(ask(None), NOW + QUEUE_WAIT).unwrap();
    provider.start(slow, NOW + QUEUE_WAIT).unwrap();
    let outcome = Outcome::with_response(Status::Completed, "{}");
    assert_eq!(
        provider.finish(slow, outcome, NOW + QUEUE_WAIT + RUN),
        Err(Refused::AlreadyEnded(Status::Failed))
    );
}

#[test]
fn a_record_is_kept_for_a_day_from_the_creation_and_its_key_as_long() {
    let mut provider = provider();
    let task = provider.create(ask(Some("k")), NOW).unwrap();
    provider.start(task, NOW).unwrap();
    provider
        .finish(task, Outcome::with_response(Status::Failed, "{}"), NOW)
        .unwrap();
    let last = NOW + RETENTION - SECOND;
    assert_eq!(
        get(&mut provider, task, last).unwrap()["task"]["status"],
        "FAILED"
    );
    assert_eq!(provider.create(ask(Some("k")), last), Err(Refused::KeyTaken));
    assert_eq!(provider.find_key("k"), Ok(task));
    assert_eq!(get(&mut provider, task, NOW + RETENTION), Err(NotFound));
    assert_eq!(provider.task(task).removed, Some(Removal::Expired));
    let again = provider.create(ask(Some("k")), NOW + RETENTION).unwrap();
    assert_ne!(provider.task(again).id, provider.task(task).id);
}

#[test]
fn clearing_the_queue_deletes_what_waits_and_nothing_else() {
    let mut provider = provider();
    let tasks: Vec<TaskNumber> = ["waits", "runs", "ended", "is back"]
        .map(|key| provider.create(ask(Some(key)), NOW).unwrap())
        .to_vec();
    for task in &tasks[1..] {
        provider.start(*task, NOW).unwrap();
    }
    let outcome = Outcome::with_response(Status::Completed, "{}");
    provider.finish(tasks[2], outcome.clone(), NOW).unwrap();
    provider.requeue(tasks[3], NOW).unwrap();

    assert_eq!(provider.clear_queue(NOW), 2);
    assert_eq!(provider.clear_queue(NOW), 0);
    let found = tasks.iter().map(|task| get(&mut provider, *task, NOW).is_ok());
    assert_eq!(found.collect::<Vec<_>>(), [false, true, true, false]);
    assert_eq!(provider.task(tasks[0]).removed, Some(Removal::Cleared));
    assert_eq!(provider.start(tasks[0], NOW), Err(Refused::TaskGone));
    assert_eq!(provider.finish(tasks[3], outcome, NOW), Err(Refused::TaskGone));
    assert_eq!(provider.pending(), 1, "a cleared task is told of by nobody");
    assert!(provider.create(ask(Some("waits")), NOW).is_ok());
    provider.advance(NOW + QUEUE_WAIT);
    assert_eq!(provider.task(tasks[0]).status, Status::Queued);
}

#[test]
fn the_queue_goes_by_priority_and_then_by_age() {
    let mut provider = provider();
    let tasks = [3, 10, 3, 1].map(|priority| {
        let request = NewTask {
            priority,
            ..ask(None)
        };
        provider.create(request, NOW).unwrap()
    });
    let order: Vec<TaskNumber> = provider.queue().collect();
    assert_eq!(order, [tasks[1], tasks[0], tasks[2], tasks[3]]);
    let status = provider.status(NOW);
    assert_eq!((status.queued, status.processing), (4, 0));
    assert_eq!(status.by_priority, [(10, 1), (3, 2), (1, 1)]);
}

#[test]
fn no_more_tasks_run_than_may_and_no_more_wait() {
    let limited = Settings {
        concurrency: Some(1),
        queue_limit: 2,
        ..settings("http://127.0.0.1/")
    };
    let mut provider = Provider::new(limited, secret(0), Seed(7));
    let first = provider.create(ask(None), NOW).unwrap();
    let second = provider.create(ask(Some("k")), NOW).unwrap();
    let full = Err(Refused::QueueFull { limit: 2 });
    assert_eq!(provider.create(ask(None), NOW), full);
    assert_eq!(
        provider.create(ask(Some("k")), NOW),
        Err(Refused::KeyTaken),
        "the key is looked at first"
    );
    provider.start(first, NOW).unwrap();
    assert_eq!(provider.start(second, NOW), Err(Refused::Busy { max: 1 }));
    assert!(provider.create(ask(None), NOW).is_ok());
    provider.requeue(first, NOW).unwrap();
    assert!(provider.start(second, NOW).is_ok());
}

#[test]
fn a_delivery_whose_task_is_no_longer_kept_is_not_sent_again() {
    let mut provider = provider();
    let of_task = finish_task(&mut provider, NOW);
    let test = provider.send_test(NOW);
    run_out(&mut provider, NOW, &Reply::Status(204));
    let later = NOW + RETENTION;
    assert_eq!(provider.redeliver(of_task, later), Err(Refused::TaskGone));
    assert_eq!(provider.redeliver(test, later), Ok(()));
}

#[test]
fn a_redelivery_is_signed_with_the_secrets_valid_then() {
    let mut provider = provider();
    let delivery = finish_task(&mut provider, NOW);
    run_out(&mut provider, NOW, &Reply::Status(204));
    provider.rotate(secret(1), NOW + HOUR);
    let signed_by = |provider: &mut Provider, at| {
        provider.redeliver(delivery, at).unwrap();
        let request = provider.begin(at).unwrap();
        provider.record(delivery, Reply::Status(204), at);
        [0, 1].map(|number| verifies(&request, &[number], at))
    };
    assert_eq!(signed_by(&mut provider, NOW), [true, true]);
    assert_eq!(signed_by(&mut provider, NOW + HOUR), [false, true]);
}

#[test]
fn redeliveries_are_limited_by_the_hour_and_refused_ones_do_not_count() {
    let limited = Settings {
        redeliveries: 2,
        ..settings("http://127.0.0.1/")
    };
    let mut provider = Provider::new(limited, secret(0), Seed(7));
    let delivery = finish_task(&mut provider, NOW);
    let mut again = |at| {
        run_out(&mut provider, at, &Reply::Status(204));
        provider.redeliver(delivery, at)
    };
    let too_many = Err(Refused::TooManyRedeliveries { limit: 2 });
    assert_eq!([again(NOW), again(NOW + SECOND)], [Ok(()), Ok(())]);
    assert_eq!(
        [again(NOW + 2 * SECOND), again(NOW + HOUR - SECOND)],
        [too_many; 2]
    );
    assert_eq!(again(NOW + HOUR), Ok(()));
    assert_eq!(again(NOW + HOUR), too_many);
    assert_eq!(again(NOW + HOUR + SECOND), Ok(()));
}

#[test]
fn a_compressed_life_ends_sooner() {
    let fast = Settings {
        life: life::Life::compressed(3_600.0),
        ..settings("http://127.0.0.1/")
    };
    let mut provider = Provider::new(fast, secret(0), Seed(7));
    let task = provider.create(ask(None), NOW).unwrap();
    let failed = get(&mut provider, task, NOW + 4 * SECOND).unwrap();
    assert_eq!(failed["response"]["error"]["code"], "QUEUE_WAIT_EXCEEDED");
    assert_eq!(get(&mut provider, task, NOW + 24 * SECOND), Err(NotFound));
}

#[test]
fn the_delivery_log_says_where_each_delivery_stands() {
    use delivery::{NoStanding, Standing};
    let mut provider = provider();
    let delivered = finish_task(&mut provider, NOW);
    run_out(&mut provider, NOW, &Reply::Status(204));
    let dead = finish_task(&mut provider, NOW);
    run_out(&mut provider, NOW, &Reply::Nothing("refused".to_owned()));
    let pending = finish_task(&mut provider, NOW);
    let of = |standing: Standing| {
        let log = provider.deliveries().iter();
        let found = log.filter(|delivery| delivery.standing() == standing);
        found.map(|delivery| delivery.number).collect::<Vec<_>>()
    };
    assert_eq!(of(Standing::Delivered), [delivered]);
    assert_eq!(of(Standing::Dead), [dead]);
    assert_eq!(of(Standing::Pending), [pending]);
    assert_eq!(provider.delivery(dead).last_error().as_deref(), Some("refused"));
    assert_eq!(provider.delivery(delivered).delivered_at(), Some(NOW));
    assert_eq!("dead".parse(), Ok(Standing::Dead));
    assert_eq!("Dead".parse::<Standing>(), Err(NoStanding));
}

/// What the model tells of its tasks, against the tasks themselves.
fn agrees_with_its_tasks(provider: &mut Provider, now: OffsetDateTime) {
    let life = provider.settings().life.clone();
    let status = provider.status(now);
    let tasks = provider.tasks();
    let kept: Vec<&Task> = tasks.iter().filter(|task| task.removed.is_none()).collect();
    let having = |status| kept.iter().filter(|task| task.status == status).count();
    assert_eq!(status.queued, having(Status::Queued));
    assert_eq!(status.processing, having(Status::Processing));
    assert_eq!(
        status.by_priority.iter().map(|(_, count)| count).sum::<usize>(),
        status.queued
    );
    assert_eq!(provider.queue().count(), status.queued);
    let ended = tasks.iter().filter(|task| task.status.is_final());
    assert_eq!(ended.count(), provider.deliveries().len());
    for task in tasks {
        let found = provider.find(&task.id).map(|number| &provider.task(number).id);
        assert_eq!(found.ok(), task.removed.is_none().then_some(&task.id));
    }
    for task in kept {
        assert!(now < task.created_at + life.retention);
        assert!(
            task.status.is_final() || task.started_at.is_some() || now < task.created_at + life.queue_wait
        );
        assert!(task.status.is_final() || task.started_at.is_none_or(|started| now < started + life.run));
        if let Some(key) = &task.request.idempotency_key {
            assert_eq!(
                provider.find_key(key).map(|number| &provider.task(number).id),
                Ok(&task.id)
            );
        }
    }
}

#[test]
fn after_any_steps_the_lists_agree_with_the_tasks() {
    use rand::Rng;
    let limited = Settings {
        concurrency: Some(20),
        queue_limit: 40,
        ..settings("http://127.0.0.1/")
    };
    let mut provider = Provider::new(limited, secret(0), Seed(7));
    let mut rng = Seed(7).rng("steps", 0);
    let (mut now, mut refused) = (NOW, 0);
    for _ in 0..2_000 {
        now += Duration::from_secs(rng.random_range(0..120));
        let count = provider.tasks().len();
        let some = TaskNumber(count.saturating_sub(rng.random_range(1..40)));
        let result = match rng.random_range(0..20) {
            _ if count == 0 => provider.create(ask(None), now).err(),
            0..7 => {
                let key = rng
                    .random_bool(0.5)
                    .then(|| format!("k{}", rng.random_range(0..200)));
                let request = NewTask {
                    priority: rng.random_range(1..=10),
                    ..ask(key.as_deref())
                };
                provider.create(request, now).err()
            }
            7..12 => provider.start(some, now).err(),
            12..14 => provider.requeue(some, now).err(),
            14..18 => {
                let outcome = Outcome::with_response(Status::Completed, "{}");
                provider.finish(some, outcome, now).err()
            }
            18 if rng.random_ratio(1, 5) => {
                provider.clear_queue(now);
                None
            }
            _ => {
                now += HOUR * rng.random_range(0..3);
                None
            }
        };
        refused += usize::from(result.is_some());
        agrees_with_its_tasks(&mut provider, now);
    }
    let gone = |removal| {
        let tasks = provider.tasks().iter();
        tasks.filter(|task| task.removed == Some(removal)).count()
    };
    let (cleared, expired) = (gone(Removal::Cleared), gone(Removal::Expired));
    assert!(
        refused > 100 && cleared > 20 && expired > 100,
        "{refused} steps were refused, {cleared} tasks cleared, {expired} expired"
    );
}
