//! What happens to the connection and to the stream.

use std::time::Instant;

use super::entry::{Entry, Phase};
use super::{Engine, Token};
use crate::append::probe::Look;

impl Engine {
    /// The stream as it was seen to be. What is known about ids is true only of the one that they were stored on.
    pub(in crate::append) fn looked(&mut self, look: Option<Look>) {
        let made = |look: Option<Look>| look.map(|look| look.created);
        if made(look) != made(self.look) {
            self.recent.clear();
        }
        let full = |look: Option<Look>| look.is_some_and(|look| look.full);
        if full(look) || full(self.look) {
            // That is why events were not stored; a look tells better than they do when it is over.
            self.standing.forget();
        }
        self.look = look;
    }

    /// Whether a message stored under `seq` was not deleted from the front of the stream, by a purge or by age.
    pub(super) fn still_holds(&self, seq: u64) -> bool {
        self.look.is_none_or(|look| seq >= look.first_seq)
    }

    /// The connection was lost: nothing is sent until there is one again.
    pub(in crate::append) fn disconnected(&mut self, now: Instant) {
        self.disconnected.get_or_insert(now);
        self.output.clear();
    }

    /// There is a new connection. Whatever was under way begins again, in the order in which it came, and what was
    /// known about ids is forgotten: the broker may have lost its last events.
    pub(in crate::append) fn connected(&mut self, batches_allowed: bool, max_message: usize, now: Instant) {
        self.disconnected = None;
        self.standing.forget();
        self.fixed.max_message = max_message;
        self.pace.allow_batches(batches_allowed);
        self.pace.forget_measurements_under_way();
        self.recent.clear();
        self.output.clear();
        self.retries.clear();
        for (token, batch) in self.batches.drain() {
            self.deadlines.remove(&(batch.deadline, token));
        }

        let under_way = |(token, entry): (&Token, &Entry)| (entry.phase != Phase::Waiting).then_some(*token);
        let mut again: Vec<_> = self.entries.iter().filter_map(under_way).collect();
        again.sort_unstable();
        for token in again {
            self.settle(token, false, now);
            let Some(entry) = self.entries.get_mut(&token) else {
                continue;
            };
            entry.step += 1;
            entry.divergent = None;
            self.metrics.republished.inc();
            self.publish(token);
        }
    }
}
