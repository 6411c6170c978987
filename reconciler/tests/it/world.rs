//! A provider, a stream and a database of one test's own, on servers that the tests share or on its own ones.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use http::Uri;
use sandbox::api::{self, Api, Call, Operation};
use sandbox::clock::Clock;
use sandbox::eventually;
use sandbox::provider::outcome::Outcome;
use sandbox::provider::secrets::Secret;
use sandbox::provider::task::{NewTask, Status};
use sandbox::provider::{Provider, Settings, TaskNumber};
use sandbox::seed::Seed;
use sandbox::sender::Account;
use sandbox::servers::{Database, NatsOptions, NatsServer, Postgres};
use schemas::event::{Source, Subjects, Trace, Via, classify};
use service::Stop;
use stream::{Connection, ConsumerSpec, StreamSpec};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_postgres::types::{FromSqlOwned, ToSql};

use crate::process::{Builder, Process};

/// How long a fact may take to become true: far more than it does, on a busy machine too.
pub(crate) const SOON: Duration = Duration::from_secs(30);

static NATS: OnceCell<NatsServer> = OnceCell::const_new();
static NEXT: AtomicU32 = AtomicU32::new(1);

/// Everything that a reconciler meets.
pub(crate) struct World {
    pub(crate) account: Account,
    pub(crate) api: Api,
    pub(crate) nats_url: String,
    pub(crate) database: Database,
    pub(crate) sql: Client,
    pub(crate) spec: StreamSpec,
    pub(crate) clock: Clock,
}

/// A projector in this process. Stops when dropped.
pub(crate) struct Projecting {
    stop: Stop,
    task: JoinHandle<()>,
}

impl World {
    /// On the shared servers.
    pub(crate) async fn new() -> Self {
        Self::on(
            shared_nats().await.url(),
            Postgres::shared().await.fresh_database().await,
        )
        .await
    }

    /// With a broker and a database of one's choice.
    pub(crate) async fn on(nats_url: String, database: Database) -> Self {
        Self::with(nats_url, database, Clock::system()).await
    }

