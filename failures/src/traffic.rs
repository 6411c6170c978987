//! Tasks for the provider: jobs and their reruns, ends good and bad, one after the other or as a steady load.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Uri;
use rand::Rng;
use sandbox::clock::Clock;
use sandbox::provider::outcome::Outcome;
use sandbox::provider::task::NewTask;
use sandbox::seed::Seed;
use sandbox::sender::Account;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Lets tasks of an account happen. Clones count on from each other.
#[derive(Debug, Clone)]
pub(crate) struct Traffic {
    account: Account,
    clock: Clock,
    seed: Seed,
    next: Arc<AtomicU64>,
}

impl Traffic {
    pub(crate) fn new(account: Account, clock: Clock, seed: Seed) -> Self {
        Self {
            account,
            clock,
            seed,
            next: Arc::default(),
        }
    }

    /// Creates a task and ends it at once, so that its delivery is due; its id. Of ten tasks one has no key, two are
    /// reruns of the one before them, and two or three fail.
    pub(crate) fn finish_one(&self) -> String {
        let (key, outcome) = self.next_one();
        self.finish(key, outcome)
    }

    /// As [`finish_one`](Self::finish_one), and its delivery is dead at once: where it should go is no public address.
    pub(crate) fn lose_one(&self) -> String {
        let (key, outcome) = self.next_one();
        let id = self.create(key);
        let now = self.clock.now();
        self.account.with(|provider| {
            let url = provider.settings().url.clone();
            provider.set_url(Uri::from_static("https://10.0.0.1/"));
            let task = provider.find(&id).expect("it was created a moment ago");
            provider.finish(task, outcome, now).expect("a task ends once");
            provider.set_url(url);
        });
        id
    }

    fn next_one(&self) -> (Option<String>, Outcome) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let rng = &mut self.seed.rng("traffic", number);
        let (key, failing) = match number % 10 {
            9 => (None, 0.1),
            4 | 8 => (Some(format!("job-{}-r1", number - 1)), 0.2),
            3 | 7 => (Some(format!("job-{number}")), 0.6),
            _ => (Some(format!("job-{number}")), 0.1),
        };
        let outcome = if rng.random_bool(failing) {
            Outcome::failed(rng)
        } else {
            Outcome::completed(rng)
        };
        (key, outcome)
    }

    /// Creates a task with this key and ends it like this; its id.
    ///
    /// # Panics
    /// When the provider has a task with the key already.
    pub(crate) fn finish(&self, key: Option<String>, outcome: Outcome) -> String {
        let id = self.create(key);
        self.end(&id, outcome);
        id
    }

    /// Creates a task with this key and lets it run; its id.
    ///
    /// # Panics
    /// When the provider has a task with the key already.
    pub(crate) fn create(&self, key: Option<String>) -> String {
        let id = self.queue(key);
        let now = self.clock.now();
        self.account.with(|provider| {
            let task = provider.find(&id).expect("it was created a moment ago");
            provider.start(task, now).expect("nobody else starts it");
        });
        id
    }

    /// Creates a task with this key, which waits for its turn; its id.
    ///
    /// # Panics
    /// When the provider has a task with the key already.
    pub(crate) fn queue(&self, key: Option<String>) -> String {
        let now = self.clock.now();
        let request = NewTask {
            task_type: "GEMINI",
            priority: 3,
            idempotency_key: key,
        };
        self.account.with(|provider| {
            let task = provider.create(request, now).expect("no other task has this key");
            provider.task(task).id.clone()
        })
    }

    /// Ends a task that runs, so that its delivery is due.
    ///
    /// # Panics
    /// When there is no such task, or it has ended.
    pub(crate) fn end(&self, id: &str, outcome: Outcome) {
        let now = self.clock.now();
        self.account.with(|provider| {
            let task = provider.find(id).expect("the provider holds the task");
            provider.finish(task, outcome, now).expect("a task ends once");
        });
    }

    /// Lets so many tasks end every second until the load is stopped.
    pub(crate) fn load(&self, per_second: u32) -> Load {
        let stop = CancellationToken::new();
        let (traffic, stopped) = (self.clone(), stop.clone());
        let task = tokio::spawn(async move {
            let mut tick = tokio::time::interval(Duration::from_secs(1) / per_second);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut ids = Vec::new();
            loop {
                tokio::select! {
                    biased;
                    () = stopped.cancelled() => return ids,
                    _ = tick.tick() => ids.push(traffic.finish_one()),
                }
            }
        });
        Load {
            stop,
            task: AbortOnDropHandle::new(task),
        }
    }
}

/// Tasks that end one after the other, until it is stopped or dropped.
#[derive(Debug)]
pub struct Load {
    stop: CancellationToken,
    task: AbortOnDropHandle<Vec<String>>,
}

impl Load {
    /// Ends it; the ids of its tasks.
    pub async fn stop(self) -> Vec<String> {
        self.stop.cancel();
        self.task.await.expect("a load does not panic")
    }
}
