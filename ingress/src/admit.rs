//! What one process takes on at the same time: requests, and bytes of their bodies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use prometheus_client::metrics::gauge::Gauge;

/// Bytes of each body that the budget does not count. They are bounded by the number of requests instead, so that large
/// uploads, which strangers can begin too, never keep small deliveries out.
pub(crate) const FREE_BYTES: usize = 64 * 1024;

/// Counts what is taken on against two bounds.
#[derive(Debug)]
pub(crate) struct Gate {
    requests: Level,
    bytes: Level,
}

/// A count with a bound, shown as a gauge.
#[derive(Debug)]
struct Level {
    most: usize,
    now: AtomicUsize,
    shown: Gauge,
}

/// Room for one request; gives back what it holds when dropped.
#[derive(Debug)]
pub(crate) struct Room {
    gate: Arc<Gate>,
    charged: usize,
}

/// The budget of bytes is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetSpent;

impl Gate {
    pub(crate) fn new(requests: (usize, Gauge), bytes: (usize, Gauge)) -> Arc<Self> {
        Arc::new(Self {
            requests: Level::new(requests),
            bytes: Level::new(bytes),
        })
    }

    /// Room for one more request, unless all is taken.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Room> {
        self.requests.raise(1).then(|| Room {
            gate: Arc::clone(self),
            charged: 0,
        })
    }
}

impl Room {
    /// Charges a body of which `held` bytes are there by now. What was charged before counts.
    pub(crate) fn hold(&mut self, held: usize) -> Result<(), BudgetSpent> {
        let more = held.saturating_sub(FREE_BYTES).saturating_sub(self.charged);
        if more > 0 {
            if !self.gate.bytes.raise(more) {
                return Err(BudgetSpent);
            }
            self.charged += more;
        }
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.gate.requests.lower(1);
        self.gate.bytes.lower(self.charged);
    }
}

impl Level {
    fn new((most, shown): (usize, Gauge)) -> Self {
        Self {
            most,
            now: AtomicUsize::new(0),
            shown,
        }
    }

    /// Raises the count, unless that would pass the bound.
    fn raise(&self, by: usize) -> bool {
        let raised = |now: usize| now.checked_add(by).filter(|sum| *sum <= self.most);
        let fits = self.now.fetch_update(Relaxed, Relaxed, raised).is_ok();
        if fits {
            self.shown.inc_by(signed(by));
        }
        fits
    }

    fn lower(&self, by: usize) {
        if by > 0 {
            self.now.fetch_sub(by, Relaxed);
            self.shown.dec_by(signed(by));
        }
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(requests: usize, bytes: usize) -> (Arc<Gate>, Gauge, Gauge) {
        let (shown_requests, shown_bytes) = (Gauge::default(), Gauge::default());
        (
            Gate::new((requests, shown_requests.clone()), (bytes, shown_bytes.clone())),
            shown_requests,
            shown_bytes,
        )
    }

    #[test]
    fn a_place_is_free_again_once_its_room_is_dropped() {
        let (gate, shown, _) = gate(2, 0);
        let (first, second) = (gate.enter(), gate.enter());
        assert!(first.is_some() && second.is_some() && gate.enter().is_none());
        assert_eq!(shown.get(), 2);
        drop(first);
        assert!(gate.enter().is_some());
        drop(second);
        assert_eq!(shown.get(), 0);
    }

    #[test]
    fn the_first_bytes_of_each_request_are_free_and_the_rest_is_given_back() {
        let (gate, _, shown) = gate(9, 100);
        let mut large = gate.enter().unwrap();
        assert_eq!(large.hold(FREE_BYTES), Ok(()));
        assert_eq!(shown.get(), 0);
        assert_eq!(large.hold(FREE_BYTES + 60), Ok(()));
        assert_eq!(large.hold(FREE_BYTES + 100), Ok(()));
        assert_eq!(large.hold(FREE_BYTES + 101), Err(BudgetSpent));
        let mut small = gate.enter().unwrap();
        assert_eq!(small.hold(FREE_BYTES), Ok(()));
        assert_eq!(small.hold(FREE_BYTES + 1), Err(BudgetSpent));
        drop(large);
        assert_eq!(shown.get(), 0);
        assert_eq!(small.hold(FREE_BYTES + 100), Ok(()));
    }
}