    pub(crate) async fn with(nats_url: String, database: Database, clock: Clock) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let seed = Seed(u64::from(number));
        let settings = Settings::loopback(Uri::from_static("http://127.0.0.1:9/hook"));
        let account = Account::new(Provider::new(settings, Secret::generate(seed, 0), seed));
        let api = Api::start(account.clone(), api::Settings::new(seed), clock.clone())
            .await
            .unwrap();
        let spec = StreamSpec {
            name: format!("TEST{number}"),
            subjects: Subjects::new(&format!("test{number}")).unwrap(),
            max_bytes: 64 << 20,
            ..StreamSpec::default()
        };
        let sql = database.connect().await;
        Self {
            account,
            api,
            nats_url,
            database,
            sql,
            spec,
            clock,
        }
    }

    /// The settings of a reconciler for this world, in a hurry.
    pub(crate) fn reconciler(&self) -> Builder {
        let prefix = self.spec.subjects.all().trim_end_matches(".>").to_owned();
        Builder::new(vec![
            ("PROVIDER_URL", self.api.url()),
            ("PROVIDER_API_KEY", self.api.key().to_owned()),
            ("REQUEST_TIMEOUT", "2s".to_owned()),
            ("NATS_URL", self.nats_url.clone()),
            ("NATS_PING_INTERVAL", "500ms".to_owned()),
            ("NATS_REQUEST_TIMEOUT", "1s".to_owned()),
            ("PUBLISH_TIMEOUT", "2s".to_owned()),
            ("STREAM", self.spec.name.clone()),
            ("SUBJECT_PREFIX", prefix),
            ("STREAM_MAX_BYTES", "64MiB".to_owned()),
            ("DATABASE_URL", self.database.url()),
            ("DATABASE_CONNECT_TIMEOUT", "1s".to_owned()),
            ("SWEEP_INTERVAL", "50ms".to_owned()),
            ("CHECK_INTERVAL", "100ms".to_owned()),
            ("MAX_CHECK_INTERVAL", "400ms".to_owned()),
            ("ADMIN_LISTEN", "127.0.0.1:0".to_owned()),
            ("LOG_FORMAT", "text".to_owned()),
        ])
    }

    /// One that runs and is ready.
    pub(crate) async fn start(&self) -> Process {
        self.reconciler().start_ready().await
    }

    pub(crate) async fn connect(&self) -> Connection {
        stream::connect::connect(&stream::connect::Settings::for_url(&self.nats_url), "test")
            .await
            .unwrap()
    }

    /// A projector that runs in this process.
    pub(crate) fn project(&self) -> Projecting {
        let arguments = ["projector", "run"].map(Into::into);
        let own = [("DATABASE_URL", self.database.url())];
        let environment = |name: &str| {
            own.iter()
                .find(|(own, _)| *own == name)
                .map(|(_, value)| value.into())
        };
        let config = projector::config::Config::parse(arguments, &environment).unwrap();
        let projector::config::Command::Run(mut config) = config.command else {
            panic!("it is `run`")
        };
        config.nats = stream::connect::Settings::for_url(&self.nats_url);
        config.stream = self.spec.clone();
        config.consumer = ConsumerSpec::default();
        config.floor_interval = Duration::from_millis(50);
        config.admin.admin_listen = ([127, 0, 0, 1], 0).into();
        let stop = Stop::new();
        let own_stop = stop.clone();
        let task = tokio::spawn(async move { projector::run::run(*config, own_stop).await.unwrap() });
        Projecting { stop, task }
    }

    /// A task that has ended, and its id.
    pub(crate) fn finished(&self) -> String {
        self.finished_with_key(None).1
    }

    pub(crate) fn finished_with_key(&self, key: Option<&str>) -> (TaskNumber, String) {
        let task = self.queued(key);
        let now = self.clock.now();
        self.account.with(|provider| {
            provider.start(task.0, now).unwrap();
            let outcome = Outcome::completed(&mut Seed(7).rng("outcome", task.0.0 as u64));
            provider.finish(task.0, outcome, now).unwrap();
        });
        task
    }

    /// A task with so little to say that its answer can be dripped.
    pub(crate) fn finished_briefly(&self) -> (TaskNumber, String) {
        let task = self.queued(None);
        let now = self.clock.now();
        let outcome = Outcome::with_response(Status::Completed, "{}");
        self.account
            .with(|provider| provider.finish(task.0, outcome, now))
            .unwrap();
        task
    }

    /// A task that waits.
    pub(crate) fn queued(&self, key: Option<&str>) -> (TaskNumber, String) {
        let now = self.clock.now();
        self.account.with(|provider| {
            let request = NewTask {
                task_type: "GEMINI",
                priority: 3,
                idempotency_key: key.map(ToOwned::to_owned),
            };
            let task = provider.create(request, now).unwrap();
            (task, provider.task(task).id.clone())
        })
    }

    /// Makes the stream, as whoever starts first does.
    pub(crate) async fn declare(&self) {
        stream::declare::declare(&self.connect().await, &self.spec)
            .await
            .unwrap();
    }

    /// Puts the delivery of a task on the stream, as ingress does.
    pub(crate) async fn deliver(&self, task: TaskNumber) {
        let body = self.account.with(|provider| {
            let delivery = provider.task(task).delivery.expect("it has ended");
            provider.delivery(delivery).body.clone()
        });
        self.deliver_body(body).await;
    }

    pub(crate) async fn deliver_body(&self, body: Bytes) {
        let event = classify(body, Via::Webhook, &Source::default(), Trace::default());
        let event = event.into_event().expect("no test delivery");
        let mut headers = HeaderMap::new();
        for (name, value) in &event.headers {
            headers.insert(*name, &**value);
        }
        headers.insert("Nats-Msg-Id", event.msg_id.as_str());
        let subject = self.spec.subjects.of(event.kind).to_owned();
        let connection = self.connect().await;
        // Where a projector has just been started, the stream may be on its way.
        eventually("the delivery is stored", SOON, async || {
            let sent = connection.jetstream.publish_with_headers(
                subject.clone(),
                headers.clone(),
                event.body.clone(),
            );
            match sent.await {
                Ok(stored) => stored.await.map(drop),
                Err(error) => Err(error),
            }
        })
        .await;
    }

    /// Records a submission that is due now.
    pub(crate) async fn submit(&self, task: &str) {
        self.submit_with(task, None, "0s", "0s").await;
    }

    /// Records a submission that is so old, and due since so long.
    pub(crate) async fn submit_with(&self, task: &str, key: Option<&str>, age: &str, due_since: &str) {
        let statement = "insert into submitted_tasks (task_id, idempotency_key, created_at, next_check_at)
             values ($1, $2, now() - $3::text::interval, now() - $4::text::interval)";
        self.sql
            .execute(statement, &[&task, &key, &age, &due_since])
            .await
            .unwrap();
    }

    /// The only value of the only row.
    pub(crate) async fn value<T: FromSqlOwned>(&self, query: &str, parameters: &[&(dyn ToSql + Sync)]) -> T {
        self.sql.query_one(query, parameters).await.unwrap().get(0)
    }

    pub(crate) async fn count(&self, what: &str) -> i64 {
        self.value(&format!("select count(*) from {what}"), &[]).await
    }

    /// A column of the submission of a task.
    pub(crate) async fn of<T: FromSqlOwned>(&self, task: &str, column: &str) -> T {
        self.value(
            &format!("select {column} from submitted_tasks where task_id = $1"),
            &[&task],
        )
        .await
    }

    pub(crate) async fn state(&self, task: &str) -> String {
        self.of(task, "state").await
    }

    /// Waits until the submission of a task is in a state.
    pub(crate) async fn becomes(&self, task: &str, state: &str) {
        self.row_is(task, "state", state.to_owned()).await;
    }

    /// Waits until a column of the submission of a task has a value.
    pub(crate) async fn row_is<T: FromSqlOwned + PartialEq + Debug>(
        &self,
        task: &str,
        column: &str,
        value: T,
    ) {
        let what = format!("{column} of {task} is {value:?}");
        eventually(&what, SOON, async || {
            let found: T = self.of(task, column).await;
            if found == value { Ok(()) } else { Err(found) }
        })
        .await;
    }

    /// Waits until so many rows match.
    pub(crate) async fn rows(&self, what: &str, count: i64) {
        eventually(&format!("{count} rows of {what}"), SOON, async || {
            match self.count(what).await {
                found if found == count => Ok(()),
                found => Err(found),
            }
        })
        .await;
    }

    /// What the provider was asked about tasks.
    pub(crate) fn asked(&self) -> Vec<Call> {
        let calls = self.api.calls();
        calls
            .into_iter()
            .filter(|call| call.operation == Operation::Get)
            .collect()
    }

    /// How often it was asked about one task.
    pub(crate) fn asked_about(&self, task: &str) -> usize {
        self.asked()
            .iter()
            .filter(|call| call.task.as_deref() == Some(task))
            .count()
    }

    /// Waits until it was asked about a task so often, or more.
    pub(crate) async fn is_asked_about(&self, task: &str, times: usize) {
        let what = format!("{task} is asked for {times} times");
        eventually(&what, SOON, async || match self.asked_about(task) {
            found if found >= times => Ok(()),
            found => Err(found),
        })
        .await;
    }

    /// What the stream holds.
    pub(crate) async fn events(&self) -> u64 {
        let connection = self.connect().await;
        let stream = connection.jetstream.get_stream(&self.spec.name).await.unwrap();
        stream.cached_info().state.messages
    }
}

impl Projecting {
    pub(crate) async fn stop(mut self) {
        self.stop.request();
        (&mut self.task).await.unwrap();
    }
}

impl Drop for Projecting {
    fn drop(&mut self) {
        self.stop.request();
        self.task.abort();
    }
}

/// The broker that most tests share. Page cache is enough for them.
pub(crate) async fn shared_nats() -> &'static NatsServer {
    NATS.get_or_init(nats).await
}

/// A broker of one's own.
pub(crate) async fn nats() -> NatsServer {
    let options = NatsOptions {
        sync_always: false,
        ..NatsOptions::default()
    };
    NatsServer::start_with(options).await.unwrap()
}
