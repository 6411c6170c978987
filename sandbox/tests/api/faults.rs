//! What becomes of an answer when something is wrong.

use std::time::Duration;

use sandbox::api::{Fault, Operation, RetryAfter, Rule};
use sandbox::eventually;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::client;
use crate::world::World;

const SOON: Duration = Duration::from_secs(20);
const TWO_MINUTES: Duration = Duration::from_secs(120);

/// A world, and the id of a task in it that has ended.
async fn world() -> (World, String) {
    let world = World::start().await;
    let (_, id) = world.finished();
    (world, id)
}

/// Reads until `done`, and says what there was.
async fn read_until(connection: &mut TcpStream, done: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    tokio::time::timeout(SOON, async {
        while !done(&bytes) {
            bytes.push(connection.read_u8().await.unwrap());
        }
    })
    .await
    .expect("the bytes come in time");
    bytes
}

#[tokio::test]
async fn errors_come_with_every_form_of_retry_after() {
    let (world, id) = world().await;
    let forms = [
        (RetryAfter::Absent, None),
        (RetryAfter::Seconds(120), Some("120")),
        (
            RetryAfter::Date(TWO_MINUTES),
            Some("Mon, 30 Nov 2026 12:02:00 GMT"),
        ),
        (
            RetryAfter::Rfc850Date(TWO_MINUTES),
            Some("Monday, 30-Nov-26 12:02:00 GMT"),
        ),
        (
            RetryAfter::AsctimeDate(TWO_MINUTES),
            Some("Mon Nov 30 12:02:00 2026"),
        ),
        (
            RetryAfter::PastDate(TWO_MINUTES),
            Some("Mon, 30 Nov 2026 11:58:00 GMT"),
        ),
        (RetryAfter::Text("in a while".to_owned()), Some("in a while")),
    ];
    for (form, header) in forms {
        for (status, code) in [(429, "RATE_LIMIT_EXCEEDED"), (503, "SERVICE_UNAVAILABLE")] {
            world.api.faults().next(1, Fault::Status(status, form.clone()));
            let answer = world.get(&id).await;
            assert_eq!((answer.status, answer.code().as_str()), (status, code));
            assert_eq!(answer.header("retry-after"), header);
            assert_eq!(answer.header("date"), Some("Mon, 30 Nov 2026 12:00:00 GMT"));
        }
    }
    assert_eq!(world.get(&id).await.status, 200);
}

#[tokio::test]
async fn any_status_can_be_answered_in_place_of_the_truth() {
    let (world, id) = world().await;
    for status in [400, 401, 403, 404, 410, 418, 500, 502, 504] {
        world.api.faults().next(1, Fault::status(status));
        let answer = world.get(&id).await;
        assert_eq!(
            (answer.status, answer.json()["success"].as_bool()),
            (status, Some(false))
        );
    }
}

#[tokio::test]
async fn a_redirect_names_another_place() {
    let (world, id) = world().await;
    let to = "http://127.0.0.1:9/elsewhere";
    world.api.faults().all(Fault::Redirect(307, to.to_owned()));
    let answer = world.get(&id).await;
    assert_eq!((answer.status, answer.header("location")), (307, Some(to)));
}

#[tokio::test]
async fn answers_without_json_are_a_page_nothing_half_of_it_or_what_a_test_wants() {
    let (world, id) = world().await;
    let whole = world.get(&id).await.body;
    let faults = world.api.faults();

    faults.next(1, Fault::Html);
    let page = world.get(&id).await;
    assert_eq!(
        (page.status, page.header("content-type")),
        (200, Some("text/html; charset=utf-8"))
    );
    assert!(page.body.starts_with(b"<!DOCTYPE html>"));
    faults.next(1, Fault::Empty);
    let empty = world.get(&id).await;
    assert_eq!((empty.status, empty.body.len(), empty.promised()), (200, 0, 0));
    faults.next(1, Fault::NoContent);
    let none = world.get(&id).await;
    assert_eq!((none.status, none.body.len()), (204, 0));
    faults.next(1, Fault::NotJson);
    let short = world.get(&id).await;
    assert_eq!(
        (short.promised(), &short.body[..]),
        (whole.len() - 1, &whole[..whole.len() - 1])
    );
    faults.next(1, Fault::Body("[]".into()));
    assert_eq!(world.get(&id).await.body, b"[]");
}

