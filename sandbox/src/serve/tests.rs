use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use serde_json::Value;
use time::OffsetDateTime;
use time::macros::datetime;
use tower_service::Service;

use super::*;
use crate::api::Faults;
use crate::api::routes::Parts;
use crate::provider::TaskNumber;
use crate::provider::delivery::{DeliveryNumber, Reply};
use crate::provider::outcome::Outcome;
use crate::provider::task::{NewTask, Status};

/// A dashboard, at a time that stands still until a test moves it; nothing runs and nothing is sent by itself.
struct World {
    account: Account,
    router: Router,
    losses: Losses,
    hold: Hold,
    now: Arc<Mutex<OffsetDateTime>>,
}

impl World {
    fn new() -> Self {
        let settings = provider::Settings {
            redeliveries: 2,
            ..provider::Settings::loopback(Uri::from_static("http://127.0.0.1:9/hook"))
        };
        let account = Account::new(Provider::new(settings, Secret::generate(Seed(7), 0), Seed(7)));
        let now = Arc::new(Mutex::new(datetime!(2026-11-30 12:00 UTC)));
        let clock = Clock::new({
            let now = now.clone();
            move || *now.lock().unwrap()
        });
        let parts = Parts {
            account: account.clone(),
            clock,
            key: service::Secret::new("key"),
            rate_limit: None,
            faults: Faults::default(),
            calls: Default::default(),
        };
        let (losses, hold) = (Losses::default(), Hold::default());
        let dashboard = Dashboard::new(parts.clone(), losses.clone(), hold.clone(), Seed(7));
        let router = api::routes::router(parts, routes::router(dashboard));
        Self {
            account,
            router,
            losses,
            hold,
            now,
        }
    }

    fn now(&self) -> OffsetDateTime {
        *self.now.lock().unwrap()
    }

    fn pass_hours(&self, hours: u64) {
        *self.now.lock().unwrap() += Duration::from_secs(hours * 3_600);
    }

    async fn ask(&self, method: &str, path: &str, key: &str, body: &str) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {key}"))
            .body(Body::from(body.to_owned()))
            .unwrap();
        let Ok(response) = self.router.clone().call(request).await;
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, "key", "").await
    }

    async fn post(&self, path: &str, body: &str) -> (u16, Value) {
        self.ask("POST", path, "key", body).await
    }

    /// A task that runs.
    fn running(&self) -> (TaskNumber, String) {
        let now = self.now();
        self.account.with(|provider| {
            let request = NewTask {
                task_type: "GROK",
                priority: 1,
                idempotency_key: None,
            };
            let task = provider.create(request, now).unwrap();
            provider.start(task, now).unwrap();
            (task, provider.task(task).id.clone())
        })
    }

    /// The number of the delivery of a task that has ended.
    fn ended(&self) -> DeliveryNumber {
        let (task, _) = self.running();
        let outcome = Outcome::with_response(Status::Completed, "{}");
        self.account
            .with(|provider| provider.finish(task, outcome, self.now()).unwrap())
    }

    /// Lets the next attempt meet this answer.
    fn attempt(&self, reply: Reply) {
        let now = self.now();
        self.account.with(|provider| {
            let request = provider.begin(now).unwrap();
            provider.record(request.delivery, reply, now);
        });
    }
}

#[tokio::test]
async fn the_dashboard_needs_the_key_and_answers_like_the_api() {
    let world = World::new();
    let (status, refused) = world.ask("GET", "/dashboard/deliveries", "wrong", "").await;
    assert_eq!((status, &refused["error"]["code"]), (401, &json!("UNAUTHORIZED")));
    let (status, refused) = world.ask("DELETE", "/dashboard/test", "key", "").await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (405, &json!("METHOD_NOT_ALLOWED"))
    );
    let (status, refused) = world.get("/dashboard/nothing").await;
    assert_eq!((status, &refused["error"]["code"]), (404, &json!("NOT_FOUND")));
}

#[tokio::test]
async fn the_log_tells_of_attempts_and_is_filtered_by_where_deliveries_stand() {
    let world = World::new();
    let delivery = world.ended();
    world.attempt(Reply::Status(503));
    let (_, listed) = world.get("/dashboard/deliveries").await;
    let entry = &listed["deliveries"][0];
    assert_eq!(
        (
            &entry["state"],
            &entry["attempts"],
            &entry["lastStatus"],
            &entry["lastError"]
        ),
        (&json!("pending"), &json!(1), &json!(503), &Value::Null)
    );
    assert!(entry["nextAttemptAt"].is_string() && entry["webhookId"].is_string());
    let task = world.account.with(|provider| provider.tasks()[0].id.clone());
    assert_eq!(entry["taskId"], json!(task));

    let (_, detail) = world.get(&format!("/dashboard/deliveries/{}", delivery.0)).await;
    let line = json!({"at": "2026-11-30T12:00:00.000Z", "status": 503, "error": null});
    assert_eq!(detail["log"], json!([line]));
    for (state, count) in [("pending", 1), ("delivered", 0), ("dead", 0)] {
        let (_, listed) = world.get(&format!("/dashboard/deliveries?state={state}")).await;
        assert_eq!(listed["deliveries"].as_array().unwrap().len(), count, "{state}");
    }
    world.post("/dashboard/test", "").await;
    let (_, latest) = world.get("/dashboard/deliveries?limit=1").await;
    assert_eq!(
        (&latest["deliveries"][0]["taskId"], &latest["deliveries"][1]),
        (&Value::Null, &Value::Null)
    );
    for wrong in ["?state=lost", "?limit=x", "/7", "/x"] {
        let (status, _) = world.get(&format!("/dashboard/deliveries{wrong}")).await;
        assert_eq!(status, if wrong.starts_with('?') { 400 } else { 404 }, "{wrong}");
    }
}

