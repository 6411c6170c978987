//! The provider as a state model: tasks, deliveries and secrets, without network, clock or timers.
//!
//! Whoever drives it passes the time in: a test by hand, the [`sender`](crate::sender) from a clock. All randomness
//! comes from its seed and the number of the thing decided upon, so two models with one seed hold the same tasks, ids
//! and waits, however their deliveries fared.

mod body;
pub mod delivery;
pub mod endpoint;
mod outbox;
pub mod outcome;
pub mod schedule;
pub mod secrets;
pub mod task;
mod text;

use std::collections::HashMap;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Uri, header};
use schemas::signature::{Scheme, SigningKey, sign};
use thiserror::Error;
use time::OffsetDateTime;

use crate::seed::Seed;
use delivery::{Delivery, DeliveryNumber, Reply, Request, Subject};
use endpoint::Undeliverable;
use outbox::Outbox;
use outcome::Outcome;
use schedule::Schedule;
use secrets::{Secret, Secrets};
use task::{NewTask, Status, Task};

/// The header that names a delivery.
pub const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");

/// The scheme of the provider: one header, `t=…,v1=…`.
pub fn own_scheme() -> Scheme {
    Scheme::StripeList {
        header: HeaderName::from_static("webhook-signature"),
    }
}

/// How an account is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where results are delivered.
    pub url: Uri,
    /// Whether loopback URLs are delivered to, over plain http as well.
    pub allow_loopback: bool,
    /// How deliveries are signed.
    pub scheme: Scheme,
    /// When failed deliveries are tried again.
    pub schedule: Schedule,
}

impl Settings {
    /// The provider's own scheme and its real retry schedule, for a receiver on this machine.
    pub fn loopback(url: Uri) -> Self {
        Self {
            url,
            allow_loopback: true,
            scheme: own_scheme(),
            schedule: Schedule::default(),
        }
    }
}

/// The tasks of an account in the order of their creation; the first is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskNumber(pub usize);

/// Why the model refused a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refused {
    /// A task with this idempotency key exists.
    #[error("a task with this idempotency key exists")]
    KeyTaken,
    /// Only a queued task can start.
    #[error("the task is {0}, not QUEUED")]
    NotQueued(Status),
    /// A task ends once.
    #[error("the task is {0} already")]
    AlreadyEnded(Status),
    /// It is still tried by itself.
    #[error("the delivery is still pending")]
    StillPending,
}

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
    tasks: Vec<Task>,
    keys: HashMap<String, TaskNumber>,
    outbox: Outbox,
}

impl Provider {
    /// An account without tasks that signs with `secret`.
    pub fn new(settings: Settings, secret: Secret, seed: Seed) -> Self {
        Self {
            seed,
            settings,
            secrets: Secrets::new(secret),
            tasks: Vec::new(),
            keys: HashMap::new(),
            outbox: Outbox::new(seed),
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

    /// Every task, in the order of creation.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The delivery log, oldest first.
    pub fn deliveries(&self) -> &[Delivery] {
        self.outbox.deliveries()
    }

    /// One delivery of the log.
    pub fn delivery(&self, number: DeliveryNumber) -> &Delivery {
        self.outbox.get(number)
    }

    /// Puts a task into the queue.
    pub fn create(&mut self, request: NewTask, now: OffsetDateTime) -> Result<TaskNumber, Refused> {
        let number = TaskNumber(self.tasks.len());
        if let Some(key) = &request.idempotency_key {
            if self.keys.contains_key(key) {
                return Err(Refused::KeyTaken);
            }
            self.keys.insert(key.clone(), number);
        }
        let mut rng = self.seed.rng("task", number.0 as u64);
        self.tasks.push(Task::new(&mut rng, request, now));
        Ok(number)
    }

    /// Takes a task out of the queue and runs it.
    pub fn start(&mut self, task: TaskNumber, now: OffsetDateTime) -> Result<(), Refused> {
        let task = &mut self.tasks[task.0];
        if task.status != Status::Queued {
            return Err(Refused::NotQueued(task.status));
        }
        task.status = Status::Processing;
        task.started_at.get_or_insert(now);
        Ok(())
    }

    /// Ends a task; its delivery is due at once. A task can end without having started: it waited too long.
    pub fn finish(
        &mut self,
        task: TaskNumber,
        outcome: Outcome,
        now: OffsetDateTime,
    ) -> Result<DeliveryNumber, Refused> {
        let ended = &mut self.tasks[task.0];
        if ended.status.is_final() {
            return Err(Refused::AlreadyEnded(ended.status));
        }
        ended.end(outcome, now);
        let body = ended.body();
        Ok(self.open(Subject::Task(task), body, now))
    }

    /// Sends a sample, as the button on the dashboard does.
    pub fn send_test(&mut self, now: OffsetDateTime) -> DeliveryNumber {
        self.open(Subject::Test, body::of_test(now), now)
    }

    /// Sends a delivery that is over once more, with a fresh set of attempts and under its own `Webhook-Id`.
    pub fn redeliver(&mut self, delivery: DeliveryNumber, now: OffsetDateTime) -> Result<(), Refused> {
        let judged = self.judge_url();
        self.outbox
            .reopen(delivery, self.settings.url.clone(), judged, now)
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
        self.signed(
            delivery,
            self.delivery(delivery).body.clone(),
            &self.secrets.valid_at(now),
            now,
        )
    }

    /// A request for a delivery that somebody without the secret made: `body` signed with `key`.
    pub fn forged(
        &self,
        delivery: DeliveryNumber,
        body: Bytes,
        key: SigningKey,
        now: OffsetDateTime,
    ) -> Request {
        self.signed(delivery, body, &[key], now)
    }

    fn open(&mut self, subject: Subject, body: Bytes, now: OffsetDateTime) -> DeliveryNumber {
        let judged = self.judge_url();
        self.outbox
            .open(subject, body, self.settings.url.clone(), judged, now)
    }

    fn judge_url(&self) -> Result<(), Undeliverable> {
        endpoint::check(&self.settings.url, self.settings.allow_loopback)
    }

    fn signed(
        &self,
        number: DeliveryNumber,
        body: Bytes,
        keys: &[SigningKey],
        now: OffsetDateTime,
    ) -> Request {
        let delivery = self.delivery(number);
        let id = HeaderValue::from_str(&delivery.webhook_id).expect("letters, digits and an underscore");
        let mut headers = vec![
            (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (
                header::USER_AGENT,
                HeaderValue::from_static("Answerline-Webhooks/1.0"),
            ),
            (WEBHOOK_ID, id),
        ];
        for (name, value) in sign(
            &self.settings.scheme,
            keys,
            &delivery.webhook_id,
            now.unix_timestamp(),
            &body,
        ) {
            headers.retain(|(present, _)| *present != name);
            headers.push((name, value));
        }
        Request {
            delivery: number,
            attempt: delivery.attempts_in_set(),
            url: delivery.url.clone(),
            headers,
            body,
        }
    }
}

#[cfg(test)]
mod tests;
