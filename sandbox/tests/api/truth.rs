//! What the API answers when nothing is wrong with it.

use std::time::Duration;

use sandbox::api::Operation;
use sandbox::provider::delivery::Reply;
use sandbox::provider::outcome::Outcome;
use serde_json::{Value, json};

use crate::client;
use crate::world::{HOUR, World};

#[tokio::test]
async fn a_task_is_created_found_and_once_it_has_ended_answered_with_what_its_webhook_says() {
    let world = World::start().await;
    let created = world.create(Some("kettles|DE")).await.json();
    assert_eq!(created["success"], true);
    assert_eq!(created["task"]["status"], "QUEUED");
    assert_eq!(created["task"]["createdAt"], "2026-11-30T12:00:00.000Z");
    assert_eq!(created["credits"]["creditsCharged"], Value::Null);
    let id = created["task"]["id"].as_str().unwrap();

    let waiting = world.get(id).await.json();
    assert_eq!(
        (&waiting["task"], &waiting["credits"]),
        (&created["task"], &created["credits"])
    );
    assert!(waiting.get("response").is_none());

    let pushed = world.account.with(|provider| {
        let task = provider.find(id).unwrap();
        provider.start(task, world.now()).unwrap();
        let outcome = Outcome::with_response(
            sandbox::provider::task::Status::Completed,
            r#"{"result":{"z":1E+2,"a":1}}"#,
        );
        provider.finish(task, outcome, world.now()).unwrap();
        provider.begin(world.now()).unwrap()
    });
    let answer = world.get(id).await;
    assert_ne!(answer.body, pushed.body);
    let (polled, pushed_body): (Value, Value) =
        (answer.json(), serde_json::from_slice(&pushed.body).unwrap());
    for field in ["task", "credits", "response"] {
        assert_eq!(polled[field], pushed_body[field], "{field}");
    }
    assert!(
        String::from_utf8(answer.body)
            .unwrap()
            .contains(r#"{"z":1E+2,"a":1}"#)
    );
    let hook = "http://127.0.0.1:9/hook";
    assert_eq!(
        polled["webhook"],
        json!({"url": hook, "delivered": false, "deliveredAt": null})
    );

    world
        .account
        .with(|provider| provider.record(pushed.delivery, Reply::Status(204), world.now()));
    assert_eq!(
        world.get(id).await.json()["webhook"],
        json!({"url": hook, "delivered": true, "deliveredAt": "2026-11-30T12:00:00.000Z"})
    );
}

#[tokio::test]
async fn a_key_that_is_taken_is_refused_without_the_id_of_its_task() {
    let world = World::start().await;
    let id = world.create(Some("kettles|DE")).await.json()["task"]["id"].clone();
    let refused = world.create(Some("kettles|DE")).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (409, "RESOURCE_CONFLICT")
    );
    let details = json!({"field": "idempotencyKey", "value": "kettles|DE"});
    assert_eq!(refused.json()["error"]["details"], details);
    assert!(!String::from_utf8_lossy(&refused.body).contains(id.as_str().unwrap()));
    assert_eq!(world.create(Some("kettles|DE-r1")).await.status, 200);
}

#[tokio::test]
async fn a_full_queue_takes_no_more() {
    let world = World::start_with(|settings| settings.queue_limit = 2).await;
    let statuses = [
        world.create(None).await.status,
        world.create(None).await.status,
        world.create(None).await.status,
    ];
    assert_eq!(statuses, [200, 200, 429]);
    let refused = world.create(None).await;
    assert_eq!(refused.code(), "QUEUE_LIMIT_EXCEEDED");
    assert_eq!(refused.json()["error"]["details"], json!({"limit": 2}));
    assert_eq!(refused.header("retry-after"), None);
}

