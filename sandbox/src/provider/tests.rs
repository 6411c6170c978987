use std::time::Duration;

use http::{HeaderMap, HeaderName};
use schemas::signature::{Scheme, Verifier};
use serde_json::Value;
use time::macros::datetime;

mod lifetime;

use super::delivery::State;
use super::outcome::Outcome;
use super::task::{NewTask, Status};
use super::*;

const NOW: OffsetDateTime = datetime!(2026-11-30 12:00 UTC);

fn settings(url: &'static str) -> Settings {
    Settings::loopback(Uri::from_static(url))
}

fn secret(number: u64) -> Secret {
    Secret::generate(Seed(7), number)
}

fn provider() -> Provider {
    Provider::new(settings("http://127.0.0.1:8080/hook"), secret(0), Seed(7))
}

fn ask(key: Option<&str>) -> NewTask {
    NewTask {
        task_type: "GEMINI",
        priority: 3,
        idempotency_key: key.map(str::to_owned),
    }
}

fn finish_task(provider: &mut Provider, at: OffsetDateTime) -> DeliveryNumber {
    let task = provider.create(ask(None), at).unwrap();
    provider.start(task, at).unwrap();
    provider
        .finish(
            task,
            Outcome::completed(&mut Seed(7).rng("outcome", task.0 as u64)),
            at,
        )
        .unwrap()
}

/// Lets every attempt meet `reply` until the delivery is over; the times at which attempts began.
fn run_out(provider: &mut Provider, mut now: OffsetDateTime, reply: &Reply) -> Vec<OffsetDateTime> {
    let mut begun = Vec::new();
    while let Some((at, _)) = provider.next_due() {
        now = now.max(at);
        let request = provider.begin(now).unwrap();
        begun.push(now);
        provider.record(request.delivery, reply.clone(), now);
    }
    begun
}

fn verifies(request: &Request, secrets: &[u64], now: OffsetDateTime) -> bool {
    let keys = secrets.iter().map(|number| secret(*number).key()).collect();
    let verifier = Verifier::new(own_scheme(), keys, 300).unwrap();
    let headers: HeaderMap = request.headers.iter().cloned().collect();
    verifier
        .read_claim(&headers, now.unix_timestamp())
        .and_then(|claim| verifier.verify(&claim, request.body.clone()))
        .is_ok()
}

fn header<'r>(request: &'r Request, name: &str) -> &'r str {
    let found = request.headers.iter().find(|(present, _)| present == name);
    found.map(|(_, value)| value.to_str().unwrap()).unwrap()
}

