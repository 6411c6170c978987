//! The delivery log, and which of its deliveries is due when.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::Uri;
use rand::Rng;
use rand::distr::Alphanumeric;
use time::OffsetDateTime;

use super::Next;
use super::delivery::{Attempt, Delivery, DeliveryNumber, Reply, State, Subject};
use super::endpoint::Undeliverable;
use super::schedule::Schedule;
use crate::seed::Seed;

/// All deliveries of an account. It knows nothing of tasks, secrets or signatures.
#[derive(Debug)]
pub(super) struct Outbox {
    seed: Seed,
    deliveries: Vec<Delivery>,
    /// Pending deliveries, the earliest first.
    due: BTreeSet<(OffsetDateTime, DeliveryNumber)>,
    sending: usize,
}

impl Outbox {
    pub(super) fn new(seed: Seed) -> Self {
        Self {
            seed,
            deliveries: Vec::new(),
            due: BTreeSet::new(),
            sending: 0,
        }
    }

    pub(super) fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    pub(super) fn get(&self, number: DeliveryNumber) -> &Delivery {
        &self.deliveries[index(number)]
    }

    /// How many deliveries are neither delivered nor dead.
    pub(super) fn pending(&self) -> usize {
        self.due.len() + self.sending
    }

    /// The delivery that is due first, and when.
    pub(super) fn next_due(&self) -> Option<(OffsetDateTime, &Delivery)> {
        self.due.first().map(|(at, number)| (*at, self.get(*number)))
    }

    /// Adds a delivery that is due now; `judged` says whether its URL is delivered to.
    pub(super) fn open(
        &mut self,
        subject: Subject,
        body: Bytes,
        url: Uri,
        judged: Result<(), Undeliverable>,
        now: OffsetDateTime,
    ) -> DeliveryNumber {
        let number = DeliveryNumber(self.deliveries.len() as u64);
        let letters = self
            .seed
            .rng("webhook id", number.0)
            .sample_iter(Alphanumeric)
            .take(27)
            .map(char::from);
        self.deliveries.push(Delivery {
            number,
            webhook_id: format!("msg_{}", letters.collect::<String>()),
            subject,
            body,
            url,
            opened: now,
            state: State::Dead,
            attempts: Vec::new(),
            refused: judged.err(),
            earlier: 0,
        });
        self.admit(number, now);
        number
    }

    /// Begins a fresh set of attempts of a delivery that is over.
    ///
    /// # Panics
    /// If it is pending.
    pub(super) fn reopen(
        &mut self,
        number: DeliveryNumber,
        url: Uri,
        judged: Result<(), Undeliverable>,
        now: OffsetDateTime,
    ) {
        let delivery = self.get_mut(number);
        assert!(!delivery.is_pending(), "a pending delivery is begun afresh");
        delivery.earlier = delivery.attempts.len();
        delivery.url = url;
        delivery.refused = judged.err();
        self.admit(number, now);
    }

    /// Puts a pending delivery off until `at`.
    pub(super) fn put_off(&mut self, number: DeliveryNumber, at: OffsetDateTime) {
        if let State::Pending(due) = self.get(number).state {
            self.due.remove(&(due, number));
            self.wait_until(number, at);
        }
    }

    /// Begins the next attempt of the delivery that is due first, if it is due by now.
    pub(super) fn begin(&mut self, now: OffsetDateTime) -> Option<DeliveryNumber> {
        let (_, number) = *self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.pop_first();
        self.sending += 1;
        let delivery = self.get_mut(number);
        delivery.state = State::Sending;
        delivery.attempts.push(Attempt {
            begun: now,
            reply: None,
        });
        Some(number)
    }

    /// Records how the attempt under way ended, and plans what follows.
    ///
    /// # Panics
    /// If no attempt of this delivery is under way.
    pub(super) fn record(
        &mut self,
        number: DeliveryNumber,
        reply: Reply,
        schedule: &Schedule,
        now: OffsetDateTime,
    ) -> Next {
        assert_eq!(
            self.get(number).state,
            State::Sending,
            "an attempt is recorded that was not begun"
        );
        let accepted = reply.is_accepted();
        let jitter = self.jitter(number);
        let delivery = self.get_mut(number);
        let attempt = delivery.attempts_in_set();
        if let Some(last) = delivery.attempts.last_mut() {
            last.reply = Some(reply);
        }
        self.sending -= 1;
        if accepted {
            self.get_mut(number).state = State::Delivered(now);
            Next::Delivered
        } else if let Some(wait) = schedule.wait_after(attempt, jitter) {
            self.wait_until(number, now + wait);
            Next::RetryAt(now + wait)
        } else {
            self.get_mut(number).state = State::Dead;
            Next::Dead
        }
    }

    /// What the wait after the latest attempt is shortened by: the n-th draw of the delivery's own generator.
    fn jitter(&self, number: DeliveryNumber) -> f64 {
        let mut rng = self.seed.rng("wait", number.0);
        let draws = self
            .get(number)
            .attempts
            .iter()
            .map(|_| rng.random_range(0.5..=1.0));
        draws.last().unwrap_or(1.0)
    }

    /// Makes a delivery pending unless its URL is refused.
    fn admit(&mut self, number: DeliveryNumber, now: OffsetDateTime) {
        match self.get(number).refused {
            None => self.wait_until(number, now),
            Some(_) => self.get_mut(number).state = State::Dead,
        }
    }

    fn wait_until(&mut self, number: DeliveryNumber, at: OffsetDateTime) {
        self.get_mut(number).state = State::Pending(at);
        self.due.insert((at, number));
    }

    fn get_mut(&mut self, number: DeliveryNumber) -> &mut Delivery {
        &mut self.deliveries[index(number)]
    }
}

fn index(number: DeliveryNumber) -> usize {
    usize::try_from(number.0).expect("a delivery's number is its place in the log")
}
