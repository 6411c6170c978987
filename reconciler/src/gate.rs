//! Whether the provider may be asked at this moment, and by how many calls at a time.
//!
//! One gate for all calls of a process. What closes it: the provider's own word (429, 503), calls that fail one after the
//! other, a key that is not accepted, answers that look as if the key were of another account. When the time is over it
//! opens for one call at a time, and wholly once one is answered. After failures that one call is best about no task: tasks
//! that cannot be asked for must not keep it closed for the others.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use service::Backoff;
use tokio::time::Instant;

/// So many failures in a row, and no more calls are made for a while.
const FAILURES: u32 = 5;
/// Pauses when nothing says how long they should be.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Of many processes that wait for the same time, each waits up to so much longer.
const SPREAD: Duration = Duration::from_secs(1);

/// Why it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The provider said so.
    Throttled,
    /// Calls failed one after the other.
    Failing,
    /// The key is not accepted.
    Denied,
    /// The provider seems to know none of our tasks.
    Unknown,
}

impl Why {
    /// All of them, for metrics.
    pub const ALL: [Self; 4] = [Self::Throttled, Self::Failing, Self::Denied, Self::Unknown];

    /// The stable name, for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::Failing => "failing",
            Self::Denied => "denied",
            Self::Unknown => "unknown_tasks",
        }
    }
}

/// A gate that is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// When it opens.
    pub until: Instant,
    /// Why it is closed.
    pub why: Why,
}

/// Lets calls to the provider through, or not. The clock is the runtime's.
#[derive(Debug)]
pub struct Gate {
    width: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    closed: Option<Closed>,
    /// One call at a time, until one is answered, because it was closed for this.
    careful: Option<Why>,
    /// Failures in a row.
    failures: u32,
    /// How often it was closed since the last answer.
    closings: u32,
    throttled: Backoff,
    failing: Backoff,
}

impl Gate {
    /// Lets at most `width` calls through at a time.
    pub fn new(width: usize) -> Self {
        let pauses = || Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        Self {
            width,
            state: Mutex::new(State {
                closed: None,
                careful: None,
                failures: 0,
                closings: 0,
                throttled: pauses(),
                failing: pauses(),
            }),
        }
    }

    /// How many more calls may be made while `running` are under way.
    pub fn room(&self, running: usize) -> usize {
        let mut state = self.lock();
        let width = match (state.closed(), state.careful) {
            (Some(_), _) => 0,
            (None, Some(_)) => 1,
            (None, None) => self.width,
        };
        width.saturating_sub(running)
    }

    /// Whether it is closed, since when and why.
    pub fn closed(&self) -> Option<Closed> {
        self.lock().closed()
    }

    /// How often it was closed since the last answer.
    pub fn closings(&self) -> u32 {
        self.lock().closings
    }

    /// Whether the next call is the first one after failures.
    pub fn is_to_be_tried(&self) -> bool {
        let mut state = self.lock();
        state.closed().is_none() && state.careful == Some(Why::Failing)
    }

    /// An answer came, whatever it says.
    pub fn answered(&self) {
        let mut state = self.lock();
        // One that was under way when the gate was closed does not open it.
        if state.closed().is_none() {
            state.careful = None;
            state.failures = 0;
            state.closings = 0;
            state.throttled.reset();
            state.failing.reset();
        }
    }

    /// The provider wants to be left alone: for how long, when it said so. Gives the pause, and whether that closes the gate.
    pub fn throttled(&self, asked: Option<Duration>, random: f64) -> (Duration, bool) {
        let mut state = self.lock();
        let pause = asked.unwrap_or_else(|| state.throttled.pause(random));
        let closes = state.closed().is_none();
        state.close(pause, Why::Throttled);
        (pause, closes)
    }

    /// Another process was told to leave the provider alone for `rest` longer.
    pub fn paused(&self, rest: Duration, random: f64) {
        self.lock()
            .close(rest + SPREAD.mul_f64(random.clamp(0.0, 1.0)), Why::Throttled);
    }

    /// A call came to nothing. True when that closes the gate.
    pub fn failed(&self, random: f64) -> bool {
        let mut state = self.lock();
        state.failures += 1;
        let closes = state.careful.is_some() || state.failures >= FAILURES;
        if closes && state.closed().is_none() {
            let pause = state.failing.pause(random);
            state.close(pause, Why::Failing);
            return true;
        }
        false
    }

