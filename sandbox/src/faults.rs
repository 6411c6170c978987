//! What goes wrong on the way, decided beforehand from a seed.
//!
//! The plan of a delivery depends on the seed and the delivery's number alone. What stays open is timing: which of two
//! attempts that are on their way together arrives first, and how far a request got whose connection was closed on it.

mod rates;

use std::time::Duration;

use rand::Rng;

use crate::provider::delivery::DeliveryNumber;
use crate::provider::secrets::Secret;
use crate::seed::Seed;

pub use rates::Rates;

/// What happens to one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AttemptFault {
    /// Nothing.
    None,
    /// It is never sent.
    Lost,
    /// The receiver gets it and answers, and the answer is lost: the retry is a copy of something it has.
    AnswerLost,
    /// The connection is closed after the last byte, before the answer.
    HungUp,
    /// The connection is closed in the middle of the body.
    Cut,
    /// It is signed with a secret that is not one of the account's.
    WrongSecret,
    /// A byte of the body is changed after it was signed.
    BodyChanged,
}

/// A captured request that somebody sends again, byte for byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// While its timestamp is inside the receiver's tolerance: it verifies and must change nothing.
    Fresh,
    /// Long after: it must be refused.
    Stale,
}

/// What a stranger without the secret posts in the name of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgery {
    /// Another result for a task that exists, ahead of the true one.
    OtherResult,
    /// A task that does not exist.
    InventedTask,
}

/// Everything that befalls one delivery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryFaults {
    /// How much later than its task's end the first attempt sets out; others overtake it.
    pub delay: Duration,
    /// The faults of its attempts from the first on; all later ones go well.
    pub attempts: Vec<AttemptFault>,
    /// No attempt ever arrives, those of a redelivery included: what it tells of can only be asked for.
    pub undelivered: bool,
    /// Copies that the provider sends together with the first attempt that goes well.
    pub copies_at_once: u32,
    /// Copies that the provider sends after the delivery was accepted, each so much later.
    pub copies_later: Vec<Duration>,
    /// A captured request that is sent again after the delivery was accepted.
    pub replay: Option<Replay>,
    /// What a stranger sends together with the first attempt.
    pub forgery: Option<Forgery>,
}

impl DeliveryFaults {
    /// The fault of attempt `attempt`, counted from 1.
    pub fn of_attempt(&self, attempt: u32) -> AttemptFault {
        if self.undelivered {
            return AttemptFault::Lost;
        }
        let earlier = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        self.attempts.get(earlier).copied().unwrap_or(AttemptFault::None)
    }

    /// Whether attempt `attempt` is the first that goes well.
    pub fn first_good(&self, attempt: u32) -> bool {
        !self.undelivered && u32::try_from(self.attempts.len()).is_ok_and(|faulty| attempt == faulty + 1)
    }
}

/// The faults of a whole run.
#[derive(Debug, Clone)]
pub struct FaultPlan(Option<(Seed, Rates)>);

