//! Whether the provider knows our tasks at all.
//!
//! The same counts whether any of its answers can be used: a page that some proxy shows is an answer too.
//!
//! A task that the provider deleted, a key of another account, the URL of another environment and a provider that has lost
//! its memory for a while are answered alike: 404. So when one task after the other is unknown, and none was known for a
//! while, that is doubted first, and no task is given up for it.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

/// So many tasks, none of them known, give rise to doubt.
const TASKS: usize = 10;

/// The submissions whose tasks were unknown since the last that was known.
#[derive(Debug)]
pub struct Doubt {
    unknown: HashSet<i64>,
    known: Option<Instant>,
    /// How long a task that is known vouches for the account and the environment.
    vouches: Duration,
}

impl Doubt {
    /// None yet. A task that is known vouches for so long.
    pub fn new(vouches: Duration) -> Self {
        Self {
            unknown: HashSet::new(),
            known: None,
            vouches,
        }
    }

    /// The provider does not know the task of this submission.
    pub fn unknown(&mut self, submission: i64) {
        if self.unknown.len() < TASKS {
            self.unknown.insert(submission);
        }
    }

    /// The provider knows a task of ours: account and environment are the right ones.
    pub fn known(&mut self) {
        self.unknown.clear();
        self.known = Some(Instant::now());
    }

    /// Whether account or environment may be wrong.
    pub fn is_raised(&self) -> bool {
        self.unknown.len() >= TASKS && self.known.is_none_or(|at| at.elapsed() >= self.vouches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(doubt: &mut Doubt, submissions: std::ops::RangeInclusive<i64>) -> bool {
        submissions.for_each(|submission| doubt.unknown(submission));
        doubt.is_raised()
    }

    #[tokio::test(start_paused = true)]
    async fn many_unknown_tasks_and_no_known_one_raise_it() {
        let mut doubt = Doubt::new(Duration::from_secs(9));
        assert!(!unknown(&mut doubt, 1..=9));
        assert!(!unknown(&mut doubt, 1..=9), "the same ones again");
        assert!(unknown(&mut doubt, 10..=10));
        doubt.known();
        assert!(!doubt.is_raised());
    }

    #[tokio::test(start_paused = true)]
    async fn a_known_one_vouches_for_a_while() {
        let mut doubt = Doubt::new(Duration::from_secs(9));
        doubt.known();
        tokio::time::advance(Duration::from_secs(8)).await;
        assert!(!unknown(&mut doubt, 1..=30));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(doubt.is_raised());
    }
}
