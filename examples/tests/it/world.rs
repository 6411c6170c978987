//! A stream with results on it, and those who may see it.

use std::collections::BTreeSet;

use async_nats::jetstream::{self, consumer, stream::Config};
use async_nats::{ConnectOptions, HeaderMap, HeaderName};
use futures_util::future::join_all;
use sandbox::eventually;
use sandbox::servers::DeployedNats;
use schemas::event::{Event, Source, Subjects, Trace, Via, classify, header};
use stream::append::{Metrics, Mode};
use stream::connect::Settings;
use stream::{AppendSettings, Appended, Appender, StreamSpec};

use crate::SOON;

/// What JetStream's API is called in every account but the operator's.
pub(crate) const API: &str = "ANSWERS.API";

/// A broker of a deployment, and what was appended to its stream.
pub(crate) struct World {
    pub(crate) nats: DeployedNats,
    pub(crate) appended: Vec<Event>,
    appender: Option<Appender>,
}

/// Connections that clients have made, and messages that they have sent, over all time.
pub(crate) struct Traffic {
    pub(crate) connections: u64,
    pub(crate) messages: u64,
}

impl World {
    /// With the stream that ingress makes.
    pub(crate) async fn start() -> Self {
        let mut world = Self::without_stream().await;
        let settings = Settings {
            api_prefix: API.to_owned(),
            ..Settings::for_url(world.nats.server.url())
        };
        let settings = settings.with_user("ingress", world.nats.password("ingress"));
        let connection = stream::connect::connect(&settings, "ingress").await.unwrap();
        // Small: the broker reserves it, on whatever disk this is.
        let spec = StreamSpec {
            max_bytes: 64 << 20,
            ..StreamSpec::default()
        };
        let declared = stream::declare::declare(&connection, &spec).await.unwrap();
        let settings = AppendSettings {
            mode: Mode::Batch,
            ..AppendSettings::default()
        };
        let (appender, worker) = Appender::start(&connection, &declared, &settings, Metrics::unregistered())
            .await
            .unwrap();
        tokio::spawn(worker.run());
        world.appender = Some(appender);
        world
    }

    /// With a stream that soon forgets the ids that it has seen, as ours does in an hour.
    pub(crate) async fn with_short_memory() -> Self {
        let world = Self::without_stream().await;
        let config = Config {
            name: "ANSWERS".to_owned(),
            subjects: vec!["answers.>".to_owned()],
            max_bytes: 64 << 20,
            duplicate_window: std::time::Duration::from_millis(100),
            ..Config::default()
        };
        world.user("ingress").await.create_stream(config).await.unwrap();
        world
    }

    async fn without_stream() -> Self {
        Self {
            nats: DeployedNats::start().await.unwrap(),
            appended: Vec::new(),
            appender: None,
        }
    }

    /// JetStream as this user sees it.
    pub(crate) async fn user(&self, name: &str) -> jetstream::Context {
        let options = ConnectOptions::new().user_and_password(name.to_owned(), self.nats.password(name));
        let client = options.connect(self.nats.server.url()).await.unwrap();
        jetstream::with_prefix(client, API)
    }

    /// Appends results as ingress does, until the stream has them.
    pub(crate) async fn append(&mut self, bodies: impl IntoIterator<Item = String>) {
        let appender = self.appender.as_ref().expect("this world has a stream of ours");
        let events: Vec<_> = bodies.into_iter().map(event).collect();
        let appended = join_all(events.into_iter().map(async |event| {
            let outcome = eventually("the stream has it", SOON, async || {
                appender.append(event.clone()).await
            });
            match outcome.await {
                Appended::Stored { .. } => event,
                Appended::Divergent { .. } => event.into_divergent(),
                Appended::Duplicate { .. } => panic!("{} was there", event.msg_id),
            }
        }));
        self.appended.extend(appended.await);
    }