#[test]
fn a_task_goes_from_queued_to_its_end_and_no_further() {
    let mut provider = provider();
    let task = provider.create(ask(Some("kettles|DE")), NOW).unwrap();
    assert_eq!(provider.tasks()[0].status, Status::Queued);
    provider.start(task, NOW).unwrap();
    assert_eq!(provider.tasks()[0].status, Status::Processing);
    assert_eq!(
        provider.start(task, NOW),
        Err(Refused::NotQueued(Status::Processing))
    );
    let outcome = Outcome::with_response(Status::Failed, r#"{"error":{"code":"X"}}"#);
    provider.finish(task, outcome.clone(), NOW).unwrap();
    assert_eq!(provider.tasks()[0].status, Status::Failed);
    assert_eq!(
        provider.finish(task, outcome, NOW),
        Err(Refused::AlreadyEnded(Status::Failed))
    );
    assert_eq!(provider.deliveries().len(), 1);
}

#[test]
fn a_key_is_taken_once_and_for_all() {
    let mut provider = provider();
    provider.create(ask(Some("kettles|DE")), NOW).unwrap();
    assert_eq!(
        provider.create(ask(Some("kettles|DE")), NOW),
        Err(Refused::KeyTaken)
    );
    assert!(provider.create(ask(Some("kettles|DE-r1")), NOW).is_ok());
    assert!(provider.create(ask(None), NOW).is_ok() && provider.create(ask(None), NOW).is_ok());
}

#[test]
fn a_delivery_that_nobody_accepts_is_dead_after_ten_attempts_in_the_documented_time() {
    let mut provider = provider();
    let delivery = finish_task(&mut provider, NOW);
    let begun = run_out(&mut provider, NOW, &Reply::Status(503));
    let took = (begun[9] - begun[0]).as_seconds_f64();
    assert_eq!(begun.len(), 10);
    assert!((1_277.5..=2_555.0).contains(&took), "{took} s");
    for (attempt, pair) in begun.windows(2).enumerate() {
        let base = 5.0 * f64::from(1 << attempt);
        let wait = (pair[1] - pair[0]).as_seconds_f64();
        assert!((base / 2.0..=base).contains(&wait), "wait {attempt} is {wait} s");
    }
    let entry = provider.delivery(delivery);
    assert_eq!(
        (entry.state, entry.last_status(), entry.last_error()),
        (State::Dead, Some(503), None)
    );
    assert_eq!(provider.pending(), 0);
}

#[test]
fn waits_follow_from_the_seed() {
    let times = |seed| {
        let mut provider = Provider::new(settings("http://127.0.0.1/"), secret(0), Seed(seed));
        finish_task(&mut provider, NOW);
        run_out(&mut provider, NOW, &Reply::Status(500))
    };
    assert_eq!(times(1), times(1));
    assert_ne!(times(1), times(2));
}

#[test]
fn any_2xx_ends_a_delivery_and_nothing_else_does() {
    for status in [200, 202, 204, 299] {
        let mut provider = provider();
        let delivery = finish_task(&mut provider, NOW);
        provider.begin(NOW).unwrap();
        assert_eq!(
            provider.record(delivery, Reply::Status(status), NOW),
            Next::Delivered
        );
        assert_eq!(provider.pending(), 0);
    }
    for reply in [
        Reply::Status(301),
        Reply::Status(400),
        Reply::Status(410),
        Reply::Nothing("refused".to_owned()),
    ] {
        let mut provider = provider();
        let delivery = finish_task(&mut provider, NOW);
        provider.begin(NOW).unwrap();
        assert!(matches!(provider.record(delivery, reply, NOW), Next::RetryAt(_)));
        assert_eq!(provider.pending(), 1);
    }
}

#[test]
fn every_attempt_has_the_same_body_and_id_and_a_fresh_signature() {
    let mut provider = provider();
    let delivery = finish_task(&mut provider, NOW);
    let first = provider.begin(NOW).unwrap();
    provider.record(delivery, Reply::Status(500), NOW);
    let later = NOW + Duration::from_secs(400);
    let second = provider.begin(later).unwrap();
    assert_eq!(first.body, second.body);
    assert_eq!(header(&first, "webhook-id"), header(&second, "webhook-id"));
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert!(verifies(&first, &[0], NOW) && !verifies(&first, &[0], later));
    assert!(verifies(&second, &[0], later));
}

#[test]
fn a_redelivery_keeps_its_id_and_gets_a_fresh_set_of_attempts() {
    let mut provider = provider();
    let delivery = finish_task(&mut provider, NOW);
    assert_eq!(provider.redeliver(delivery, NOW), Err(Refused::StillPending));
    let id = provider.delivery(delivery).webhook_id.clone();
    run_out(&mut provider, NOW, &Reply::Status(500));
    let hours_later = NOW + Duration::from_secs(20 * 3_600);
    provider.redeliver(delivery, hours_later).unwrap();
    let request = provider.begin(hours_later).unwrap();
    assert_eq!(
        (header(&request, "webhook-id"), request.attempt),
        (id.as_str(), 1)
    );
    provider.record(delivery, Reply::Status(500), hours_later);
    assert_eq!(run_out(&mut provider, hours_later, &Reply::Status(500)).len(), 9);
    assert_eq!(provider.delivery(delivery).attempts.len(), 20);
}

#[test]
fn a_delivery_is_signed_with_the_secrets_valid_when_it_is_sent() {
    let mut provider = provider();
    let delivery = finish_task(&mut provider, NOW);
    let signatures = |request: &Request| header(request, "webhook-signature").matches("v1=").count();
    let at = |seconds| NOW + Duration::from_secs(seconds);

    let before = provider.request(delivery, NOW);
    provider.rotate(secret(1), at(3_600));
    let during = provider.request(delivery, at(10));
    let after = provider.request(delivery, at(3_600));

    assert_eq!(
        (signatures(&before), signatures(&during), signatures(&after)),
        (1, 2, 1)
    );
    assert!(verifies(&before, &[0], NOW) && !verifies(&before, &[1], NOW));
    assert!(verifies(&during, &[0], at(10)) && verifies(&during, &[1], at(10)));
    assert!(!verifies(&after, &[0], at(3_600)) && verifies(&after, &[1], at(3_600)));
}

#[test]
fn replaced_secrets_can_be_retired_at_once() {
    let mut provider = provider();
    let delivery = finish_task(&mut provider, NOW);
    provider.rotate(secret(1), NOW + Duration::from_secs(3_600));
    provider.retire_replaced_secrets(NOW);
    let request = provider.request(delivery, NOW);
    assert!(verifies(&request, &[1], NOW) && !verifies(&request, &[0], NOW));
}

#[test]
fn a_url_that_is_refused_is_dead_at_once() {
    let mut public_only = settings("http://127.0.0.1:8080/hook");
    public_only.allow_loopback = false;
    let mut provider = Provider::new(public_only, secret(0), Seed(7));
    let delivery = finish_task(&mut provider, NOW);
    let entry = provider.delivery(delivery);
    assert_eq!((entry.state, entry.attempts.len()), (State::Dead, 0));
    assert_eq!(entry.last_error().as_deref(), Some("the URL is not https"));
    assert_eq!(provider.begin(NOW).map(|request| request.attempt), None);

    provider.set_url(Uri::from_static("https://hooks.example.com/answers"));
    provider.redeliver(delivery, NOW).unwrap();
    assert_eq!(provider.delivery(delivery).state, State::Pending(NOW));
}

#[test]
fn a_test_delivery_is_signed_and_tells_of_no_task() {
    let mut provider = provider();
    let delivery = provider.send_test(NOW);
    let request = provider.begin(NOW).unwrap();
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body["test"], Value::Bool(true));
    assert_eq!(provider.delivery(delivery).subject, Subject::Test);
    assert!(verifies(&request, &[0], NOW));
    assert!(provider.tasks().is_empty());
}