#[tokio::test]
async fn calls_of_a_kind_are_limited_by_the_second() {
    let world = World::start_both(|_| {}, |api| api.rate_limit = Some(3)).await;
    let status = async || world.call("GET /v1/async/status", "").await;
    for _ in 0..3 {
        assert_eq!(status().await.status, 200);
    }
    let refused = status().await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "RATE_LIMIT_EXCEEDED")
    );
    assert_eq!(refused.header("retry-after"), None);
    assert_eq!(world.create(None).await.status, 200, "another kind");
    world.pass(Duration::from_millis(500));
    assert_eq!(status().await.status, 429);
    world.pass(Duration::from_millis(500));
    assert_eq!(status().await.status, 200, "what is refused does not count");
}

#[tokio::test]
async fn a_request_that_is_not_valid_names_what_is_wrong() {
    let world = World::start().await;
    let refused = world.call("POST /v1/async/task", r#"{"taskType":"TAROT"}"#).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (400, "VALIDATION_ERROR")
    );
    let error = &refused.json()["error"];
    assert_eq!(error["timestamp"], "2026-11-30T12:00:00.000Z");
    assert_eq!(error["details"][0]["field"], "taskType");
    assert_eq!(error["details"][1]["field"], "payload.prompt");
    let huge = "x".repeat(1024 * 1024 + 1);
    assert_eq!(world.call("POST /v1/async/task", &huge).await.status, 413);
}

#[tokio::test]
async fn only_the_right_key_in_the_right_words_is_let_in() {
    let world = World::start().await;
    let key = world.api.key().to_owned();
    let right = format!("authorization: Bearer {key}\r\n");
    for (authorization, status) in [
        (right.clone(), 200),
        (String::new(), 401),
        (format!("authorization: bearer {key}\r\n"), 401),
        (format!("authorization: Bearer {key}x\r\n"), 401),
        (format!("authorization: {key}\r\n"), 401),
        (format!("{right}{right}"), 401),
    ] {
        for request in ["GET /v1/async/status", "DELETE /v1/async/queue"] {
            let sent = client::send(world.api.address(), request, &authorization, "").await;
            let answer = client::receive(sent).await.unwrap();
            assert_eq!(answer.status, status, "{authorization}");
            if status == 401 {
                assert_eq!(answer.code(), "UNAUTHORIZED");
            }
        }
    }
}

#[tokio::test]
async fn the_queue_is_counted_by_priority_and_cleared_once() {
    let world = World::start_with(|settings| settings.concurrency = Some(5)).await;
    for priority in [1, 10, 1, 3] {
        let body = json!({"taskType": "GROK", "priority": priority, "payload": {"prompt": "x"}});
        world.call("POST /v1/async/task", &body.to_string()).await;
    }
    let (started, queued) = world.account.with(|provider| {
        let first = provider.queue().next().unwrap();
        provider.start(first, world.now()).unwrap();
        let queued: Vec<String> = provider
            .queue()
            .map(|task| provider.task(task).id.clone())
            .collect();
        (provider.task(first).clone(), queued)
    });
    assert_eq!(started.request.priority, 10);
    let (_, ended) = world.finished();
    assert_eq!(
        world.call("GET /v1/async/status", "").await.json(),
        json!({
            "queuedTasks": 3,
            "processingTasks": 1,
            "priorityBreakdown": [{"priority": 3, "count": 1}, {"priority": 1, "count": 2}],
            "concurrency": {"used": 1, "max": 5},
        })
    );
    let clear = async || world.call("DELETE /v1/async/queue", "").await.json();
    assert_eq!(clear().await, json!({"success": true, "cleared": 3}));
    assert_eq!(clear().await, json!({"success": true, "cleared": 0}));
    for id in queued {
        let gone = world.get(&id).await;
        assert_eq!((gone.status, gone.code().as_str()), (404, "RESOURCE_NOT_FOUND"));
    }
    assert_eq!(
        world.get(&started.id).await.json()["task"]["status"],
        "PROCESSING"
    );
    assert_eq!(world.get(&ended).await.status, 200);
    let status = world.call("GET /v1/async/status", "").await.json();
    assert_eq!(status["queuedTasks"], 0);
    assert_eq!(status["priorityBreakdown"], json!([]));
}

