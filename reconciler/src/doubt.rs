//! Whether the provider knows our tasks at all.
//!
//! A task that the provider deleted, a key of another account and the URL of another environment are answered alike: 404. So
//! when one task after the other is unknown, and none is known, that is doubted first, and no task is given up for it.

use std::collections::HashSet;

/// So many tasks, none of them known, give rise to doubt.
const TASKS: usize = 10;

/// The submissions whose tasks were unknown since the last that was known.
#[derive(Debug, Default)]
pub struct Doubt(HashSet<i64>);

impl Doubt {
    /// The provider does not know the task of this submission.
    pub fn unknown(&mut self, submission: i64) {
        if self.0.len() < TASKS {
            self.0.insert(submission);
        }
    }

    /// The provider knows a task of ours: account and environment are the right ones.
    pub fn known(&mut self) {
        self.0.clear();
    }

    /// Whether account or environment may be wrong.
    pub fn is_raised(&self) -> bool {
        self.0.len() >= TASKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_unknown_tasks_and_no_known_one_raise_it() {
        let mut doubt = Doubt::default();
        for submission in 1..=9 {
            doubt.unknown(submission);
            doubt.unknown(submission);
            assert!(!doubt.is_raised());
        }
        doubt.unknown(10);
        assert!(doubt.is_raised());
        doubt.known();
        assert!(!doubt.is_raised());
    }
}