#[test]
fn every_scheme_signs_what_its_receiver_verifies() {
    let split = Scheme::SplitHeader {
        timestamp: HeaderName::from_static("x-cloro-timestamp"),
        signature: HeaderName::from_static("x-cloro-signature"),
    };
    for scheme in [own_scheme(), Scheme::Standard, split] {
        let settings = Settings {
            scheme: scheme.clone(),
            ..settings("http://127.0.0.1/")
        };
        let mut provider = Provider::new(settings, secret(0), Seed(7));
        finish_task(&mut provider, NOW);
        let request = provider.begin(NOW).unwrap();
        let verifier = Verifier::new(scheme.clone(), vec![secret(0).key()], 300).unwrap();
        let headers: HeaderMap = request.headers.iter().cloned().collect();
        let claim = verifier.read_claim(&headers, NOW.unix_timestamp()).unwrap();
        assert!(
            verifier.verify(&claim, request.body.clone()).is_ok(),
            "{scheme:?}"
        );
        assert_eq!(headers.get_all("webhook-id").iter().count(), 1, "{scheme:?}");
    }
}

#[test]
fn the_debug_form_of_a_secret_shows_nothing_of_it() {
    let secret = secret(0);
    assert!(!format!("{secret:?}").contains(secret.text()));
    assert!(secret.text().starts_with("whsec_"));
}
