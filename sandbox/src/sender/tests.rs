use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::http::{HeaderMap, StatusCode, header};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, State as Shared};
use axum::response::{IntoResponse, Response};
use schemas::signature::Verifier;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::*;
use crate::faults::Rates;
use crate::provider::delivery::Delivery;
use crate::provider::schedule::Schedule;
use crate::provider::secrets::Secret;
use crate::provider::{self, own_scheme};
use crate::seed::Seed;
use crate::{eventually, workload};

const SOON: Duration = Duration::from_secs(20);

/// A receiver that answers as it is told and remembers what it got.
struct Receiver {
    address: SocketAddr,
    seen: Arc<Seen>,
}

/// Gets how many requests came before, the headers and the body.
type Answer = dyn Fn(usize, &HeaderMap, Bytes) -> Response + Send + Sync;

struct Seen {
    requests: Mutex<Vec<(HeaderMap, Bytes)>>,
    peers: Mutex<HashSet<SocketAddr>>,
    inside: AtomicUsize,
    most_inside: AtomicUsize,
    answer: Box<Answer>,
    open: watch::Receiver<bool>,
}

impl Receiver {
    async fn start(answer: impl Fn(usize, &HeaderMap, Bytes) -> Response + Send + Sync + 'static) -> Self {
        Self::start_behind(watch::channel(true).1, answer).await
    }

    /// Answers only once `open` is true.
    async fn start_behind(
        open: watch::Receiver<bool>,
        answer: impl Fn(usize, &HeaderMap, Bytes) -> Response + Send + Sync + 'static,
    ) -> Self {
        let seen = Arc::new(Seen {
            requests: Mutex::default(),
            peers: Mutex::default(),
            inside: AtomicUsize::new(0),
            most_inside: AtomicUsize::new(0),
            answer: Box::new(answer),
            open,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().fallback(receive).with_state(seen.clone());
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { address, seen }
    }

    /// Verifies as a receiver should: 204 or 400.
    async fn verifying(secret: &Secret) -> Self {
        let verifier = Verifier::new(own_scheme(), vec![secret.key()], 300).unwrap();
        Self::start(move |_, headers, body| {
            let now = Clock::system().now().unix_timestamp();
            let verified = verifier
                .read_claim(headers, now)
                .and_then(|claim| verifier.verify(&claim, body));
            verified
                .map_or(StatusCode::BAD_REQUEST, |_| StatusCode::NO_CONTENT)
                .into_response()
        })
        .await
    }

    fn requests(&self) -> Vec<(HeaderMap, Bytes)> {
        self.seen.requests.lock().unwrap().clone()
    }
}

async fn receive(
    Shared(seen): Shared<Arc<Seen>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let inside = seen.inside.fetch_add(1, Ordering::SeqCst) + 1;
    seen.most_inside.fetch_max(inside, Ordering::SeqCst);
    seen.peers.lock().unwrap().insert(peer);
    let before = {
        let mut requests = seen.requests.lock().unwrap();
        requests.push((headers.clone(), body.clone()));
        requests.len() - 1
    };
    seen.open.clone().wait_for(|open| *open).await.unwrap();
    seen.inside.fetch_sub(1, Ordering::SeqCst);
    (seen.answer)(before, &headers, body)
}

fn secret() -> Secret {
    Secret::generate(Seed(7), 0)
}

/// An account that delivers to `receiver` and owes `tasks` deliveries.
fn account(receiver: SocketAddr, tasks: usize, schedule: Schedule) -> Account {
    let url = format!("http://{receiver}/hooks/answers").parse().unwrap();
    let settings = provider::Settings {
        schedule,
        ..provider::Settings::loopback(url)
    };
    let mut provider = Provider::new(settings, secret(), Seed(7));
    workload::play(
        &mut provider,
        workload::plan(Seed(7), tasks, Clock::system().now()),
    );
    Account::new(provider)
}

/// The real schedule, a thousand times faster: 2.5 to 5 ms before the second attempt.
fn fast() -> Schedule {
    Schedule::faster(1_000.0)
}

fn sender(account: &Account, faults: FaultPlan) -> Sender {
    Sender::new(
        account.clone(),
        Settings {
            faults,
            ..Settings::default()
        },
        Clock::system(),
    )
}

fn first<T>(account: &Account, look: impl FnOnce(&Delivery) -> T) -> T {
    account.with(|provider| look(&provider.deliveries()[0]))
}

#[tokio::test]
async fn a_failed_delivery_is_tried_again_until_it_is_accepted() {
    let receiver = Receiver::start(|before, _, _| {
        (if before < 2 {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::NO_CONTENT
        })
        .into_response()
    })
    .await;
    let account = account(receiver.address, 1, fast());
    let sender = sender(&account, FaultPlan::none());
    sender.run_until_quiet().await;

    let requests = receiver.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|(headers, body)| {
        headers["webhook-id"] == requests[0].0["webhook-id"]
            && headers[header::CONTENT_TYPE] == "application/json"
            && headers[header::HOST] == receiver.address.to_string()
            && *body == requests[0].1
    }));
    assert!(first(&account, |delivery| matches!(
        delivery.state,
        State::Delivered(_)
    )));
    assert_eq!(first(&account, Delivery::last_status), Some(204));
    let tally = sender.tally();
    assert_eq!((tally.delivered, tally.retried, tally.dead), (1, 2, 0));
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_is_not_followed() {
    let receiver = Receiver::start(|_, _, _| {
        (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, "/elsewhere")]).into_response()
    })
    .await;
    let account = account(
        receiver.address,
        1,
        Schedule {
            attempts: 2,
            ..fast()
        },
    );
    sender(&account, FaultPlan::none()).run_until_quiet().await;
    assert_eq!(receiver.requests().len(), 2);
    assert_eq!(first(&account, |delivery| delivery.state), State::Dead);
    assert_eq!(first(&account, Delivery::last_status), Some(308));
}