impl FaultPlan {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self(None)
    }

    /// What goes wrong follows from `seed`, as often as `rates` say.
    pub fn new(seed: Seed, rates: Rates) -> Self {
        Self(Some((seed, rates)))
    }

    /// The secret that strangers sign with; it belongs to no account.
    pub fn stranger(&self) -> Secret {
        let seed = self.0.as_ref().map_or(Seed(0), |(seed, _)| *seed);
        Secret::generate(seed, u64::MAX)
    }

    /// What befalls a delivery.
    pub fn of(&self, delivery: DeliveryNumber) -> DeliveryFaults {
        let Some((seed, rates)) = &self.0 else {
            return DeliveryFaults::default();
        };
        let rng = &mut seed.rng("faults", delivery.0);
        let some_time = |rng: &mut rand::rngs::StdRng| rates.longest_delay.mul_f64(rng.random());
        let attempts = (0..rates.most_in_a_row)
            .map(|_| rates.attempt(rng))
            .take_while(|fault| *fault != AttemptFault::None)
            .collect();
        DeliveryFaults {
            attempts,
            undelivered: seed.rng("undelivered", delivery.0).random_bool(rates.undelivered),
            delay: if rng.random_bool(rates.delayed) {
                some_time(rng)
            } else {
                Duration::ZERO
            },
            copies_at_once: if rng.random_bool(rates.copies_at_once) {
                rng.random_range(1..=3)
            } else {
                0
            },
            copies_later: if rng.random_bool(rates.copies_later) {
                (0..rng.random_range(1..=2)).map(|_| some_time(rng)).collect()
            } else {
                Vec::new()
            },
            replay: rng.random_bool(rates.replayed).then(|| {
                if rng.random_bool(0.5) {
                    Replay::Fresh
                } else {
                    Replay::Stale
                }
            }),
            forgery: rng.random_bool(rates.forged).then(|| {
                if rng.random_bool(0.5) {
                    Forgery::OtherResult
                } else {
                    Forgery::InventedTask
                }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn plans(seed: u64) -> Vec<DeliveryFaults> {
        let plan = FaultPlan::new(Seed(seed), Rates::rough());
        (0..2_000).map(|number| plan.of(DeliveryNumber(number))).collect()
    }

    #[test]
    fn a_plan_follows_from_its_seed() {
        assert_eq!(plans(7), plans(7));
        assert_ne!(plans(7), plans(8));
    }

    #[test]
    fn two_thousand_deliveries_meet_every_kind_of_fault() {
        let mut kinds: BTreeMap<AttemptFault, usize> = BTreeMap::new();
        for fault in plans(7).iter().flat_map(|faults| &faults.attempts) {
            *kinds.entry(*fault).or_default() += 1;
        }
        assert_eq!(kinds.len(), 6, "{kinds:?}");
        assert!(!kinds.contains_key(&AttemptFault::None));
        let some = |test: fn(&DeliveryFaults) -> bool| plans(7).iter().filter(|faults| test(faults)).count();
        assert!(some(|faults| !faults.delay.is_zero()) > 150);
        assert!(some(|faults| faults.copies_at_once > 0) > 80);
        assert!(some(|faults| !faults.copies_later.is_empty()) > 50);
        assert!(some(|faults| faults.replay == Some(Replay::Fresh)) > 20);
        assert!(some(|faults| faults.replay == Some(Replay::Stale)) > 20);
        assert!(some(|faults| faults.forgery == Some(Forgery::OtherResult)) > 15);
        assert!(some(|faults| faults.forgery == Some(Forgery::InventedTask)) > 15);
        assert!(some(|faults| *faults == DeliveryFaults::default()) > 1_000);
    }

    #[test]
    fn the_attempt_after_the_planned_faults_is_the_first_good_one() {
        let faults = DeliveryFaults {
            attempts: vec![AttemptFault::Lost, AttemptFault::Cut],
            ..DeliveryFaults::default()
        };
        assert_eq!(faults.of_attempt(1), AttemptFault::Lost);
        assert_eq!(faults.of_attempt(2), AttemptFault::Cut);
        assert_eq!(faults.of_attempt(3), AttemptFault::None);
        let first: Vec<bool> = (1..=4).map(|attempt| faults.first_good(attempt)).collect();
        assert_eq!(first, [false, false, true, false]);
    }

    #[test]
    fn a_share_of_deliveries_never_arrives_and_the_rest_fare_as_they_would() {
        let rates = Rates {
            undelivered: 0.05,
            ..Rates::rough()
        };
        let plan = FaultPlan::new(Seed(7), rates);
        let mut never = 0;
        for (number, without) in plans(7).into_iter().enumerate() {
            let with = plan.of(DeliveryNumber(number as u64));
            if with.undelivered {
                never += 1;
                assert!((1..=100).all(|attempt| with.of_attempt(attempt) == AttemptFault::Lost));
                assert!(!(1..=100).any(|attempt| with.first_good(attempt)));
            } else {
                assert_eq!(with, without);
            }
        }
        assert!((60..140).contains(&never), "{never} of 2,000");
    }

    #[test]
    fn no_plan_is_no_fault() {
        assert_eq!(FaultPlan::none().of(DeliveryNumber(3)), DeliveryFaults::default());
        let idle = FaultPlan::new(Seed(7), Rates::none());
        assert!((0..500).all(|number| idle.of(DeliveryNumber(number)) == DeliveryFaults::default()));
    }
}
