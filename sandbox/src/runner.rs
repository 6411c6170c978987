//! Runs tasks: takes them from the queue, lets them take their time, puts some back, and ends them.
//!
//! What becomes of a task follows from the seed and its number; when, from the times at which it is looked at. A step
//! that somebody else has made pointless meanwhile is left out.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::Rng;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;

use crate::account::Account;
use crate::clock::Clock;
use crate::provider::outcome::Outcome;
use crate::provider::task::Status;
use crate::provider::{Provider, TaskNumber};
use crate::seed::Seed;

/// How long things take, and how often they go wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Pace {
    /// The longest time that a task is left in the queue although there is room for it.
    pub longest_wait: Duration,
    /// The longest run.
    pub longest_run: Duration,
    /// The share of tasks that fail, in [0, 1].
    pub failing: f64,
    /// The share of tasks that go back to the queue once, in [0, 1].
    pub put_back: f64,
}

impl Default for Pace {
    /// A few seconds each: a person who tries the provider out sees every state and is not bored.
    fn default() -> Self {
        Self {
            longest_wait: Duration::from_secs(4),
            longest_run: Duration::from_secs(12),
            failing: 0.1,
            put_back: 0.1,
        }
    }
}

impl Pace {
    /// The same shares, `factor` times as fast.
    pub fn faster(self, factor: f64) -> Self {
        Self {
            longest_wait: self.longest_wait.div_f64(factor),
            longest_run: self.longest_run.div_f64(factor),
            ..self
        }
    }
}

/// What is to happen to a running task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    PutBack,
    Finish,
}

/// Decides what happens to tasks, and when. Pure: whoever drives it passes the time in.
#[derive(Debug)]
pub struct Runner {
    seed: Seed,
    pace: Pace,
    steps: BTreeSet<(OffsetDateTime, TaskNumber, Step)>,
    /// When tasks that are first in the queue may start.
    ready: HashMap<TaskNumber, OffsetDateTime>,
    /// Tasks that were put back and are not again.
    put_back: HashSet<TaskNumber>,
}

/// What a look at the account came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Whether anything happened.
    pub acted: bool,
    /// When to look again, unless the account is changed before.
    pub next: Option<OffsetDateTime>,
}

impl Runner {
    /// A runner that has seen nothing yet.
    pub fn new(seed: Seed, pace: Pace) -> Self {
        Self {
            seed,
            pace,
            steps: BTreeSet::new(),
            ready: HashMap::new(),
            put_back: HashSet::new(),
        }
    }

    /// Does everything that is due by `now`. With `starting` false, what waits goes on waiting.
    pub fn look(&mut self, provider: &mut Provider, now: OffsetDateTime, starting: bool) -> Progress {
        let mut acted = provider.next_limit().is_some_and(|limit| limit <= now);
        provider.advance(now);
        while let Some(&(at, task, step)) = self.steps.first()
            && at <= now
        {
            self.steps.pop_first();
            acted |= self.take(provider, task, step, now);
        }
        if starting {
            acted |= self.start(provider, now);
        }
        let steps = self.steps.first().map(|(at, ..)| *at);
        let ready = self.ready.values().filter(|_| starting).min().copied();
        let next = [steps, ready, provider.next_limit()].into_iter().flatten().min();
        Progress { acted, next }
    }

    fn take(&mut self, provider: &mut Provider, task: TaskNumber, step: Step, now: OffsetDateTime) -> bool {
        if provider.task(task).status != Status::Processing {
            return false; // it was put back by hand, or its time was over
        }
        match step {
            Step::PutBack => {
                self.put_back.insert(task);
                provider.requeue(task, now).is_ok()
            }
            Step::Finish => {
                let mut rng = self.seed.rng("outcome", task.0 as u64);
                let outcome = if rng.random_bool(self.pace.failing) {
                    Outcome::failed(&mut rng)
                } else {
                    Outcome::completed(&mut rng)
                };
                provider.finish(task, outcome, now).is_ok()
            }
        }
    }

    /// Starts what may, and gives those that have just come to the front of the queue a time to start.
    fn start(&mut self, provider: &mut Provider, now: OffsetDateTime) -> bool {
        let front: Vec<TaskNumber> = provider.queue().take(provider.room()).collect();
        let mut ready = HashMap::with_capacity(front.len());
        let mut acted = false;
        for task in front {
            let at = self.ready.get(&task).copied();
            let at = at.unwrap_or_else(|| now + self.some(self.pace.longest_wait, "queue", task));
            if at <= now && provider.start(task, now).is_ok() {
                self.plan(task, now);
                acted = true;
            } else {
                ready.insert(task, at);
            }
        }
        self.ready = ready;
        acted
    }

    /// Plans what happens to a task that starts now.
    fn plan(&mut self, task: TaskNumber, now: OffsetDateTime) {
        let run = self.some(self.pace.longest_run, "run", task);
        let goes_back = self
            .seed
            .rng("put back", task.0 as u64)
            .random_bool(self.pace.put_back);
        if goes_back && !self.put_back.contains(&task) {
            self.steps.insert((now + run / 2, task, Step::PutBack));
        } else {
            self.steps.insert((now + run, task, Step::Finish));
        }
    }

    /// Between a quarter of `longest` and all of it.
    fn some(&self, longest: Duration, purpose: &str, task: TaskNumber) -> Duration {
        let share = self.seed.rng(purpose, task.0 as u64).random_range(0.25..=1.0);
        longest.mul_f64(share)
    }
}

/// Whether tasks are started. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Hold(Arc<AtomicBool>);

impl Hold {
    /// Leaves tasks in the queue as long as `held`; those that run go on.
    pub fn set(&self, held: bool, account: &Account) {
        self.0.store(held, Ordering::Relaxed);
        account.announce();
    }

    /// Whether tasks are left in the queue.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs the tasks of `account` in real time until `stop` is cancelled.
pub async fn run(
    mut runner: Runner,
    account: &Account,
    hold: &Hold,
    clock: &Clock,
    stop: &CancellationToken,
) {
    let mut changes = account.changes();
    loop {
        let now = clock.now();
        let progress = account.change(|provider| runner.look(provider, now, !hold.is_set()));
        if progress.acted {
            // For the sender. This loop hears of it too and looks once more, in vain.
            account.announce();
        }
        let wait = progress
            .next
            .map(|at| Duration::try_from(at - clock.now()).unwrap_or(Duration::ZERO));
        tokio::select! {
            () = stop.cancelled() => return,
            () = changes.next() => {}
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
        }
    }
}

#[cfg(test)]
mod tests;