#[tokio::test]
async fn a_receiver_that_is_silent_for_the_limit_has_failed() {
    let (_keep, closed) = watch::channel(false);
    let receiver = Receiver::start_behind(closed, |_, _, _| StatusCode::NO_CONTENT.into_response()).await;
    let limit = Duration::from_millis(40);
    let account = account(
        receiver.address,
        1,
        Schedule {
            attempts: 2,
            attempt_limit: limit,
            ..fast()
        },
    );
    sender(&account, FaultPlan::none()).run_until_quiet().await;
    assert_eq!(receiver.requests().len(), 2);
    assert_eq!(
        first(&account, Delivery::last_error).as_deref(),
        Some("no answer within 40ms")
    );
}

#[tokio::test]
async fn a_receiver_that_is_not_there_is_named_in_the_log() {
    let receiver = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let account = account(
        receiver,
        1,
        Schedule {
            attempts: 1,
            ..fast()
        },
    );
    sender(&account, FaultPlan::none()).run_until_quiet().await;
    let error = first(&account, Delivery::last_error).unwrap();
    assert!(error.contains("refused"), "{error}");
}

#[tokio::test]
async fn no_more_deliveries_are_under_way_than_asked_for_and_connections_are_kept() {
    let (gate, open) = watch::channel(false);
    let receiver = Receiver::start_behind(open, |_, _, _| StatusCode::NO_CONTENT.into_response()).await;
    let account = account(receiver.address, 200, fast());
    let settings = Settings {
        concurrency: 8,
        ..Settings::default()
    };
    let sender = Sender::new(account.clone(), settings, Clock::system());
    let run = tokio::spawn({
        let sender = sender.clone();
        async move { sender.run_until_quiet().await }
    });
    eventually("eight deliveries under way", SOON, async || {
        receiver.seen.inside.load(Ordering::SeqCst) == 8
    })
    .await;
    gate.send(true).unwrap();
    run.await.unwrap();
    assert_eq!(sender.tally().delivered, 200);
    assert_eq!(receiver.seen.most_inside.load(Ordering::SeqCst), 8);
    let connections = receiver.seen.peers.lock().unwrap().len();
    assert!(
        connections <= 16,
        "{connections} connections for 200 deliveries, 8 at a time"
    );
}

