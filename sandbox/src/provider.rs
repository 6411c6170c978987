//! The provider as a state model: tasks, deliveries and secrets, without network, clock or timers.
//!
//! Whoever drives it passes the time in: a test by hand, the [`sender`](crate::sender) from a clock. All randomness
//! comes from its seed and the number of the thing decided upon, so two models with one seed hold the same tasks, ids
//! and waits, however their deliveries fared.

pub(crate) mod body;
pub mod delivery;
pub mod endpoint;
pub mod life;
mod outbox;
pub mod outcome;
mod queue;
mod refused;
mod register;
pub mod schedule;
pub mod secrets;
mod settings;
mod signing;
pub mod task;
mod text;

use std::collections::VecDeque;

use bytes::Bytes;
use http::Uri;
use schemas::signature::SigningKey;
use time::OffsetDateTime;

use crate::seed::Seed;
use delivery::{Delivery, DeliveryNumber, Reply, Request, Subject};
use endpoint::Undeliverable;
use outbox::Outbox;
use register::Register;
use secrets::{Secret, Secrets};
use task::Task;

pub use queue::QueueStatus;
pub use refused::{NotFound, Refused};
pub use settings::{Settings, own_scheme};
pub use signing::WEBHOOK_ID;
pub use task::TaskNumber;

/// What becomes of a delivery after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It was accepted.
    Delivered,
    /// It is tried again then.
    RetryAt(OffsetDateTime),
    /// That was its last attempt.
    Dead,
}

/// One account of the provider.
#[derive(Debug)]
pub struct Provider {
    seed: Seed,
    settings: Settings,
    secrets: Secrets,
    register: Register,
    outbox: Outbox,
    /// When deliveries were sent again by hand, oldest first.
    redelivered: VecDeque<OffsetDateTime>,
}

impl Provider {
    /// An account without tasks that signs with `secret`.
    pub fn new(settings: Settings, secret: Secret, seed: Seed) -> Self {
        Self {
            seed,
            secrets: Secrets::new(secret),
            register: Register::new(settings.life.clone()),
            settings,
            outbox: Outbox::new(seed),
            redelivered: VecDeque::new(),
        }
    }

    /// How the account is set up.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Delivers to `url` from now on. Deliveries that exist keep their URL until they are redelivered.
    pub fn set_url(&mut self, url: Uri) {
        self.settings.url = url;
    }

    /// Every task there ever was, in the order of creation.
    pub fn tasks(&self) -> &[Task] {
        self.register.all()
    }

    /// One task.
    pub fn task(&self, number: TaskNumber) -> &Task {
        self.register.get(number)
    }

    /// The task of this id, while it is kept.
    ///
    /// # Errors
    /// When no task of this id is kept.
    pub fn find(&self, id: &str) -> Result<TaskNumber, NotFound> {
        self.register.find(id).ok_or(NotFound)
    }

    /// The task that a key is bound to: the one that was created with it, until its record is deleted.
    ///
    /// # Errors
    /// When no task is bound to this key.
    pub fn find_key(&self, key: &str) -> Result<TaskNumber, NotFound> {
        self.register.find_key(key).ok_or(NotFound)
    }

    /// The tasks that wait, in the order in which they should start: the highest priority first, then the oldest.
    pub fn queue(&self) -> impl Iterator<Item = TaskNumber> {
        self.register.queue()
    }

    /// The delivery log, oldest first.
    pub fn deliveries(&self) -> &[Delivery] {
        self.outbox.deliveries()
    }

    /// One delivery of the log.
    pub fn delivery(&self, number: DeliveryNumber) -> &Delivery {
        self.outbox.get(number)
    }

    /// Sends a sample, as the button on the dashboard does.
    pub fn send_test(&mut self, now: OffsetDateTime) -> DeliveryNumber {
        self.open(Subject::Test, body::of_test(now), now)
    }

