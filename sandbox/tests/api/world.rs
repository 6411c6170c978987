//! An account with its API, at a time that stands still until a test moves it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Uri;
use sandbox::api::{Api, Settings};
use sandbox::clock::Clock;
use sandbox::provider::outcome::Outcome;
use sandbox::provider::secrets::Secret;
use sandbox::provider::task::NewTask;
use sandbox::provider::{self, Provider, TaskNumber};
use sandbox::seed::Seed;
use sandbox::sender::Account;
use serde_json::json;
use time::OffsetDateTime;
use time::macros::datetime;

use crate::client::{self, Answer};

pub(crate) const NOON: OffsetDateTime = datetime!(2026-11-30 12:00 UTC);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) struct World {
    pub(crate) account: Account,
    pub(crate) api: Api,
    now: Arc<Mutex<OffsetDateTime>>,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut provider::Settings)) -> Self {
        Self::start_both(change, |_| {}).await
    }

    pub(crate) async fn start_both(
        change: impl FnOnce(&mut provider::Settings),
        change_api: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = provider::Settings::loopback(Uri::from_static("http://127.0.0.1:9/hook"));
        change(&mut settings);
        let mut api = Settings::new(Seed(7));
        change_api(&mut api);
        let provider = Provider::new(settings, Secret::generate(Seed(7), 0), Seed(7));
        let account = Account::new(provider);
        let now = Arc::new(Mutex::new(NOON));
        let clock = Clock::new({
            let now = now.clone();
            move || *now.lock().unwrap()
        });
        let api = Api::start(account.clone(), api, clock).await.unwrap();
        Self { account, api, now }
    }

    pub(crate) fn now(&self) -> OffsetDateTime {
        *self.now.lock().unwrap()
    }

    pub(crate) fn pass(&self, time: Duration) {
        *self.now.lock().unwrap() += time;
    }

    /// A call with the right key.
    pub(crate) async fn call(&self, request: &str, body: &str) -> Answer {
        self.try_call(request, body).await.expect("an answer")
    }

    /// The same where there may be no answer at all.
    pub(crate) async fn try_call(&self, request: &str, body: &str) -> Option<Answer> {
        client::receive(self.send(request, body).await).await
    }

    pub(crate) async fn send(&self, request: &str, body: &str) -> tokio::net::TcpStream {
        let key = format!("authorization: Bearer {}\r\n", self.api.key());
        client::send(self.api.address(), request, &key, body).await
    }

    pub(crate) async fn get(&self, id: &str) -> Answer {
        self.call(&format!("GET /v1/async/task/{id}"), "").await
    }

    /// Creates a task over the API; the answer.
    pub(crate) async fn create(&self, key: Option<&str>) -> Answer {
        let body = json!({"taskType": "GEMINI", "idempotencyKey": key, "payload": {"prompt": "kettles?"}});
        self.call("POST /v1/async/task", &body.to_string()).await
    }

    /// A task that has ended, put straight into the model; its number and id.
    pub(crate) fn finished(&self) -> (TaskNumber, String) {
        let now = self.now();
        self.account.with(|provider| {
            let request = NewTask {
                task_type: "GEMINI",
                priority: 3,
                idempotency_key: None,
            };
            let task = provider.create(request, now).unwrap();
            provider.start(task, now).unwrap();
            let outcome = Outcome::completed(&mut Seed(7).rng("outcome", task.0 as u64));
            provider.finish(task, outcome, now).unwrap();
            (task, provider.task(task).id.clone())
        })
    }
}
