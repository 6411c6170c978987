//! Keeping messages in hand while slow work on them goes on.
//!
//! A batch may wait for the one before it, and be tried again. Without a word to the broker it would be delivered once more meanwhile, to
//! us or to another projector, and slow work would turn into more work. While the database is away nothing is said:
//! another projector may be better off.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::batch::Batch;

/// The batches in hand.
#[derive(Debug)]
pub struct Keeper {
    every: Duration,
    held: Mutex<Vec<(Batch, Instant)>>,
    working: AtomicBool,
}

impl Keeper {
    /// For a consumer with this ack wait.
    pub fn new(ack_wait: Duration) -> Self {
        Self {
            every: ack_wait / 3,
            held: Mutex::default(),
            working: AtomicBool::new(true),
        }
    }

    /// Takes a batch that was just fetched.
    pub fn hold(&self, batch: &Batch) {
        self.held().push((batch.clone(), Instant::now()));
    }

    /// Lets go of it.
    pub fn release(&self, batch: &Batch) {
        self.held().retain(|(held, _)| !held.is(batch));
    }

    /// Whether work goes on, so that it is right to keep messages from others.
    pub fn set_working(&self, working: bool) {
        self.working.store(working, Ordering::Relaxed);
    }

    /// Tells the broker about every batch it has not heard of for a while, for ever.
    pub async fn run(&self) {
        loop {
            tokio::time::sleep(self.every / 2).await;
            for batch in self.due() {
                for item in batch.items() {
                    // Fails only with the client, and so with the process.
                    let _ = item.event.acker.progress().await;
                }
            }
        }
    }

    fn due(&self) -> Vec<Batch> {
        if !self.working.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let now = Instant::now();
        let mut due = Vec::new();
        for (batch, since) in self.held().iter_mut() {
            if now.duration_since(*since) >= self.every {
                *since = now;
                due.push(batch.clone());
            }
        }
        due
    }

    /// Nothing in here panics while it holds the lock.
    fn held(&self) -> MutexGuard<'_, Vec<(Batch, Instant)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
