//! Waiting for a fact, within a bound.

use std::{fmt::Debug, future::Future, panic::Location, time::Duration};

use tokio::time::{Instant, sleep};

/// The pause between two looks. Short against everything that is waited for, long against the cost of a look.
const PAUSE: Duration = Duration::from_millis(10);

/// What one look at the world gave: the fact that was waited for, or what was there instead.
pub trait Observation {
    /// What is known once the fact holds.
    type Fact;

    /// The fact, or a text that says what was seen instead.
    fn settle(self) -> Result<Self::Fact, String>;
}

impl Observation for bool {
    type Fact = ();

    fn settle(self) -> Result<(), String> {
        if self { Ok(()) } else { Err("false".to_owned()) }
    }
}

impl<T> Observation for Option<T> {
    type Fact = T;

    fn settle(self) -> Result<T, String> {
        self.ok_or_else(|| "nothing".to_owned())
    }
}

impl<T, E: Debug> Observation for Result<T, E> {
    type Fact = T;

    fn settle(self) -> Result<T, String> {
        self.map_err(|seen| format!("{seen:?}"))
    }
}

/// Looks again and again until `look` finds the fact named by `what`, and returns it.
///
/// A look gives a `bool`, an `Option`, or a `Result` whose error is the value seen instead; that value is printed when
/// the time is up. A single look that never returns is cut off at the deadline too.
///
/// # Panics
/// When the fact does not hold within `deadline`; the message points at the caller.
#[track_caller]
pub fn eventually<O, L>(what: &str, deadline: Duration, mut look: L) -> impl Future<Output = O::Fact>
where
    O: Observation,
    L: AsyncFnMut() -> O,
{
    let caller = Location::caller();
    async move {
        let end = Instant::now() + deadline;
        let mut last = "no look ended".to_owned();
        loop {
            match tokio::time::timeout_at(end, look())
                .await
                .map(Observation::settle)
            {
                Ok(Ok(fact)) => return fact,
                Ok(Err(seen)) => last = seen,
                Err(_) => {}
            }
            assert!(
                Instant::now() < end,
                "{caller}: not within {deadline:?}: {what}; last seen: {last}"
            );
            sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_fact_that_comes_true_is_returned() {
        let mut looks = 0;
        let fact = eventually("three looks", Duration::from_secs(5), async || {
            looks += 1;
            (looks == 3).then_some("seen")
        })
        .await;
        assert_eq!((fact, looks), ("seen", 3));
    }

    #[tokio::test]
    #[should_panic(expected = "not within 30ms: the impossible; last seen: 7")]
    async fn a_fact_that_stays_away_fails_with_the_last_value_seen() {
        eventually("the impossible", Duration::from_millis(30), async || {
            Err::<(), _>(7)
        })
        .await;
    }

    #[tokio::test]
    #[should_panic(expected = "last seen: no look ended")]
    async fn a_look_that_hangs_is_cut_off_at_the_deadline() {
        eventually("an answer", Duration::from_millis(30), async || {
            std::future::pending::<bool>().await
        })
        .await;
    }
}