    /// Publishes an event until the broker takes it for a new one.
    pub(crate) async fn append_again(&mut self, body: String) {
        let ingress = self.user("ingress").await;
        let (event, subjects) = (event(body), Subjects::new("answers").unwrap());
        let mut headers = HeaderMap::new();
        for (name, value) in &event.headers {
            headers.insert(HeaderName::from_static(name), &**value);
        }
        headers.insert(header::MSG_ID, event.msg_id.as_str());
        eventually("its id is forgotten", SOON, async || {
            let subject = subjects.of(event.kind).to_owned();
            let sent = ingress.publish_with_headers(subject, headers.clone(), event.body.clone());
            !sent.await.unwrap().await.unwrap().duplicate
        })
        .await;
        self.appended.push(event);
    }

    /// The ids of all that was appended.
    pub(crate) fn ids(&self) -> BTreeSet<String> {
        let ids = self.appended.iter().map(|event| event.msg_id.to_string());
        ids.collect()
    }

    /// How the durable consumer of the subscriber stands.
    pub(crate) async fn consumer(&self) -> consumer::Info {
        let stream = self.user("subscriber").await.get_stream("ANSWERS").await.unwrap();
        stream.consumer_info("subscriber").await.unwrap()
    }

    /// Waits until the consumer has nothing more to deliver and nothing that is not acknowledged.
    pub(crate) async fn all_is_acknowledged(&self) {
        eventually("all is acknowledged", SOON, async || {
            let info = self.consumer().await;
            match (info.num_pending, info.num_ack_pending) {
                (0, 0) => Ok(()),
                other => Err(other),
            }
        })
        .await;
    }

    /// What the broker has counted since its start.
    pub(crate) async fn traffic(&self) -> Traffic {
        let page = self.nats.server.monitoring("/varz").await;
        let counts: serde_json::Value = serde_json::from_str(&page).unwrap();
        let count = |name: &str| counts[name].as_u64().unwrap();
        Traffic {
            connections: count("total_connections"),
            messages: count("in_msgs"),
        }
    }

    pub(crate) async fn delete_consumer(&self) {
        let stream = self.user("subscriber").await.get_stream("ANSWERS").await.unwrap();
        stream.delete_consumer("subscriber").await.unwrap();
    }
}

fn event(body: String) -> Event {
    classify(body.into(), Via::Webhook, &Source::default(), Trace::default())
        .into_event()
        .unwrap()
}

/// A final delivery.
pub(crate) fn result(id: &str, status: &str, response: &str) -> String {
    let id = serde_json::Value::from(id);
    format!(
        r#"{{"task":{{"id":{id},"status":"{status}","createdAt":"2026-11-30T12:00:00Z","idempotencyKey":"best crm|{status}"}},"response":{response}}}"#
    )
}

/// Usual results, of which every tenth failed.
pub(crate) fn results(numbers: std::ops::Range<u32>) -> impl Iterator<Item = String> {
    numbers.map(|number| {
        let status = if number % 10 == 0 { "FAILED" } else { "COMPLETED" };
        result(
            &format!("task-{number}"),
            status,
            r#"{"result":{"text":"kettles"}}"#,
        )
    })
}

/// Results that are hard on a reader.
pub(crate) fn odd_results() -> Vec<String> {
    let mut odd: Vec<_> = ["a b", "a/b#c%", "🫖 é", "*.>", "'; drop table results; --", "\""]
        .map(|id| result(id, "COMPLETED", "null"))
        .into();
    odd.push(result(&"é".repeat(512), "FAILED", "1e999"));
    odd.push(result("surrogate", "COMPLETED", r#""\ud83d \u0000""#));
    odd.push(result(
        "deep",
        "COMPLETED",
        &format!("{}1{}", "[".repeat(3000), "]".repeat(3000)),
    ));
    odd.push(result(
        "large",
        "COMPLETED",
        &format!("\"{}\"", "x".repeat(2_000_000)),
    ));
    odd.push(r#"{"task":{"id":"bare","status":"COMPLETED"}}"#.to_owned());
    odd
}