#[tokio::test]
async fn the_true_answer_can_be_for_another_task_without_id_a_test_or_huge() {
    let (world, id) = world().await;
    let truth = world.get(&id).await.json();
    let faults = world.api.faults();

    faults.next(1, Fault::OtherTask);
    let other = world.get(&id).await.json();
    assert!(other["task"]["id"].as_str().is_some_and(|other| other != id));
    assert_eq!(other["response"], truth["response"]);
    faults.next(1, Fault::NoId);
    let nameless = world.get(&id).await.json();
    assert_eq!(
        (nameless["task"].get("id"), &nameless["response"]),
        (None, &truth["response"])
    );
    faults.next(1, Fault::MarkedTest);
    let test = world.get(&id).await.json();
    assert_eq!((&test["test"], &test["task"]), (&json!(true), &truth["task"]));
    faults.next(1, Fault::Huge(3_000_000));
    let huge = world.get(&id).await;
    assert!(huge.body.len() > 3_000_000 && huge.json()["task"] == truth["task"]);
}

#[tokio::test]
async fn a_cut_answer_ends_in_its_middle() {
    let (world, id) = world().await;
    let whole = world.get(&id).await.body;
    world.api.faults().all(Fault::Cut);
    let cut = world.get(&id).await;
    assert_eq!((cut.status, cut.promised()), (200, whole.len()));
    assert_eq!(cut.body, whole[..whole.len() / 2]);
}

#[tokio::test]
async fn a_stalled_answer_stays_in_its_middle_until_the_caller_goes() {
    let (world, id) = world().await;
    let half = world.get(&id).await.body.len() / 2;
    world.api.faults().all(Fault::Stall);
    let mut connection = world.send(&format!("GET /v1/async/task/{id}"), "").await;
    let come = |bytes: &[u8]| {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        end.is_some_and(|end| bytes.len() == end + 4 + half)
    };
    read_until(&mut connection, come).await;
    let more = tokio::time::timeout(Duration::from_millis(100), connection.read_u8()).await;
    assert!(more.is_err(), "{more:?} came after the middle");
}

#[tokio::test]
async fn a_dripping_answer_comes_whole_in_the_end() {
    let (world, id) = world().await;
    let whole = world.get(&id).await.body;
    world.api.faults().all(Fault::Drip(Duration::ZERO));
    assert_eq!(world.get(&id).await.body, whole);
    world.api.faults().clear();
    world.api.faults().all(Fault::Drip(Duration::from_secs(3_600)));
    let mut connection = world.send(&format!("GET /v1/async/task/{id}"), "").await;
    read_until(&mut connection, |bytes| bytes.ends_with(b"\r\n\r\n")).await;
}

#[tokio::test]
async fn silence_lasts_until_the_caller_goes_and_a_stop_ends_it() {
    let (mut world, id) = world().await;
    world.api.faults().all(Fault::Silence);
    let request = format!("GET /v1/async/task/{id}");
    let waiting = [world.send(&request, "").await, world.send(&request, "").await];
    eventually("both calls are there", SOON, async || {
        world.api.most_calls_at_once() == 2
    })
    .await;
    assert!(world.api.calls().iter().all(|call| call.status.is_none()));
    world.api.stop().await;
    for connection in waiting {
        assert!(client::receive(connection).await.is_none());
    }
}

#[tokio::test]
async fn a_connection_can_be_closed_in_place_of_an_answer() {
    let (world, id) = world().await;
    world.api.faults().next(1, Fault::HangUp);
    let request = format!("GET /v1/async/task/{id}");
    assert!(world.try_call(&request, "").await.is_none());
    assert_eq!(world.get(&id).await.status, 200);
    assert_eq!(world.api.calls()[0].status, None);
}

#[tokio::test]
async fn a_task_can_be_created_and_the_answer_lost() {
    let world = World::start().await;
    let lost = Rule::new(Fault::HangUp).on(Operation::Create).times(1);
    world.api.faults().add(lost.clone());
    world.api.faults().add(lost.after_taking_effect());
    let body = json!({"taskType": "GROK", "idempotencyKey": "k", "payload": {"prompt": "x"}}).to_string();
    assert!(world.try_call("POST /v1/async/task", &body).await.is_none());
    assert!(world.account.with(|provider| provider.tasks().is_empty()));
    assert!(world.try_call("POST /v1/async/task", &body).await.is_none());
    assert!(world.account.with(|provider| provider.find_key("k").is_ok()));
    assert_eq!(world.create(Some("k")).await.status, 409);
}

#[tokio::test]
async fn a_fault_of_one_task_leaves_the_others_alone() {
    let (world, id) = world().await;
    let (_, other) = world.finished();
    world.api.faults().task(&id, Fault::status(500));
    let statuses = [
        world.get(&id).await.status,
        world.get(&other).await.status,
        world.get(&id).await.status,
        world.call("GET /v1/async/status", "").await.status,
    ];
    assert_eq!(statuses, [500, 200, 500, 200]);
}
