//! Log lines that strangers or an outage could repeat without end are written once in a while.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Time between two lines about the same thing.
const PAUSE: Duration = Duration::from_secs(10);

/// Lets one line about each thing through in each pause, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<HashMap<&'static str, State>>);

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    held_back: u64,
}

impl Throttle {
    /// `Some` when a line about `thing` is due now, with the number of lines that were held back since the last.
    pub(crate) fn due(&self, thing: &'static str) -> Option<u64> {
        // Nothing panics while it holds the lock.
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let state = states.entry(thing).or_default();
        let now = Instant::now();
        if state.last.is_some_and(|last| now.duration_since(last) < PAUSE) {
            state.held_back += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_a_pause_and_the_next_tells_how_many_were_held_back() {
        let throttle = Throttle::default();
        assert_eq!(
            [throttle.due("a"), throttle.due("a"), throttle.due("a")],
            [Some(0), None, None]
        );
        assert_eq!(throttle.due("b"), Some(0));
        tokio::time::advance(PAUSE).await;
        assert_eq!(
            [throttle.due("a"), throttle.due("a"), throttle.due("b")],
            [Some(2), None, Some(0)]
        );
    }
}
