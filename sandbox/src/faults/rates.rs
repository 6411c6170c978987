//! How often things go wrong.

use std::time::Duration;

use rand::Rng;

use super::AttemptFault;

/// How often each kind of fault befalls a delivery, as a share in [0, 1]; the kinds of [`AttemptFault`] share one
/// attempt, so their sum is at most 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// [`AttemptFault::Lost`].
    pub lost: f64,
    /// [`AttemptFault::AnswerLost`].
    pub answer_lost: f64,
    /// [`AttemptFault::HungUp`].
    pub hung_up: f64,
    /// [`AttemptFault::Cut`].
    pub cut: f64,
    /// [`AttemptFault::WrongSecret`].
    pub wrong_secret: f64,
    /// [`AttemptFault::BodyChanged`].
    pub body_changed: f64,
    /// One to three copies at once.
    pub copies_at_once: f64,
    /// One or two copies later.
    pub copies_later: f64,
    /// A first attempt that sets out late.
    pub delayed: f64,
    /// A replay, half of them fresh.
    pub replayed: f64,
    /// A forgery, half of them for a task that exists.
    pub forged: f64,
    /// All attempts lost, however many there are. Drawn apart from the rest: what befalls the others stays the same.
    pub undelivered: f64,
    /// The longest delay, of a first attempt and of a later copy.
    pub longest_delay: Duration,
    /// The most attempts in a row that fail by plan.
    pub most_in_a_row: u32,
}

impl Rates {
    /// Nothing at all.
    pub fn none() -> Self {
        Self {
            lost: 0.0,
            answer_lost: 0.0,
            hung_up: 0.0,
            cut: 0.0,
            wrong_secret: 0.0,
            body_changed: 0.0,
            copies_at_once: 0.0,
            copies_later: 0.0,
            delayed: 0.0,
            replayed: 0.0,
            forged: 0.0,
            undelivered: 0.0,
            longest_delay: Duration::ZERO,
            most_in_a_row: 0,
        }
    }

    /// About every third delivery meets something.
    pub fn rough() -> Self {
        Self {
            lost: 0.04,
            answer_lost: 0.04,
            hung_up: 0.02,
            cut: 0.02,
            wrong_secret: 0.015,
            body_changed: 0.015,
            copies_at_once: 0.06,
            copies_later: 0.04,
            delayed: 0.10,
            replayed: 0.04,
            forged: 0.03,
            undelivered: 0.0,
            longest_delay: Duration::from_millis(500),
            most_in_a_row: 4,
        }
    }

    /// Draws the fault of one attempt.
    pub(super) fn attempt(&self, rng: &mut impl Rng) -> AttemptFault {
        let kinds = [
            (self.lost, AttemptFault::Lost),
            (self.answer_lost, AttemptFault::AnswerLost),
            (self.hung_up, AttemptFault::HungUp),
            (self.cut, AttemptFault::Cut),
            (self.wrong_secret, AttemptFault::WrongSecret),
            (self.body_changed, AttemptFault::BodyChanged),
        ];
        let mut left: f64 = rng.random();
        for (share, fault) in kinds {
            if left < share {
                return fault;
            }
            left -= share;
        }
        AttemptFault::None
    }
}