#[tokio::test]
async fn a_sender_takes_notice_of_tasks_that_end_while_it_runs_and_stops_when_told() {
    let receiver = Receiver::verifying(&secret()).await;
    let account = account(receiver.address, 0, fast());
    let sender = sender(&account, FaultPlan::none());
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let (sender, stop) = (sender.clone(), stop.clone());
        async move { sender.run_until(&stop).await }
    });
    account.with(|provider| provider.send_test(Clock::system().now()));
    eventually("the test delivery", SOON, async || sender.tally().delivered == 1).await;
    stop.cancel();
    run.await.unwrap();
}

#[tokio::test]
async fn deliveries_go_to_each_address_behind_the_host() {
    let (one, two) = (
        Receiver::verifying(&secret()).await,
        Receiver::verifying(&secret()).await,
    );
    let account = account(one.address, 40, fast());
    let settings = Settings {
        addresses: vec![one.address, two.address],
        ..Settings::default()
    };
    Sender::new(account, settings, Clock::system())
        .run_until_quiet()
        .await;
    assert_eq!((one.requests().len(), two.requests().len()), (20, 20));
    let host = one.address.to_string();
    assert!(
        two.requests()
            .iter()
            .all(|(headers, _)| headers[header::HOST] == host)
    );
}

#[tokio::test]
async fn a_rough_plan_ends_with_every_result_delivered_and_every_forgery_refused() {
    let receiver = Receiver::verifying(&secret()).await;
    let account = account(receiver.address, 400, fast());
    let sender = sender(&account, FaultPlan::new(Seed(7), Rates::rough()));
    tokio::time::timeout(SOON, sender.run_until_quiet())
        .await
        .expect("the plan is out in time");

    let tally = sender.tally();
    assert_eq!((tally.delivered, tally.dead), (400, 0));
    assert_eq!((tally.wrongly_accepted(), tally.wrongly_refused()), (0, 0));
    assert!(tally.retried > 20 && tally.duplicates() > 20);
    for kind in [Kind::Corrupted, Kind::Forged, Kind::StaleReplay] {
        let answers = tally.of(kind);
        assert!(
            answers.sent > 0 && answers.refused() == answers.sent,
            "{kind:?}: {answers:?}"
        );
    }
    let fresh = tally.of(Kind::FreshReplay);
    assert!(fresh.sent > 0 && fresh.accepted() == fresh.sent, "{fresh:?}");

    let mut got: BTreeMap<String, Vec<Bytes>> = BTreeMap::new();
    for (_, body) in receiver.requests() {
        let read: Value = serde_json::from_slice(&body).unwrap();
        got.entry(read["task"]["id"].as_str().unwrap().to_owned())
            .or_default()
            .push(body);
    }
    account.with(|provider| {
        for task in provider.tasks() {
            assert!(
                got[&task.id].contains(&task.body()),
                "the receiver never got {}",
                task.id
            );
        }
    });
}

#[tokio::test]
async fn what_is_sent_follows_from_the_seed() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let receiver = Receiver::verifying(&secret()).await;
        let account = account(receiver.address, 150, fast());
        let sender = sender(&account, FaultPlan::new(Seed(11), Rates::rough()));
        sender.run_until_quiet().await;
        let tally = sender.tally();
        let kinds = [
            Kind::Attempt,
            Kind::AnswerLost,
            Kind::BrokenOff,
            Kind::Copy,
            Kind::Corrupted,
            Kind::Forged,
        ];
        runs.push((tally.retried, kinds.map(|kind| tally.of(kind))));
    }
    assert_eq!(runs[0], runs[1]);
}