#[tokio::test]
async fn concurrency_is_null_where_there_is_no_limit() {
    let world = World::start().await;
    let status = world.call("GET /v1/async/status", "").await.json();
    assert_eq!(status.get("concurrency"), Some(&Value::Null));
}

#[tokio::test]
async fn a_task_that_waits_for_four_hours_fails_and_is_forgotten_after_a_day() {
    let world = World::start().await;
    let id = world.create(Some("k")).await.json()["task"]["id"].clone();
    let id = id.as_str().unwrap();
    world.pass(4 * HOUR);
    let failed = world.get(id).await.json();
    assert_eq!(failed["task"]["status"], "FAILED");
    assert_eq!(failed["task"]["latencyMs"], Value::Null);
    assert_eq!(failed["credits"]["creditsCharged"], 0);
    assert_eq!(failed["response"]["error"]["code"], "QUEUE_WAIT_EXCEEDED");
    assert_eq!(
        world.create(Some("k")).await.status,
        409,
        "a failed task keeps its key"
    );
    world.pass(20 * HOUR);
    assert_eq!(world.get(id).await.status, 404);
    assert_eq!(
        world.create(Some("k")).await.status,
        200,
        "a forgotten task frees its key"
    );
}

#[tokio::test]
async fn other_paths_and_methods_are_refused_in_the_providers_words() {
    let world = World::start().await;
    for (request, status, code) in [
        ("GET /", 404, "NOT_FOUND"),
        ("GET /v1/async/status/", 404, "NOT_FOUND"),
        ("GET /v1/async/queue", 405, "METHOD_NOT_ALLOWED"),
        ("DELETE /v1/async/task", 405, "METHOD_NOT_ALLOWED"),
        ("GET /v1/async/task/no-such-task", 404, "RESOURCE_NOT_FOUND"),
    ] {
        let refused = world.call(request, "").await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (status, code),
            "{request}"
        );
        assert_eq!(refused.json()["success"], false);
        assert_eq!(refused.header("date"), Some("Mon, 30 Nov 2026 12:00:00 GMT"));
    }
}

#[tokio::test]
async fn every_call_is_noted_with_what_it_asked_for_and_was_answered() {
    let world = World::start().await;
    world.create(None).await;
    world.pass(HOUR);
    world.get("a%2Fb%20%C3%A9").await;
    let nobody = client::send(world.api.address(), "GET /v1/async/status", "", "").await;
    client::receive(nobody).await.unwrap();
    world.call("PUT /elsewhere", "").await;
    let calls = world.api.calls();
    let seen: Vec<_> = calls
        .iter()
        .map(|call| (call.operation, call.path.as_str(), call.status))
        .collect();
    assert_eq!(
        seen,
        [
            (Operation::Create, "/v1/async/task", Some(200)),
            (Operation::Get, "/v1/async/task/a%2Fb%20%C3%A9", Some(404)),
            (Operation::Status, "/v1/async/status", Some(401)),
            (Operation::Unknown, "/elsewhere", Some(404)),
        ]
    );
    assert_eq!(calls[1].task.as_deref(), Some("a/b é"));
    assert_eq!(calls[1].at - calls[0].at, HOUR);
    assert_eq!(world.api.most_calls_at_once(), 1);
}

#[tokio::test]
async fn a_stopped_api_refuses_connections_and_comes_back_on_its_port() {
    let mut world = World::start().await;
    let (_, id) = world.finished();
    let url = world.api.url();
    world.api.stop().await;
    assert!(tokio::net::TcpStream::connect(world.api.address()).await.is_err());
    world.api.restart().await.unwrap();
    assert_eq!(world.api.url(), url);
    assert_eq!(world.get(&id).await.status, 200);
}
