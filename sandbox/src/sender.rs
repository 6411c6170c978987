//! The provider's sender: takes due deliveries from the model, posts them, and records what came back.
//!
//! The model decides what is due and what follows; the fault plan decides what goes wrong; this file only carries it
//! out, over real connections and in real time. So a sender can be stopped and another started on the same account.

mod forgery;
mod http;
mod losses;
mod tally;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::account::lock;
use crate::clock::Clock;
use crate::faults::{AttemptFault, DeliveryFaults, FaultPlan, Forgery, Replay};
use crate::provider::Provider;
use crate::provider::delivery::{DeliveryNumber, Reply, Request, State};
use http::{Poster, Upto};

pub use self::http::PostError;
pub use self::losses::Losses;
pub use self::tally::{Answers, Kind, Tally};
pub use crate::account::Account;

/// How long ago a stale replay was captured: twice the usual tolerance of 300 s.
const STALE: Duration = Duration::from_secs(600);

/// How a sender works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Deliveries under way at the same time.
    pub concurrency: usize,
    /// Where the URL's host leads: one address after the other in turn, as behind a load balancer. When empty, the host
    /// is looked up.
    pub addresses: Vec<SocketAddr>,
    /// What goes wrong by plan.
    pub faults: FaultPlan,
    /// What is lost on the way because somebody wants it so.
    pub losses: Losses,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrency: 64,
            addresses: Vec::new(),
            faults: FaultPlan::none(),
            losses: Losses::default(),
        }
    }
}

/// Delivers what an account owes. Clones are the same sender.
#[derive(Clone)]
pub struct Sender(Arc<Parts>);

struct Parts {
    account: Account,
    faults: FaultPlan,
    losses: Losses,
    clock: Clock,
    poster: Poster,
    room: Arc<Semaphore>,
    tally: Mutex<Tally>,
}

impl Sender {
    /// A sender for `account`.
    pub fn new(account: Account, settings: Settings, clock: Clock) -> Self {
        let limit = account.look(|provider| provider.settings().schedule.attempt_limit);
        Self(Arc::new(Parts {
            account,
            faults: settings.faults,
            losses: settings.losses,
            clock,
            poster: Poster::new(settings.addresses, limit, settings.concurrency),
            room: Arc::new(Semaphore::new(settings.concurrency)),
            tally: Mutex::new(Tally::default()),
        }))
    }

    /// What was sent and answered so far.
    pub fn tally(&self) -> Tally {
        lock(&self.0.tally).clone()
    }

    /// Delivers until nothing is pending and every copy and replay of the plan is out.
    pub async fn run_until_quiet(&self) {
        self.run(&CancellationToken::new(), true).await;
    }

    /// Delivers until `stop` is cancelled; attempts that are under way are finished.
    pub async fn run_until(&self, stop: &CancellationToken) {
        self.run(stop, false).await;
    }

    async fn run(&self, stop: &CancellationToken, until_quiet: bool) {
        let parts = &self.0;
        let mut work = JoinSet::new();
        let mut delayed = HashSet::new();
        let mut changes = parts.account.changes();
        loop {
            let due = parts
                .account
                .look(|provider| provider.next_due().map(|(at, _)| at));
            if until_quiet && due.is_none() && work.is_empty() && parts.account.look(Provider::pending) == 0 {
                return;
            }
            let wait = due.map(|at| Duration::try_from(at - parts.clock.now()).unwrap_or(Duration::ZERO));
            tokio::select! {
                () = stop.cancelled() => break,
                Some(done) = work.join_next() => finished(done),
                () = changes.next() => {}
                Ok(room) = parts.room.clone().acquire_owned(), if wait == Some(Duration::ZERO) => {
                    if let Some(request) = parts.begin(&mut delayed) {
                        work.spawn(parts.clone().deliver(request, room));
                    }
                }
                () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some_and(|wait| !wait.is_zero()) => {}
            }
        }
        while let Some(done) = work.join_next().await {
            finished(done);
        }
    }
}

impl Parts {
    /// Begins the attempt that is due, unless the plan lets it set out later.
    fn begin(&self, delayed: &mut HashSet<DeliveryNumber>) -> Option<Request> {
        let now = self.clock.now();
        self.account.change(|provider| {
            let first = provider
                .next_due()
                .filter(|(_, delivery)| delivery.attempts.is_empty());
            if let Some(number) = first.map(|(_, delivery)| delivery.number) {
                let delay = self.faults.of(number).delay;
                if !delay.is_zero() && delayed.insert(number) {
                    provider.put_off(number, now + delay);
                    return None;
                }
            }
            provider.begin(now)
        })
    }

    /// One attempt, and what the plan lets follow from it.
    async fn deliver(self: Arc<Self>, request: Request, room: OwnedSemaphorePermit) {
        let faults = self.faults.of(request.delivery);
        let turn = request.delivery.0 + u64::from(request.attempt);
        if request.attempt == 1
            && let Some(forgery) = faults.forgery
        {
            self.forge(request.delivery, forgery, turn).await;
        }
        let copies = if faults.first_good(request.attempt) {
            faults.copies_at_once
        } else {
            0
        };
        let copies = join_all((1..=copies).map(|copy| {
            self.post_later(
                Duration::ZERO,
                Kind::Copy,
                request.clone(),
                turn + u64::from(copy),
            )
        }));
        let fault = if self.losses.lose(request.delivery, request.attempt) {
            AttemptFault::Lost
        } else {
            faults.of_attempt(request.attempt)
        };
        let attempt = async {
            let reply = self.attempt(&request, fault, turn).await;
            let accepted = reply.is_accepted();
            self.record(&request, reply);
            drop(room);
            accepted
        };
        let (accepted, _) = join(attempt, copies).await;
        if accepted {
            self.afterwards(request, faults, turn).await;
        }
    }

