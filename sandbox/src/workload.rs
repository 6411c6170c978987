//! The tasks of a run: what an application asked for, and how each task ended.

use std::collections::HashMap;

use rand::Rng;
use rand::seq::IndexedRandom;
use time::{Duration, OffsetDateTime};

use crate::provider::Provider;
use crate::provider::outcome::Outcome;
use crate::provider::task::{NewTask, TASK_TYPES};
use crate::seed::Seed;

const TOPICS: &[&str] = &[
    "kettle-brands",
    "running-shoes",
    "travel-insurance",
    "espresso-machines",
    "crm-software",
    "electric-bikes",
    "mattresses",
    "password-managers",
    "cat-food",
    "solar-panels",
    "budget-airlines",
    "noise-cancelling",
    "baby-strollers",
    "online-banks",
    "robot-vacuums",
    "meal-kits",
];

const MARKETS: &[&str] = &["DE", "FR", "IT", "ES", "US", "GB", "PL", "NL", "SE", "PT"];

/// Jobs are created this many at a time, all within a few milliseconds, so that their times tie.
const BATCH: usize = 16;

/// One task to be.
#[derive(Debug, Clone)]
pub struct Planned {
    /// What is asked for.
    pub request: NewTask,
    /// When it is created.
    pub created: OffsetDateTime,
    /// When it starts to run.
    pub started: OffsetDateTime,
    /// When it ends.
    pub finished: OffsetDateTime,
    /// How it ends.
    pub outcome: Outcome,
}

/// `count` tasks of the hours before `now`, in the order of their creation.
///
/// Most jobs are one task. Some are run again under the key with `-r1`, `-r2`, after a failure or for a newer answer, and
/// some of those in the very millisecond of the first. Some tasks have no key and are jobs of their own.
pub fn plan(seed: Seed, count: usize, now: OffsetDateTime) -> Vec<Planned> {
    let mut planned = Vec::with_capacity(count + 2);
    for job in 0.. {
        if planned.len() >= count {
            break;
        }
        planned.extend(runs(seed, job, count, now));
    }
    planned.truncate(count);
    planned.sort_by_key(|task| task.created);
    planned
}

/// Lets the planned tasks happen in `provider`, each step at its time and all in the order of time.
///
/// # Panics
/// If the provider has a task with one of the keys already, or limits that the plan goes beyond.
pub fn play(provider: &mut Provider, planned: Vec<Planned>) {
    let mut steps = Vec::with_capacity(planned.len() * 3);
    for (task, times) in planned.iter().enumerate() {
        steps.push((times.created, task, Step::Create));
        steps.push((times.started, task, Step::Start));
        steps.push((times.finished, task, Step::Finish));
    }
    steps.sort_by_key(|(at, ..)| *at);
    let mut numbers = HashMap::with_capacity(planned.len());
    for (at, task, step) in steps {
        let Planned { request, outcome, .. } = &planned[task];
        match step {
            Step::Create => {
                let number = provider.create(request.clone(), at);
                numbers.insert(task, number.expect("the keys of a plan are its own"));
            }
            Step::Start => {
                let started = provider.start(numbers[&task], at);
                started.expect("it was created a moment ago");
            }
            Step::Finish => {
                let ended = provider.finish(numbers[&task], outcome.clone(), at);
                ended.expect("each task ends once, and within the limits");
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Step {
    Create,
    Start,
    Finish,
}

/// The tasks of one job.
fn runs(seed: Seed, job: usize, count: usize, now: OffsetDateTime) -> Vec<Planned> {
    let rng = &mut seed.rng("job", job as u64);
    let batch = job / BATCH * BATCH;
    let share = batch as f64 / count.max(1) as f64;
    let created = now - Duration::hours(3)
        + Duration::hours(2) * share
        + Duration::milliseconds(rng.random_range(0..4));
    let keyed = rng.random_bool(0.9);
    let runs = match rng.random_range(0..100_u8) {
        _ if !keyed => 1,
        0..2 => 3,
        2..12 => 2,
        _ => 1,
    };
    let failing = if runs > 1 { 0.6 } else { 0.1 };
    (0..runs)
        .map(|run| {
            let again = if run == 0 || rng.random_bool(0.3) {
                Duration::ZERO
            } else {
                Duration::minutes(10 * run) + Duration::milliseconds(rng.random_range(0..600_000))
            };
            let created = created + again;
            let started = created + Duration::milliseconds(rng.random_range(500..1_200_000));
            let failed = rng.random_bool(if run == 0 { failing } else { 0.2 });
            Planned {
                request: NewTask {
                    task_type: TASK_TYPES.choose(rng).expect("there are task types"),
                    priority: rng.random_range(1..=10),
                    idempotency_key: keyed.then(|| key(job, run, now)),
                },
                created,
                started,
                finished: started + Duration::milliseconds(rng.random_range(4_000..290_000)),
                outcome: if failed {
                    Outcome::failed(rng)
                } else {
                    Outcome::completed(rng)
                },
            }
        })
        .collect()
}

/// A key made of meaning: topic, market and day, and which run it is.
fn key(job: usize, run: i64, now: OffsetDateTime) -> String {
    let topic = TOPICS[job % TOPICS.len()];
    let market = MARKETS[job / TOPICS.len() % MARKETS.len()];
    let days = i64::try_from(job / TOPICS.len() / MARKETS.len()).unwrap_or(i64::MAX);
    let day = now.date() - Duration::days(days);
    let rerun = if run == 0 {
        String::new()
    } else {
        format!("-r{run}")
    };
    format!("{topic}|{market}|{day}{rerun}")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-30 12:00 UTC);

    #[test]
    fn a_plan_has_as_many_tasks_as_asked_for_and_no_key_twice() {
        for count in [0, 1, 17, 2_000] {
            let plan = plan(Seed(7), count, NOW);
            assert_eq!(plan.len(), count);
            let keys: Vec<&String> = plan
                .iter()
                .filter_map(|task| task.request.idempotency_key.as_ref())
                .collect();
            assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
        }
    }

    #[test]
    fn a_plan_holds_every_case_that_the_winner_rule_decides() {
        let plan = plan(Seed(7), 2_000, NOW);
        let having = |test: &dyn Fn(&Planned) -> bool| plan.iter().filter(|task| test(task)).count();
        let key = |task: &Planned| task.request.idempotency_key.clone().unwrap_or_default();
        assert!(having(&|task| key(task).is_empty()) > 100);
        assert!(having(&|task| key(task).ends_with("-r1")) > 100);
        assert!(having(&|task| key(task).ends_with("-r2")) > 10);
        let firsts: HashSet<(String, OffsetDateTime)> =
            plan.iter().map(|task| (key(task), task.created)).collect();
        let ties = having(&|task| {
            key(task)
                .strip_suffix("-r1")
                .is_some_and(|first| firsts.contains(&(first.to_owned(), task.created)))
        });
        assert!(ties > 20, "{ties} reruns in the millisecond of the first run");
    }

    #[test]
    fn every_task_ends_before_now_and_after_it_began() {
        for task in plan(Seed(3), 2_000, NOW) {
            assert!(task.created < task.started && task.started < task.finished && task.finished < NOW);
            assert!(task.created > NOW - Duration::hours(4));
        }
    }
}