#[tokio::test]
async fn a_delivery_is_sent_again_unless_it_is_pending_forgotten_or_one_too_many() {
    let world = World::new();
    let delivery = world.ended();
    let path = format!("/dashboard/deliveries/{}/redeliver", delivery.0);
    let again = async || world.post(&path, "").await;
    assert_eq!(again().await.0, 409, "it is pending");
    for _ in 0..2 {
        world.attempt(Reply::Status(204));
        assert_eq!(again().await.0, 200);
    }
    world.attempt(Reply::Status(204));
    let (status, refused) = again().await;
    assert_eq!(
        (status, &refused["error"]["details"]),
        (429, &json!({"limit": 2}))
    );
    world.pass_hours(24);
    let (status, refused) = again().await;
    assert_eq!(
        (status, &refused["error"]["message"]),
        (409, &json!("The task is no longer kept"))
    );
    assert_eq!(world.post("/dashboard/deliveries/9/redeliver", "").await.0, 404);
}

#[tokio::test]
async fn a_url_that_is_not_public_is_dead_at_once() {
    let world = World::new();
    let (status, set) = world
        .ask(
            "PUT",
            "/dashboard/webhook",
            "key",
            r#"{"url":"https://10.0.0.1/hook"}"#,
        )
        .await;
    assert_eq!((status, &set["url"]), (200, &json!("https://10.0.0.1/hook")));
    assert_eq!(world.get("/dashboard/webhook").await.1, set);
    world.ended();
    let (_, dead) = world.get("/dashboard/deliveries?state=dead").await;
    assert_eq!(
        dead["deliveries"][0]["lastError"],
        json!("the URL does not lead to a public address")
    );
    let wrong = world
        .ask("PUT", "/dashboard/webhook", "key", r#"{"url":"a b"}"#)
        .await;
    assert_eq!(wrong.0, 400);
}

#[tokio::test]
async fn secrets_are_rotated_and_retired() {
    let world = World::new();
    let delivery = world.ended();
    let signatures = || {
        let request = world
            .account
            .with(|provider| provider.request(delivery, world.now()));
        let found = request
            .headers
            .iter()
            .find(|(name, _)| name == "webhook-signature");
        found.unwrap().1.to_str().unwrap().matches("v1=").count()
    };
    let (_, rotated) = world
        .post("/dashboard/rotate", r#"{"overlapSeconds":3600}"#)
        .await;
    assert_eq!(rotated["oldValidUntil"], "2026-11-30T13:00:00.000Z");
    let secret = rotated["webhookSecret"].as_str().unwrap();
    assert_ne!(secret, Secret::generate(Seed(7), 0).text());
    assert_eq!(signatures(), 2);
    assert_eq!(world.post("/dashboard/retire", "").await.0, 200);
    assert_eq!(signatures(), 1);
    let (_, again) = world.post("/dashboard/rotate", "").await;
    assert_eq!(again["oldValidUntil"], "2026-12-01T12:00:00.000Z");
    assert_ne!(again["webhookSecret"], rotated["webhookSecret"]);
    assert_eq!(world.post("/dashboard/rotate", r#"{"overlap":1}"#).await.0, 400);
}

#[tokio::test]
async fn a_running_task_goes_back_to_the_queue_and_no_other() {
    let world = World::new();
    let (task, id) = world.running();
    let path = format!("/dashboard/tasks/{id}/requeue");
    assert_eq!(world.post(&path, "").await.0, 200);
    assert_eq!(
        world.account.with(|provider| provider.task(task).status),
        Status::Queued
    );
    assert_eq!(world.post(&path, "").await.0, 409);
    assert_eq!(world.post("/dashboard/tasks/nobody/requeue", "").await.0, 404);
}

#[tokio::test]
async fn webhooks_are_lost_tasks_held_and_calls_spoilt_as_told() {
    let world = World::new();
    assert_eq!(world.post("/dashboard/lose", r#"{"next":1}"#).await.0, 200);
    assert!(world.losses.lose(DeliveryNumber(0), 1) && !world.losses.lose(DeliveryNumber(1), 1));
    assert_eq!(world.post("/dashboard/lose", r#"{"all":true}"#).await.0, 200);
    assert!(world.losses.lose(DeliveryNumber(1), 2));
    assert_eq!(world.post("/dashboard/lose", r#"{"some":true}"#).await.0, 400);

    assert_eq!(world.post("/dashboard/hold", "").await.0, 200);
    assert!(world.hold.is_set());
    assert_eq!(world.post("/dashboard/release", "").await.0, 200);
    assert!(!world.hold.is_set());

    let fault = r#"{"fault":"status","status":503,"on":"status"}"#;
    assert_eq!(world.post("/dashboard/faults", fault).await.0, 200);
    assert_eq!(world.get("/v1/async/status").await.0, 503);
    assert_eq!(world.get("/dashboard").await.0, 200);
    assert_eq!(world.ask("DELETE", "/dashboard/faults", "key", "").await.0, 200);
    assert_eq!(world.get("/v1/async/status").await.0, 200);
    let (_, calls) = world.get("/dashboard/calls?limit=2").await;
    let statuses: Vec<&Value> = calls["calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["status"])
        .collect();
    assert_eq!(statuses, [200, 503]);
}
