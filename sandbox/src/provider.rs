//! The provider as a state model: tasks, deliveries and secrets, without network, clock or timers.
//!
//! Whoever drives it passes the time in: a test by hand, the [`sender`](crate::sender) from a clock. All randomness
//! comes from its seed and the number of the thing decided upon, so two models with one seed hold the same tasks, ids
//! and waits, however their deliveries fared.

pub mod delivery;
pub mod endpoint;
pub mod schedule;
pub mod secrets;
pub mod task;
mod text;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Uri, header};
use rand::Rng;
use rand::distr::Alphanumeric;
use schemas::signature::{Scheme, SigningKey, sign};
use thiserror::Error;
use time::OffsetDateTime;

use crate::seed::Seed;
use delivery::{Attempt, Delivery, DeliveryNumber, Reply, Request, State, Subject};
use schedule::Schedule;
use secrets::{Secret, Secrets};
use task::{NewTask, Outcome, Status, Task};

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
    deliveries: Vec<Delivery>,
    /// Pending deliveries, the earliest first.
    due: BTreeSet<(OffsetDateTime, DeliveryNumber)>,
    sending: usize,
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
            deliveries: Vec::new(),
            due: BTreeSet::new(),
            sending: 0,
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
        &self.deliveries
    }

    /// One delivery of the log.
    pub fn delivery(&self, number: DeliveryNumber) -> &Delivery {
        &self.deliveries[index(number)]
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
        self.open(Subject::Test, task::test_body(now), now)
    }

    /// Sends a delivery that is over once more, with a fresh set of attempts and under its own `Webhook-Id`.
    pub fn redeliver(&mut self, delivery: DeliveryNumber, now: OffsetDateTime) -> Result<(), Refused> {
        let url = self.settings.url.clone();
        let delivery = self.delivery_mut(delivery);
        if matches!(delivery.state, State::Pending(_) | State::Sending) {
            return Err(Refused::StillPending);
        }
        delivery.earlier = delivery.attempts.len();
        delivery.url = url;
        let number = delivery.number;
        self.admit(number, now);
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
        self.due.len() + self.sending
    }

    /// The delivery that is due first, and when.
    pub fn next_due(&self) -> Option<(OffsetDateTime, &Delivery)> {
        self.due
            .first()
            .map(|(at, number)| (*at, &self.deliveries[index(*number)]))
    }

    /// Puts a pending delivery off until `at`.
    pub fn put_off(&mut self, delivery: DeliveryNumber, at: OffsetDateTime) {
        if let State::Pending(due) = self.delivery_mut(delivery).state {
            self.due.remove(&(due, delivery));
            self.wait_until(delivery, at);
        }
    }

    /// Begins the next attempt of the delivery that is due first: signs it with the secrets valid now. `None` when
    /// nothing is due yet. Each begun attempt must be told of in [`record`](Self::record).
    pub fn begin(&mut self, now: OffsetDateTime) -> Option<Request> {
        let (at, number) = *self.due.first()?;
        if at > now {
            return None;
        }
        self.due.pop_first();
        self.sending += 1;
        let delivery = self.delivery_mut(number);
        delivery.state = State::Sending;
        delivery.attempts.push(Attempt {
            begun: now,
            reply: None,
        });
        Some(self.request(number, now))
    }

    /// The request of a delivery as it would be signed at `now`, outside its attempts: what a provider that repeats
    /// itself sends, and, with a `now` in the past, what somebody captured then.
    pub fn request(&self, delivery: DeliveryNumber, now: OffsetDateTime) -> Request {
        self.signed(
            delivery,
            self.deliveries[index(delivery)].body.clone(),
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

    /// Records how an attempt ended, and plans what follows.
    pub fn record(&mut self, delivery: DeliveryNumber, reply: Reply, now: OffsetDateTime) -> Next {
        let mut rng = self.seed.rng("wait", delivery.0);
        let schedule = self.settings.schedule.clone();
        let entry = self.delivery_mut(delivery);
        let attempt = entry.attempts_in_set();
        let jitter = (0..entry.attempts.len())
            .map(|_| rng.random_range(0.5..=1.0))
            .last()
            .unwrap_or(1.0);
        let accepted = reply.is_accepted();
        if let Some(last) = entry.attempts.last_mut() {
            last.reply = Some(reply);
        }
        self.sending -= 1;
        if accepted {
            self.delivery_mut(delivery).state = State::Delivered(now);
            Next::Delivered
        } else if let Some(wait) = schedule.wait_after(attempt, jitter) {
            self.wait_until(delivery, now + wait);
            Next::RetryAt(now + wait)
        } else {
            self.delivery_mut(delivery).state = State::Dead;
            Next::Dead
        }
    }

    /// How long the slowest delivery can stay pending.
    pub fn longest_delivery(&self) -> Duration {
        self.settings.schedule.longest()
    }

    fn open(&mut self, subject: Subject, body: Bytes, now: OffsetDateTime) -> DeliveryNumber {
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
            url: self.settings.url.clone(),
            state: State::Dead,
            attempts: Vec::new(),
            refused: None,
            earlier: 0,
        });
        self.admit(number, now);
        number
    }

    /// Makes a delivery pending, or dead where its URL is refused.
    fn admit(&mut self, number: DeliveryNumber, now: OffsetDateTime) {
        let allow_loopback = self.settings.allow_loopback;
        let delivery = self.delivery_mut(number);
        delivery.refused = endpoint::check(&delivery.url, allow_loopback).err();
        match delivery.refused {
            None => self.wait_until(number, now),
            Some(_) => delivery.state = State::Dead,
        }
    }

    fn wait_until(&mut self, number: DeliveryNumber, at: OffsetDateTime) {
        self.delivery_mut(number).state = State::Pending(at);
        self.due.insert((at, number));
    }

    fn signed(
        &self,
        number: DeliveryNumber,
        body: Bytes,
        keys: &[SigningKey],
        now: OffsetDateTime,
    ) -> Request {
        let delivery = &self.deliveries[index(number)];
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

    fn delivery_mut(&mut self, number: DeliveryNumber) -> &mut Delivery {
        &mut self.deliveries[index(number)]
    }
}

fn index(number: DeliveryNumber) -> usize {
    usize::try_from(number.0).expect("a delivery's number is its place in the log")
}

#[cfg(test)]
mod tests;