    /// No calls for `pause`.
    pub fn close(&self, pause: Duration, why: Why) {
        self.lock().close(pause, why);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn closed(&mut self) -> Option<Closed> {
        if self.closed.is_some_and(|closed| closed.until <= Instant::now()) {
            self.closed = None;
        }
        self.closed
    }

    /// Never opens earlier than it would have.
    fn close(&mut self, pause: Duration, why: Why) {
        let until = Instant::now() + pause;
        self.careful = Some(why);
        if self.closed().is_none() {
            self.closings += 1;
        }
        if self.closed().is_none_or(|closed| closed.until < until) {
            self.closed = Some(Closed { until, why });
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn it_lets_so_many_calls_through_at_a_time() {
        let gate = Gate::new(8);
        assert_eq!(
            [gate.room(0), gate.room(3), gate.room(8), gate.room(9)],
            [8, 5, 0, 0]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_pause_one_call_goes_first() {
        let gate = Gate::new(8);
        assert_eq!(gate.throttled(Some(SECOND * 7), 0.0), (SECOND * 7, true));
        advance(SECOND * 6).await;
        assert_eq!(
            (gate.room(0), gate.closed().map(|closed| closed.why)),
            (0, Some(Why::Throttled))
        );
        advance(SECOND).await;
        assert_eq!((gate.room(0), gate.room(1), gate.closed()), (1, 0, None));
        gate.answered();
        assert_eq!(gate.room(0), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn it_counts_how_often_it_was_closed_since_the_last_answer() {
        let gate = Gate::new(8);
        for closings in 1..=3 {
            gate.throttled(Some(SECOND), 0.0);
            gate.throttled(Some(SECOND), 0.0);
            assert_eq!(gate.closings(), closings, "two replies at once are one");
            advance(SECOND).await;
        }
        gate.answered();
        assert_eq!(gate.closings(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_was_under_way_does_not_open_it() {
        let gate = Gate::new(8);
        gate.throttled(Some(SECOND), 0.0);
        gate.answered();
        assert_eq!(gate.room(0), 0);
        advance(SECOND).await;
        assert_eq!(gate.room(0), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_that_nobody_gave_a_time_for_double_up_to_a_minute() {
        let gate = Gate::new(8);
        let pauses: Vec<_> = (0..8).map(|_| gate.throttled(None, 0.0).0.as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(gate.throttled(None, 1.0), (SECOND * 30, false));
        advance(SECOND * 61).await;
        gate.answered();
        assert_eq!(gate.throttled(None, 0.0), (SECOND, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_pause_does_not_cut_a_longer_one() {
        let gate = Gate::new(8);
        gate.throttled(Some(SECOND * 60), 0.0);
        gate.throttled(Some(SECOND), 0.0);
        gate.paused(SECOND, 0.0);
        advance(SECOND * 59).await;
        assert_eq!(gate.room(0), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_for_the_same_time_come_back_apart() {
        let gate = Gate::new(8);
        gate.paused(SECOND, 0.5);
        advance(SECOND).await;
        assert_eq!(gate.room(0), 0);
        advance(SECOND / 2).await;
        assert_eq!(gate.room(0), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn five_failures_in_a_row_close_it_for_longer_and_longer() {
        let gate = Gate::new(8);
        for _ in 0..4 {
            assert!(!gate.failed(0.0));
        }
        gate.answered();
        for failure in 1..=5 {
            assert_eq!(gate.failed(0.0), failure == 5);
        }
        for seconds in [1, 2, 4] {
            assert_eq!((gate.room(0), gate.is_to_be_tried()), (0, false));
            advance(SECOND * seconds).await;
            assert_eq!((gate.room(0), gate.is_to_be_tried()), (1, true));
            // The one call that was let through fails too.
            assert!(gate.failed(0.0));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_of_calls_that_were_under_way_do_not_lengthen_a_pause() {
        let gate = Gate::new(8);
        for failure in 1..=8 {
            assert_eq!(gate.failed(0.0), failure == 5);
        }
        advance(SECOND).await;
        assert_eq!(gate.room(0), 1);
    }
}
