//! Losing deliveries on purpose, while the sender runs.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::account::lock;
use crate::provider::delivery::DeliveryNumber;

/// Which deliveries are lost on their way to the receiver. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Losses(Arc<Mutex<Wanted>>);

#[derive(Debug, Default)]
struct Wanted {
    all: bool,
    next: u32,
    lost: HashSet<DeliveryNumber>,
}

impl Losses {
    /// Whether every attempt is lost from now on.
    pub fn all(&self, lost: bool) {
        lock(&self.0).all = lost;
    }

    /// The next `deliveries` deliveries whose first attempt sets out lose that attempt and all that follow it, until they
    /// are dead. Redelivered by hand they begin afresh.
    pub fn next(&self, deliveries: u32) {
        lock(&self.0).next = deliveries;
    }

    /// Whether this attempt, which sets out now, is lost.
    pub(crate) fn lose(&self, delivery: DeliveryNumber, attempt: u32) -> bool {
        let mut wanted = lock(&self.0);
        if attempt == 1 {
            wanted.lost.remove(&delivery);
            if wanted.next > 0 {
                wanted.next -= 1;
                wanted.lost.insert(delivery);
            }
        }
        wanted.all || wanted.lost.contains(&delivery)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: DeliveryNumber = DeliveryNumber(1);
    const TWO: DeliveryNumber = DeliveryNumber(2);

    #[test]
    fn a_delivery_that_is_lost_stays_lost_until_it_begins_afresh() {
        let losses = Losses::default();
        losses.next(1);
        assert!(losses.lose(ONE, 1) && !losses.lose(TWO, 1));
        assert!((2..=10).all(|attempt| losses.lose(ONE, attempt)));
        assert!(!losses.lose(ONE, 1) && !losses.lose(ONE, 2));
    }

    #[test]
    fn everything_is_lost_as_long_as_wanted() {
        let losses = Losses::default();
        losses.all(true);
        assert!(losses.lose(ONE, 1) && losses.lose(TWO, 7));
        losses.all(false);
        assert!(!losses.lose(ONE, 2) && !losses.lose(TWO, 8));
    }
}
