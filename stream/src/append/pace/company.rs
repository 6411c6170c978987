//! How long events wait for company.

use std::time::{Duration, Instant};

use super::{BATCH_EVENTS, Queue};

/// The part of a batch's time within which callers that come again do so.
pub(super) const ECHO: u32 = 4;

/// The last group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    pub(super) events: usize,
    pub(super) took: Duration,
    pub(super) done: Option<Instant>,
    /// Events that waited when it was done.
    pub(super) waiting: usize,
    /// Events that came soon after.
    pub(super) echo: usize,
    /// Whether those who get an answer come again soon, as callers do that wait for one answer at a time. Then it
    /// is worth waiting for them as well: otherwise they fall into two halves that wait for each other.
    pub(super) echoes: bool,
}

impl Last {
    /// There was none yet.
    pub(super) fn none() -> Self {
        Self {
            events: 1,
            took: Duration::ZERO,
            done: None,
            waiting: 0,
            echo: 0,
            echoes: false,
        }
    }

    /// How many events to wait for, and until when at most.
    pub(super) fn wait(&self, queue: Queue) -> Option<Instant> {
        let done = self.done.unwrap_or(queue.since);
        let (enough, all) = (
            self.events.min(BATCH_EVENTS),
            (self.events + self.waiting).min(BATCH_EVENTS),
        );
        if queue.waiting < enough {
            Some(done.max(queue.since) + self.took)
        } else if self.echoes && queue.waiting < all {
            Some(done + self.took / ECHO)
        } else {
            None
        }
    }
}