    /// Sends an attempt as its fault lets it, and gives what the provider sees of it.
    async fn attempt(&self, request: &Request, fault: AttemptFault, turn: u64) -> Reply {
        match fault {
            AttemptFault::None => reply(self.post(Kind::Attempt, request, turn).await),
            AttemptFault::Lost => {
                self.note_sent(Kind::BrokenOff);
                Reply::Nothing("the host cannot be reached".to_owned())
            }
            AttemptFault::AnswerLost => {
                // The tally counts the answer; the provider never sees it.
                let _ = self.post(Kind::AnswerLost, request, turn).await;
                Reply::Nothing("the connection was closed before an answer came".to_owned())
            }
            AttemptFault::HungUp => self.hang_up(request, turn, Upto::TheEnd).await,
            AttemptFault::Cut => self.hang_up(request, turn, Upto::HalfTheBody).await,
            AttemptFault::WrongSecret => {
                let body = request.body.clone();
                let forged = self.signed_by_a_stranger(request.delivery, body);
                reply(self.post(Kind::Corrupted, &forged, turn).await)
            }
            AttemptFault::BodyChanged => {
                let changed = Request {
                    body: forgery::change_a_letter(&request.body),
                    ..request.clone()
                };
                reply(self.post(Kind::Corrupted, &changed, turn).await)
            }
        }
    }

    /// What the plan sends for a delivery that was accepted.
    async fn afterwards(&self, accepted: Request, faults: DeliveryFaults, turn: u64) {
        let copies = join_all(faults.copies_later.iter().map(|delay| {
            let again = self
                .account
                .look(|provider| provider.request(accepted.delivery, self.clock.now()));
            self.post_later(*delay, Kind::Copy, again, turn + 1)
        }));
        let replay = async {
            match faults.replay {
                None => {}
                Some(Replay::Fresh) => {
                    self.post_later(Duration::ZERO, Kind::FreshReplay, accepted.clone(), turn + 1)
                        .await
                }
                Some(Replay::Stale) => {
                    let captured = self
                        .account
                        .look(|provider| provider.request(accepted.delivery, self.clock.now() - STALE));
                    self.post_later(Duration::ZERO, Kind::StaleReplay, captured, turn + 1)
                        .await;
                }
            }
        };
        join(copies, replay).await;
    }

    async fn forge(&self, delivery: DeliveryNumber, forgery: Forgery, turn: u64) {
        let body = self
            .account
            .look(|provider| forgery::body(provider, delivery, forgery));
        let request = self.signed_by_a_stranger(delivery, body);
        // The tally counts the answer; nothing follows from it.
        let _ = self.post(Kind::Forged, &request, turn).await;
    }

    fn signed_by_a_stranger(&self, delivery: DeliveryNumber, body: bytes::Bytes) -> Request {
        let key = self.faults.stranger().key();
        self.account
            .look(|provider| provider.forged(delivery, body, key, self.clock.now()))
    }

    /// Posts a request that is not an attempt, once there is room for it.
    async fn post_later(&self, delay: Duration, kind: Kind, request: Request, turn: u64) {
        tokio::time::sleep(delay).await;
        let Ok(_room) = self.room.acquire().await else {
            return;
        };
        // As above: the tally counts the answer.
        let _ = self.post(kind, &request, turn).await;
    }

    async fn post(&self, kind: Kind, request: &Request, turn: u64) -> Result<u16, PostError> {
        self.note_sent(kind);
        let answer = self.poster.post(request, turn).await;
        lock(&self.tally).answer(kind, &answer, self.clock.now());
        answer
    }

    async fn hang_up(&self, request: &Request, turn: u64, upto: Upto) -> Reply {
        self.note_sent(Kind::BrokenOff);
        let error = self.poster.hang_up(request, turn, upto).await.err();
        Reply::Nothing(error.map_or_else(
            || "the connection was closed before an answer came".to_owned(),
            |e| e.to_string(),
        ))
    }

    fn note_sent(&self, kind: Kind) {
        lock(&self.tally).sent(kind, self.clock.now());
    }

    fn record(&self, request: &Request, reply: Reply) {
        let now = self.clock.now();
        let state = self.account.with(|provider| {
            provider.record(request.delivery, reply, now);
            provider.delivery(request.delivery).state
        });
        let mut tally = lock(&self.tally);
        tally.retried += u64::from(request.attempt > 1);
        tally.delivered += u64::from(matches!(state, State::Delivered(_)));
        tally.dead += u64::from(state == State::Dead);
    }
}

fn reply(answer: Result<u16, PostError>) -> Reply {
    match answer {
        Ok(status) => Reply::Status(status),
        Err(error) => Reply::Nothing(error.to_string()),
    }
}

/// A task of the sender that panicked is a fault of the sandbox: it goes on in whoever runs the sender.
fn finished(done: Result<(), JoinError>) {
    if let Err(error) = done
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

#[cfg(test)]
mod tests;
