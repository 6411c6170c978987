//! Deliveries in the order in which they are sent.

use std::collections::HashSet;

use rand::Rng;

use super::Delivery;

/// A copy is of one of so many deliveries before it: what a sender repeats, it sent a short while ago.
const REACH: usize = 1_000;

/// Deliveries, and the order in which they are sent.
#[derive(Debug)]
pub struct Batch {
    deliveries: Vec<Delivery>,
    order: Vec<usize>,
}

impl Batch {
    /// Each once.
    pub fn once(deliveries: Vec<Delivery>) -> Self {
        let order = (0..deliveries.len()).collect();
        Self { deliveries, order }
    }

    /// Each once, and between them so many copies that they are `percent` of a hundred.
    ///
    /// # Panics
    /// When everything is to be a copy: what each is a copy of must be there too.
    pub fn with_copies(deliveries: Vec<Delivery>, percent: u32, rng: &mut impl Rng) -> Self {
        assert!(
            percent < 100,
            "{percent} of a hundred deliveries cannot be copies"
        );
        let mut order = Vec::with_capacity(deliveries.len() * 2);
        for number in 0..deliveries.len() {
            order.push(number);
            while rng.random_ratio(percent, 100) {
                order.push(rng.random_range(number.saturating_sub(REACH)..=number));
            }
        }
        Self { deliveries, order }
    }

    /// How many are sent.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The one that is sent after `number` others.
    pub fn get(&self, number: usize) -> Option<&Delivery> {
        self.order.get(number).map(|index| &self.deliveries[*index])
    }

    /// How many different ones are among those that are sent after so many others. Numbers beyond the end count for nothing.
    pub fn distinct(&self, numbers: impl IntoIterator<Item = usize>) -> usize {
        let numbers = numbers.into_iter();
        let different: HashSet<_> = numbers.filter_map(|number| self.order.get(number)).collect();
        different.len()
    }
}

#[cfg(test)]
mod tests {
    use sandbox::seed::Seed;

    use super::*;

    fn deliveries(count: usize) -> Vec<Delivery> {
        let delivery = |number: usize| Delivery {
            task_id: number.to_string(),
            request: Box::default(),
        };
        (0..count).map(delivery).collect()
    }

    #[test]
    fn without_copies_everything_is_sent_once_and_in_order() {
        let batch = Batch::once(deliveries(3));
        let ids: Vec<_> = (0..4)
            .map(|number| batch.get(number).map(|one| &*one.task_id))
            .collect();
        assert_eq!(ids, [Some("0"), Some("1"), Some("2"), None]);
        assert_eq!((batch.distinct(0..2), batch.distinct(1..9)), (2, 2));
    }

    #[test]
    fn copies_are_of_what_was_sent_before_and_as_many_as_asked_for() {
        let batch = Batch::with_copies(deliveries(9_000), 10, &mut Seed(7).rng("copies", 0));
        assert!((9_900..10_100).contains(&batch.len()), "{}", batch.len());
        assert_eq!(batch.distinct(0..batch.len()), 9_000);
        let mut greatest = 0;
        for &number in &batch.order {
            assert!(number <= greatest + 1 && number + REACH >= greatest);
            greatest = greatest.max(number);
        }
    }

    #[test]
    #[should_panic(expected = "cannot be copies")]
    fn not_everything_can_be_a_copy() {
        Batch::with_copies(deliveries(1), 100, &mut Seed(7).rng("copies", 0));
    }
}