    /// Sends a delivery that is over once more, with a fresh set of attempts and under its own `Webhook-Id`.
    ///
    /// # Errors
    /// While it is pending, when its task is no longer kept, and when the redeliveries of the hour are used up.
    pub fn redeliver(&mut self, delivery: DeliveryNumber, now: OffsetDateTime) -> Result<(), Refused> {
        self.advance(now);
        let entry = self.delivery(delivery);
        if entry.is_pending() {
            return Err(Refused::StillPending);
        }
        if let Subject::Task(task) = entry.subject
            && self.task(task).removed.is_some()
        {
            return Err(Refused::TaskGone);
        }
        let window = self.settings.life.redelivery_window;
        self.redelivered.retain(|at| now < *at + window);
        let limit = self.settings.redeliveries;
        if self.redelivered.len() >= limit {
            return Err(Refused::TooManyRedeliveries { limit });
        }
        self.redelivered.push_back(now);
        let judged = self.judge_url();
        self.outbox
            .reopen(delivery, self.settings.url.clone(), judged, now);
        Ok(())
    }

    /// Makes `secret` the newest; the one before stays valid until `old_until`, and both sign till then.
    pub fn rotate(&mut self, secret: Secret, old_until: OffsetDateTime) {
        self.secrets.rotate(secret, old_until);
    }

    /// Ends the validity of every replaced secret.
    pub fn retire_replaced_secrets(&mut self, now: OffsetDateTime) {
        self.secrets.retire_replaced(now);
    }

    /// How many deliveries are neither delivered nor dead.
    pub fn pending(&self) -> usize {
        self.outbox.pending()
    }

    /// The delivery that is due first, and when.
    pub fn next_due(&self) -> Option<(OffsetDateTime, &Delivery)> {
        self.outbox.next_due()
    }

    /// Puts a pending delivery off until `at`.
    pub fn put_off(&mut self, delivery: DeliveryNumber, at: OffsetDateTime) {
        self.outbox.put_off(delivery, at);
    }

    /// Begins the next attempt of the delivery that is due first: signs it with the secrets valid now. `None` when
    /// nothing is due yet. How each attempt ended must be given to [`record`](Self::record).
    pub fn begin(&mut self, now: OffsetDateTime) -> Option<Request> {
        let number = self.outbox.begin(now)?;
        Some(self.request(number, now))
    }

    /// Records how the attempt under way ended, and plans what follows.
    ///
    /// # Panics
    /// If no attempt of this delivery is under way.
    pub fn record(&mut self, delivery: DeliveryNumber, reply: Reply, now: OffsetDateTime) -> Next {
        self.outbox.record(delivery, reply, &self.settings.schedule, now)
    }

    /// The request of a delivery as it would be signed at `now`, outside its attempts: what a provider that repeats
    /// itself sends, and, with a `now` in the past, what somebody captured then.
    pub fn request(&self, delivery: DeliveryNumber, now: OffsetDateTime) -> Request {
        let delivery = self.delivery(delivery);
        let keys = self.secrets.valid_at(now);
        signing::request(&self.settings.scheme, delivery, delivery.body.clone(), &keys, now)
    }

    /// A request for a delivery that somebody without the secret made: `body` signed with `key`.
    pub fn forged(
        &self,
        delivery: DeliveryNumber,
        body: Bytes,
        key: SigningKey,
        now: OffsetDateTime,
    ) -> Request {
        signing::request(&self.settings.scheme, self.delivery(delivery), body, &[key], now)
    }

    fn open(&mut self, subject: Subject, body: Bytes, now: OffsetDateTime) -> DeliveryNumber {
        let judged = self.judge_url();
        self.outbox
            .open(subject, body, self.settings.url.clone(), judged, now)
    }

    fn judge_url(&self) -> Result<(), Undeliverable> {
        endpoint::check(&self.settings.url, self.settings.allow_loopback)
    }
}

#[cfg(test)]
mod tests;
