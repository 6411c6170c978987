//! The provider's part: tasks that end, deliveries, its clock and its secrets.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Uri};
use sandbox::eventually;
use sandbox::provider::delivery::{Delivery, State, Subject};
use sandbox::provider::outcome::Outcome;
use sandbox::provider::own_scheme;
use sandbox::provider::secrets::Secret;
use schemas::signature::sign;

use crate::traffic::Load;
use crate::world::{Posted, SOON, Who, World, post};

impl World {
    /// Lets `count` tasks end, so that their deliveries set out; their ids.
    pub fn finish_tasks(&self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.traffic.finish_one()).collect()
    }

    /// Lets one task with this key end like this; its id.
    pub fn finish_task(&self, key: Option<&str>, outcome: Outcome) -> String {
        self.traffic.finish(key.map(str::to_owned), outcome)
    }

    /// Lets `count` tasks end whose deliveries are dead at once; their ids.
    pub fn lose_tasks(&self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.traffic.lose_one()).collect()
    }

    /// Creates a task with this key that waits in the queue; its id.
    pub fn queue_task(&self, key: &str) -> String {
        self.traffic.queue(Some(key.to_owned()))
    }

    /// Creates a task with this key that runs until [`end_task`](Self::end_task); its id.
    pub fn create_task(&self, key: &str) -> String {
        self.traffic.create(Some(key.to_owned()))
    }

    /// Ends a task that runs, so that its delivery sets out.
    pub fn end_task(&self, id: &str, outcome: Outcome) {
        self.traffic.end(id, outcome);
    }

    /// An end with an answer, the same for the same number.
    pub fn answered(&self, number: u64) -> Outcome {
        Outcome::completed(&mut self.setup.seed.rng("answered", number))
    }

    /// An end with an error, the same for the same number.
    pub fn failed(&self, number: u64) -> Outcome {
        Outcome::failed(&mut self.setup.seed.rng("failed", number))
    }

    /// Lets so many tasks end every second until the load is stopped.
    pub fn load(&self, per_second: u32) -> Load {
        self.traffic.load(per_second)
    }

    /// Waits until the provider has `count` deliveries accepted, whatever became of the others.
    pub async fn delivered(&self, count: usize) {
        let least = count as u64;
        eventually(&format!("{count} deliveries are accepted"), SOON, async || {
            let tally = self.tally();
            if tally.delivered >= least {
                Ok(())
            } else {
                Err(tally)
            }
        })
        .await;
    }

    /// Waits until the task `id` has its delivery accepted.
    pub async fn delivered_task(&self, id: &str) {
        eventually(
            &format!("the delivery of task {id} is accepted"),
            SOON,
            async || match self.delivery(id, |delivery| delivery.state) {
                State::Delivered(_) => Ok(()),
                other => Err(other),
            },
        )
        .await;
    }

    /// Deliveries that are not over yet.
    pub fn pending(&self) -> usize {
        self.account.with(|provider| provider.pending())
    }

    /// The provider's delivery log entry for the task `id`, read by `look`.
    ///
    /// # Panics
    /// When there is no delivery for it.
    pub fn delivery<T>(&self, id: &str, look: impl FnOnce(&Delivery) -> T) -> T {
        self.account.with(|provider| {
            let of_task = |delivery: &&Delivery| match delivery.subject {
                Subject::Task(task) => provider.task(task).id == id,
                Subject::Test => false,
            };
            let delivery = provider.deliveries().iter().find(of_task);
            look(delivery.unwrap_or_else(|| panic!("task {id} has no delivery")))
        })
    }

    /// Sends a sample, as the button on the provider's dashboard does.
    pub fn send_test_delivery(&self) {
        let now = self.clock.now();
        self.account.with(|provider| provider.send_test(now));
    }

    /// Registers `url` at the provider: deliveries that arise or are redelivered from now on go there.
    pub fn register(&self, url: Uri) {
        self.account.with(|provider| provider.set_url(url));
    }

    /// Redelivers the delivery of the task `id` by hand, as on the provider's dashboard.
    ///
    /// # Panics
    /// When the provider refuses: it is pending, its task is gone, or it was done too often within the hour.
    pub fn redeliver(&self, id: &str) {
        let (number, now) = (self.delivery(id, |delivery| delivery.number), self.clock.now());
        let redelivered = self.account.with(|provider| provider.redeliver(number, now));
        redelivered.unwrap_or_else(|e| panic!("redelivering task {id}: {e}"));
    }

    /// Brings every pending attempt forward to now: the provider's waits, compressed to nothing. Each still costs one of
    /// the ten attempts.
    pub fn hasten_retries(&self) {
        let now = self.clock.now();
        self.account.with(|provider| {
            let waiting = |delivery: &&Delivery| matches!(delivery.state, State::Pending(at) if at > now);
            let waiting: Vec<_> = provider
                .deliveries()
                .iter()
                .filter(waiting)
                .map(|delivery| delivery.number)
                .collect();
            for number in waiting {
                provider.put_off(number, now);
            }
        });
    }

    /// Puts the provider's clock so far ahead of the receiver's (behind, when negative).
    pub fn shift_provider_clock(&mut self, ahead: time::Duration) {
        let milliseconds = i64::try_from(ahead.whole_milliseconds()).expect("less than an age");
        self.clock_is_true = false;
        self.ahead.store(milliseconds, Ordering::Relaxed);
    }

    /// The provider's secret `number`; the one that the world begins with is 0.
    pub fn secret_of(&self, number: u64) -> Secret {
        Secret::generate(self.setup.seed, number)
    }

    /// Makes `secret` the provider's newest. The one before signs beside it until
    /// [`retire_old_secrets`](Self::retire_old_secrets).
    pub fn rotate_secret(&mut self, secret: &Secret) {
        let later = self.clock.now() + time::Duration::days(1);
        self.account
            .with(|provider| provider.rotate(secret.clone(), later));
        self.secret = secret.clone();
    }

    /// Ends the validity of every secret but the newest.
    pub fn retire_old_secrets(&self) {
        let now = self.clock.now();
        self.account
            .with(|provider| provider.retire_replaced_secrets(now));
    }

    /// Posts a body that is no delivery of the provider's, signed with its newest secret, to an ingress through its link;
    /// the status, `None` when no answer came. The judge knows of it.
    pub async fn post(&mut self, to: Who, body: impl Into<Bytes>) -> Option<u16> {
        self.post_by_the_clock(to, body).await.status
    }

    /// As [`post`](Self::post), for a test to which the second matters.
    pub async fn post_by_the_clock(&mut self, to: Who, body: impl Into<Bytes>) -> Posted {
        let body = body.into();
        let hook = self
            .member(to)
            .hook()
            .unwrap_or_else(|| panic!("{to} takes no deliveries"));
        let second = self.clock.now().unix_timestamp();
        let headers = self.signed(&body, second);
        let status = post::post(hook, &headers, &body).await.ok();
        let posted = Posted {
            body,
            status,
            within_a_second: self.clock.now().unix_timestamp() == second,
        };
        self.posted.push(posted.clone());
        posted
    }

    /// The value of a signature header for a body that nobody ever gets to see whole.
    pub fn a_signature(&self) -> String {
        let headers = self.signed(b"", self.clock.now().unix_timestamp());
        let value = headers[0].1.to_str().expect("letters, digits and signs");
        value.to_owned()
    }

    fn signed(&self, body: &[u8], now: i64) -> Vec<(HeaderName, HeaderValue)> {
        sign(&own_scheme(), &[self.secret.key()], "msg_by_hand", now, body)
    }
}
