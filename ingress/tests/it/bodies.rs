//! What verified bodies become.

use crate::client::{Post, completed};
use crate::world::{Setup, World};

#[tokio::test]
async fn a_result_is_stored_byte_for_byte_with_its_headers_and_answered_with_nothing() {
    let world = World::start().await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let body = completed("0b7d5c1e-52f4-4e0b-9a57-3f6a1c2d9e80");
    let post = Post::signed(body.clone())
        .header("Webhook-Id", "msg_1")
        .header("traceparent", trace);
    let answer = world.post(&post).await;
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    let stored = &world.events.all().await[0];
    assert!(stored.subject.ends_with(".result.completed"));
    assert_eq!(
        (stored.msg_id.as_str(), &stored.body),
        ("0b7d5c1e-52f4-4e0b-9a57-3f6a1c2d9e80", &body)
    );
    let headers = format!("{:?}", stored.headers);
    assert!(
        headers.contains("msg_1") && headers.contains(trace) && headers.contains("Webhook"),
        "{headers}"
    );
}

#[tokio::test]
async fn failed_tasks_and_open_tasks_have_subjects_of_their_own() {
    let world = World::start().await;
    for (status, subject) in [
        ("FAILED", ".result.failed"),
        ("PROCESSING", ".nonfinal"),
        ("completed", ".nonfinal"),
        ("", ".nonfinal"),
    ] {
        let body =
            format!(r#"{{"task":{{"id":"t-{status}","status":"{status}"}},"response":{{"error":{{}}}}}}"#);
        assert_eq!(world.deliver(body).await, 204, "{status}");
        let stored = world.events.all().await;
        assert!(
            stored.last().unwrap().subject.ends_with(subject),
            "{status}: {stored:?}"
        );
    }
}

#[tokio::test]
async fn an_open_task_does_not_take_the_place_of_its_result() {
    let world = World::start().await;
    assert_eq!(
        world
            .deliver(r#"{"task":{"id":"early","status":"QUEUED"}}"#)
            .await,
        204
    );
    assert_eq!(world.deliver(completed("early")).await, 204);
    assert_eq!(world.events.result_ids().await, ["early"]);
}

#[tokio::test]
async fn a_test_delivery_is_acknowledged_and_not_stored() {
    let world = World::start().await;
    let body = r#"{"test":true,"task":{"id":"task_sample","status":"COMPLETED"},"response":{}}"#;
    assert_eq!(world.deliver(body).await, 204);
    assert_eq!(world.events.count().await, 0);
    assert_eq!(
        world
            .ingress
            .metric(r#"ingress_deliveries_total{kind="test",outcome="acknowledged"}"#),
        1.0
    );
}

#[tokio::test]
async fn verified_bodies_that_hold_no_task_are_quarantined_as_they_are() {
    let world = World::start().await;
    let bodies: [&[u8]; 12] = [
        b"",
        b"[]",
        b"{",
        b"\xed\xa0\x80",
        br#"{"task":{"id":"a","id":"b","status":"COMPLETED"}}"#,
        br#"{"task":["a","COMPLETED"]}"#,
        br#"{"task":{"status":"COMPLETED"}}"#,
        br#"{"task":{"id":null,"status":"COMPLETED"}}"#,
        br#"{"task":{"id":"","status":"COMPLETED"}}"#,
        br#"{"task":{"id":7,"status":"COMPLETED"}}"#,
        br#"{"task":{"id":"a\u0000b","status":"COMPLETED"}}"#,
        br#"{"test":"true","task":{"id":"a","status":"COMPLETED"}}"#,
    ];
    for body in bodies {
        assert_eq!(world.deliver(body).await, 204, "{}", body.escape_ascii());
    }
    let stored = world.events.all().await;
    assert!(
        stored.iter().all(|event| event.subject.ends_with(".quarantine")),
        "{stored:?}"
    );
    assert_eq!(
        stored.iter().map(|event| &event.body[..]).collect::<Vec<_>>(),
        bodies
    );
    assert_eq!(
        world
            .ingress
            .metric(r#"ingress_deliveries_total{kind="quarantine",outcome="stored"}"#),
        12.0
    );
}

#[tokio::test]
async fn a_repeat_of_a_body_that_an_operator_deleted_is_stored_again() {
    let world = Setup::shared().await.set("RECENT_IDS", "0").start().await;
    let open = br#"{"task":{"id":"open","status":"QUEUED"}}"#.to_vec();
    for (number, body) in [b"no json".to_vec(), open, completed("done")]
        .into_iter()
        .enumerate()
    {
        assert_eq!(world.deliver(body.clone()).await, 204);
        world.events.delete(2 * number as u64 + 1).await;
        assert_eq!(world.deliver(body).await, 204);
    }
    let ids: Vec<_> = world
        .events
        .all()
        .await
        .into_iter()
        .map(|event| event.msg_id)
        .collect();
    assert!(
        ids[0].starts_with("quarantine/") && ids[0].ends_with("#again"),
        "{ids:?}"
    );
    assert!(
        ids[1].starts_with("nonfinal/") && ids[1].ends_with("#again"),
        "{ids:?}"
    );
    assert!(ids[2].starts_with("done#") && ids.len() == 3, "{ids:?}");
}

#[tokio::test]
async fn awkward_ids_are_tasks_of_their_own() {
    let world = World::start().await;
    let long = "x".repeat(300);
    let ids = [
        "a.b",
        "a..b",
        ".a",
        "a.",
        "a b",
        " a",
        "a ",
        "*",
        "a.*",
        ">",
        "a/b",
        "a@b",
        "🫖",
        "A",
        "a",
        "é",
        "e\u{301}",
        "%20",
        "a#b",
        "nonfinal/x",
        "quarantine/x",
        &long,
    ];
    for id in ids {
        assert_eq!(world.deliver(completed(id)).await, 204, "{id}");
    }
    assert_eq!(world.events.result_ids().await, ids);
}
