//! What a receiver must have stored.

use anyhow::{Result, ensure};

use crate::load::{Batch, Outcome};

/// Deliveries that a receiver must have stored by now, and those that it may have, each once.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Account {
    acknowledged: u64,
    sent: u64,
}

impl Account {
    /// Adds what was there before, or was acknowledged one by one.
    pub(super) fn add(&mut self, stored: u64) {
        self.acknowledged += stored;
        self.sent += stored;
    }

    /// Adds what became of a batch that was not sent before. A delivery counts as acknowledged once one copy of it is.
    pub(super) fn settle(&mut self, batch: &Batch, outcome: &Outcome) {
        let acknowledged = outcome.acknowledged.iter().copied();
        self.acknowledged += batch.distinct(acknowledged) as u64;
        self.sent += batch.distinct(0..outcome.sent) as u64;
    }

    /// Holds that `stored` can be. A refusal says nothing of whether the delivery is stored; where there was none, it is exact.
    ///
    /// # Errors
    /// When it is too few, or too many.
    pub(super) fn check(self, name: &str, stored: u64) -> Result<()> {
        let Self { acknowledged, sent } = self;
        ensure!(
            (acknowledged..=sent).contains(&stored),
            "{name} was sent {sent} deliveries, acknowledged {acknowledged} and stored {stored}"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandbox::seed::Seed;

    use super::*;
    use crate::load::{Delivery, Latencies};

    fn outcome(sent: usize, acknowledged: &[usize]) -> Outcome {
        Outcome {
            latencies: Latencies::default(),
            window: Duration::from_secs(1),
            sent,
            acknowledged: acknowledged.to_vec(),
        }
    }

    fn deliveries(count: usize) -> Vec<Delivery> {
        let delivery = |number: usize| Delivery {
            task_id: number.to_string(),
            request: Box::default(),
        };
        (0..count).map(delivery).collect()
    }

    #[test]
    fn without_refusals_it_is_exact() {
        let mut account = Account::default();
        account.add(5);
        account.settle(&Batch::once(deliveries(3)), &outcome(2, &[1, 0]));
        assert!(account.check("it", 7).is_ok());
        assert!(account.check("it", 6).is_err());
        assert!(account.check("it", 8).is_err());
    }

    #[test]
    fn what_was_refused_may_be_stored_or_not() {
        let mut account = Account::default();
        account.settle(&Batch::once(deliveries(3)), &outcome(3, &[0, 2]));
        assert!(account.check("it", 1).is_err());
        assert!(account.check("it", 2).is_ok());
        assert!(account.check("it", 3).is_ok());
        assert!(account.check("it", 4).is_err());
    }

    #[test]
    fn a_refused_copy_takes_nothing_from_what_was_acknowledged() {
        let batch = Batch::with_copies(deliveries(2), 90, &mut Seed(7).rng("copies", 0));
        assert!(batch.len() > 4);
        let mut account = Account::default();
        // The first time each is sent it is acknowledged, and all copies are refused.
        let firsts: Vec<usize> = (0..batch.len())
            .filter(|number| batch.distinct(0..*number) < batch.distinct(0..=*number))
            .collect();
        account.settle(&batch, &outcome(batch.len(), &firsts));
        assert_eq!(
            account,
            Account {
                acknowledged: 2,
                sent: 2
            }
        );
    }
}
