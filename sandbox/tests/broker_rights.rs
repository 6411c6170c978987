//! What each user of deploy/nats.conf may do, and may not: the file itself, on a real broker.

#![cfg(test)] // for clippy: what is allowed in tests is allowed in their helpers too

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use async_nats::{
    Client, ConnectOptions, Event, HeaderMap, RequestErrorKind,
    jetstream::{
        self, Context,
        consumer::{PullConsumer, pull},
        stream::Config,
    },
};
use futures_util::{StreamExt, TryStreamExt};
use sandbox::{
    eventually,
    servers::{NatsOptions, NatsServer},
};
use schemas::event::{Source, Trace, Via, classify};
use stream::{
    AppendSettings, Appended, Appender, StreamSpec,
    append::{Metrics, Mode},
    connect::Settings,
    consume::{Consumer, ConsumerSpec, Start},
};
use tokio::sync::mpsc;

const SOON: Duration = Duration::from_secs(10);
/// The name of the JetStream API in every account but the operator's.
const API: &str = "ANSWERS.API";
/// Everyone but the operator: the users that programs run as.
const SERVICES: [&str; 4] = ["ingress", "projector", "reconciler", "subscriber"];
/// What nobody may ask for, below the name of the API.
const DESTRUCTIVE: [&str; 6] = [
    "STREAM.DELETE.ANSWERS",
    "STREAM.PURGE.ANSWERS",
    "STREAM.MSG.DELETE.ANSWERS",
    "STREAM.RESTORE.ANSWERS",
    "STREAM.SNAPSHOT.ANSWERS",
    "STREAM.CREATE.OTHER",
];

/// A broker that runs deploy/nats.conf, with passwords made by deploy/make-secrets.
struct Broker {
    server: NatsServer,
    secrets: PathBuf,
    _dir: tempfile::TempDir,
}

impl Broker {
    async fn start() -> Self {
        let deploy = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy"));
        let dir = tempfile::tempdir().unwrap();
        let (config, secrets) = (dir.path().join("nats.conf"), dir.path().join("secrets"));
        fs::copy(deploy.join("nats.conf"), &config).unwrap();
        let made = Command::new(deploy.join("make-secrets"))
            .arg(&secrets)
            .status()
            .unwrap();
        assert!(made.success());
        let user = Some(("operator".to_owned(), password(&secrets, "operator")));
        let options = NatsOptions {
            config: Some(config),
            user,
            ..NatsOptions::default()
        };
        Self {
            server: NatsServer::start_with(options).await.unwrap(),
            secrets,
            _dir: dir,
        }
    }

    async fn user(&self, name: &'static str) -> User {
        let (report, refusals) = mpsc::unbounded_channel();
        let client = ConnectOptions::new()
            .user_and_password(name.to_owned(), password(&self.secrets, name))
            .event_callback(move |event| {
                if let Event::ServerError(error) = event {
                    report.send(error.to_string()).unwrap();
                }
                std::future::ready(())
            })
            .connect(self.server.url())
            .await
            .unwrap();
        let jetstream = match name {
            "operator" => jetstream::new(client.clone()),
            _ => jetstream::with_prefix(client.clone(), API),
        };
        User {
            name,
            client,
            jetstream,
            refusals,
        }
    }

    /// The stream as ingress makes it, with one message of each kind.
    async fn with_events(&self) -> User {
        let ingress = self.user("ingress").await;
        ingress.jetstream.create_stream(stream()).await.unwrap();
        for subject in [
            "answers.result.completed",
            "answers.nonfinal",
            "answers.quarantine",
        ] {
            ingress
                .jetstream
                .publish(subject, subject.into())
                .await
                .unwrap()
                .await
                .unwrap();
        }
        ingress
    }

    async fn messages(&self) -> u64 {
        let operator = self.user("operator").await;
        operator
            .jetstream
            .get_stream("ANSWERS")
            .await
            .unwrap()
            .cached_info()
            .state
            .messages
    }
}

struct User {
    name: &'static str,
    client: Client,
    jetstream: Context,
    refusals: mpsc::UnboundedReceiver<String>,
}

impl User {
    /// Nobody hears what is said on these subjects, with or without the prefix of the API.
    async fn cannot_reach(&self, subjects: &[&str]) {
        for subject in subjects {
            let answer = self.client.request((*subject).to_owned(), "".into()).await;
            let error = answer.map_err(|e| e.kind()).expect_err(subject);
            assert_eq!(error, RequestErrorKind::NoResponders, "{}: {subject}", self.name);
        }
    }

    async fn cannot_ask_for(&self, requests: &[&str]) {
        for request in requests {
            self.cannot_reach(&[&format!("{API}.{request}")]).await;
            // The API that every account has by itself: some of it answers, that there is no JetStream in this one.
            match self.client.request(format!("$JS.API.{request}"), "".into()).await {
                Ok(answer) => {
                    let answer = String::from_utf8_lossy(&answer.payload).into_owned();
                    let refused = answer.contains("JetStream not enabled for account");
                    assert!(refused, "{}: {request}: {answer}", self.name);
                }
                Err(error) => assert_eq!(
                    error.kind(),
                    RequestErrorKind::NoResponders,
                    "{}: {request}",
                    self.name
                ),
            }
        }
    }

    /// The broker refuses every publish to these, and names each.
    async fn is_refused(&mut self, subjects: &[String]) {
        for subject in subjects {
            self.client.publish(subject.clone(), "".into()).await.unwrap();
            let refusal = tokio::time::timeout(SOON, self.refusals.recv())
                .await
                .unwrap()
                .unwrap();
            assert!(
                refusal.contains(&format!("Publish to {subject:?}")),
                "{subject}: {refusal}"
            );
        }
    }

    /// Makes the broker say something on a subject of the user's choice, by naming it as the place for the answer, and
    /// waits until it is said, where the user hears it.
    async fn has_answered_on(&self, target: &str, request: &str, headers: HeaderMap, body: &str) {
        let mut echo = self.client.subscribe(target.to_owned()).await.unwrap();
        let (request, body) = (request.to_owned(), body.to_owned());
        let sent = self.client.publish_with_reply_and_headers(
            request.clone(),
            target.to_owned(),
            headers,
            body.into(),
        );
        sent.await.unwrap();
        let heard = tokio::time::timeout(SOON, echo.next()).await;
        assert!(
            heard.is_ok(),
            "{}: {request} is not answered on {target}",
            self.name
        );
    }

    async fn consumer(&self, name: &str, filter: &str) -> PullConsumer {
        let config = pull::Config {
            durable_name: Some(name.to_owned()),
            filter_subject: filter.to_owned(),
            ..pull::Config::default()
        };
        self.jetstream
            .create_consumer_on_stream(config, "ANSWERS")
            .await
            .unwrap()
    }
}

fn stream() -> Config {
    Config {
        name: "ANSWERS".to_owned(),
        subjects: vec!["answers.>".to_owned()],
        allow_direct: true,
        allow_atomic_publish: true,
        ..Config::default()
    }
}

fn password(secrets: &Path, user: &str) -> String {
    fs::read_to_string(secrets.join(format!("{user}.password"))).unwrap()
}

/// The headers of a message in an atomic batch.
fn batch(sequence: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Batch-Id", "batch");
    headers.insert("Nats-Batch-Sequence", sequence.to_string().as_str());
    headers
}

/// Subjects of the first few messages that a consumer has, each acknowledged.
async fn take(consumer: &PullConsumer) -> Vec<String> {
    let messages: Vec<_> = consumer
        .fetch()
        .max_messages(10)
        .messages()
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    for message in &messages {
        message.double_ack().await.unwrap();
    }
    messages
        .iter()
        .map(|message| message.subject.to_string())
        .collect()
}

#[tokio::test]
async fn ingress_makes_the_stream_appends_in_batches_and_reads_back() {
    let broker = Broker::start().await;
    let ingress = broker.with_events().await;
    ingress
        .client
        .publish_with_headers("answers.result.failed", batch(1), "one".into())
        .await
        .unwrap();
    let mut last = batch(2);
    last.insert("Nats-Batch-Commit", "1");
    let ack = ingress
        .jetstream
        .publish_with_headers("answers.result.failed", last, "two".into())
        .await
        .unwrap();
    assert_eq!(ack.await.unwrap().sequence, 5);
    let log = ingress.jetstream.get_stream("ANSWERS").await.unwrap();
    assert_eq!(log.direct_get(5).await.unwrap().payload, "two");
    assert_eq!(log.get_raw_message(4).await.unwrap().payload, "one");
}

#[tokio::test]
async fn ingress_learns_at_once_that_there_is_no_stream() {
    let broker = Broker::start().await;
    let ingress = broker.user("ingress").await;
    let error = ingress
        .jetstream
        .publish("answers.nonfinal", "".into())
        .await
        .unwrap()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), jetstream::context::PublishErrorKind::StreamNotFound);
}

#[tokio::test]
async fn a_projector_owns_its_durable_and_reads_the_stream() {
    let broker = Broker::start().await;
    let ingress = broker.with_events().await;
    let projector = broker.user("projector").await;
    let log = projector.jetstream.get_stream("ANSWERS").await.unwrap();
    let mut durable = projector.consumer("projector", "answers.>").await;
    assert_eq!(
        take(&durable).await,
        [
            "answers.result.completed",
            "answers.nonfinal",
            "answers.quarantine"
        ]
    );
    assert_eq!(durable.info().await.unwrap().ack_floor.stream_sequence, 3);
    // A pull that waits is served when something comes.
    let pull = durable
        .batch()
        .max_messages(1)
        .expires(SOON)
        .messages()
        .await
        .unwrap();
    ingress
        .jetstream
        .publish("answers.result.failed", "new".into())
        .await
        .unwrap()
        .await
        .unwrap();
    let pulled: Vec<_> = pull.try_collect().await.unwrap();
    assert_eq!(pulled[0].payload, "new");
    log.delete_consumer("projector").await.unwrap();
    projector.consumer("projector", "").await;
    log.direct_get(1).await.unwrap();
    log.get_raw_message(1).await.unwrap();
}

#[tokio::test]
async fn a_reconciler_appends_results_and_sees_how_far_the_projectors_are() {
    let broker = Broker::start().await;
    broker.with_events().await;
    broker
        .user("projector")
        .await
        .consumer("projector", "answers.>")
        .await;
    let reconciler = broker.user("reconciler").await;
    let ack = reconciler
        .jetstream
        .publish("answers.result.failed", "found".into())
        .await
        .unwrap();
    assert_eq!(ack.await.unwrap().sequence, 4);
    let log = reconciler.jetstream.get_stream("ANSWERS").await.unwrap();
    assert_eq!(log.direct_get(4).await.unwrap().payload, "found");
    assert_eq!(log.consumer_info("projector").await.unwrap().num_pending, 4);
    reconciler
        .cannot_reach(&["answers.nonfinal", "answers.quarantine"])
        .await;
}

#[tokio::test]
async fn a_subscriber_reads_results_and_nothing_else() {
    let broker = Broker::start().await;
    broker.with_events().await;
    let subscriber = broker.user("subscriber").await;
    let log = subscriber.jetstream.get_stream("ANSWERS").await.unwrap();
    let mut durable = subscriber.consumer("subscriber", "answers.result.>").await;
    assert_eq!(take(&durable).await, ["answers.result.completed"]);
    assert_eq!(durable.info().await.unwrap().ack_floor.stream_sequence, 1);
    log.delete_consumer("subscriber").await.unwrap();
    let requests = [
        "CONSUMER.CREATE.ANSWERS.subscriber",
        "CONSUMER.CREATE.ANSWERS.subscriber.answers.quarantine",
        "CONSUMER.DURABLE.CREATE.ANSWERS.subscriber",
        "DIRECT.GET.ANSWERS",
        "STREAM.MSG.GET.ANSWERS",
    ];
    subscriber.cannot_ask_for(&requests).await;
    // The filter in the subject is the filter in force: one that says something else in its body gets no consumer.
    let body = r#"{"stream_name":"ANSWERS","config":{"name":"subscriber","filter_subject":"answers.>"}}"#;
    let subject = format!("{API}.CONSUMER.CREATE.ANSWERS.subscriber.answers.result.completed");
    let answer = subscriber.client.request(subject, body.into()).await.unwrap();
    assert!(
        String::from_utf8_lossy(&answer.payload).contains("error"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn only_ingress_and_the_reconciler_append_and_only_the_projector_has_its_durable() {
    let broker = Broker::start().await;
    broker.with_events().await;
    broker
        .user("projector")
        .await
        .consumer("projector", "answers.>")
        .await;
    for name in ["projector", "subscriber"] {
        let results = [
            "answers.result.completed",
            "answers.result.failed",
            "answers.quarantine",
        ];
        broker.user(name).await.cannot_reach(&results).await;
    }
    for name in ["ingress", "reconciler", "subscriber"] {
        let user = broker.user(name).await;
        let requests = [
            "CONSUMER.CREATE.ANSWERS.projector",
            "CONSUMER.CREATE.ANSWERS.projector.answers.result.>",
            "CONSUMER.DELETE.ANSWERS.projector",
            "CONSUMER.MSG.NEXT.ANSWERS.projector",
            "CONSUMER.CREATE.ANSWERS.other.answers.result.>",
        ];
        user.cannot_ask_for(&requests).await;
        user.cannot_reach(&["$JS.ACK.ANSWERS.projector.1.1.1.1.1"]).await;
    }
    assert_eq!(broker.messages().await, 3);
}

#[tokio::test]
async fn no_service_asks_for_deletion_changes_the_stream_or_hears_what_others_are_answered() {
    let broker = Broker::start().await;
    let ingress = broker.with_events().await;
    let operator = broker.user("operator").await;
    for name in SERVICES {
        let user = broker.user(name).await;
        user.cannot_ask_for(&DESTRUCTIVE).await;
        user.cannot_ask_for(&["STREAM.UPDATE.ANSWERS"]).await;
        let mut everything = user.client.subscribe(">").await.unwrap();
        user.client.flush().await.unwrap();
        operator.jetstream.get_stream("ANSWERS").await.unwrap();
        if name != "ingress" {
            ingress.jetstream.get_stream("ANSWERS").await.unwrap();
        }
        user.client.publish("own", "".into()).await.unwrap();
        let heard = tokio::time::timeout(SOON, everything.next())
            .await
            .unwrap()
            .unwrap();
        assert_eq!((name, heard.subject.as_str()), (name, "own"));
    }
    assert_eq!(broker.messages().await, 3);
}

/// The broker answers on whatever subject a request names, and does not check it against the permissions of who asks. An
/// answer may be empty, and an empty message is all that a deletion needs: within one account a reader could delete the
/// stream, or append to it.
#[tokio::test]
async fn no_service_makes_the_broker_speak_for_it() {
    let broker = Broker::start().await;
    broker.with_events().await;
    let empty = r#"{"expires":1000000,"batch":1}"#;
    for (name, request, body) in [
        ("projector", "CONSUMER.MSG.NEXT.ANSWERS.projector", empty),
        ("projector", "DIRECT.GET.ANSWERS", r#"{"seq":99}"#),
        ("projector", "DIRECT.GET.ANSWERS", r#"{"seq":1}"#),
        ("reconciler", "DIRECT.GET.ANSWERS", r#"{"seq":99}"#),
        ("subscriber", "CONSUMER.MSG.NEXT.ANSWERS.subscriber", empty),
    ] {
        let user = broker.user(name).await;
        if request.contains("NEXT") {
            take(&user.consumer(name, "answers.result.>").await).await; // nothing is left, so the answer is an empty one
        }
        for target in DESTRUCTIVE {
            for target in [
                format!("$JS.API.{target}"),
                format!("{API}.{target}"),
                "answers.quarantine".to_owned(),
            ] {
                user.has_answered_on(&target, &format!("{API}.{request}"), HeaderMap::new(), body)
                    .await;
            }
        }
    }
    let ingress = broker.user("ingress").await;
    for target in DESTRUCTIVE {
        // All but the last message of a batch are answered with an empty message.
        let target = format!("$JS.API.{target}");
        let mut headers = batch(1);
        headers.insert("Nats-Batch-Id", target.as_str());
        ingress
            .has_answered_on(&target, "answers.nonfinal", headers, "")
            .await;
    }
    assert_eq!(broker.messages().await, 3);
}

#[tokio::test]
async fn the_operator_changes_the_stream_and_may_not_delete_or_append() {
    let broker = Broker::start().await;
    broker.with_events().await;
    let mut operator = broker.user("operator").await;
    let changed = Config {
        max_bytes: 1 << 30,
        ..stream()
    };
    let info = operator.jetstream.update_stream(&changed).await.unwrap();
    assert_eq!(info.config.max_bytes, 1 << 30);
    operator
        .is_refused(&DESTRUCTIVE.map(|request| format!("$JS.API.{request}")))
        .await;
    operator
        .is_refused(&["answers.result.completed".to_owned(), "_INBOX.forged".to_owned()])
        .await;
    assert_eq!(broker.messages().await, 3);
}

/// The same with the code of the services, group commit included.
#[tokio::test]
async fn what_the_services_do_with_the_stream_is_within_their_rights() {
    let broker = Broker::start().await;
    let connect = async |user: &str| {
        let settings = Settings {
            api_prefix: API.to_owned(),
            ..Settings::for_url(broker.server.url())
        };
        let settings = settings.with_user(user, password(&broker.secrets, user));
        stream::connect::connect(&settings, user).await.unwrap()
    };
    let (ingress, projector, reconciler) = (
        connect("ingress").await,
        connect("projector").await,
        connect("reconciler").await,
    );
    let spec = StreamSpec::default();
    let (declared, seen) = tokio::join!(
        stream::declare::declare(&ingress, &spec),
        stream::declare::declare(&projector, &spec)
    );
    let (declared, seen) = (declared.unwrap(), seen.unwrap());
    let settings = AppendSettings {
        mode: Mode::Batch,
        ..AppendSettings::default()
    };
    let start = async |connection| {
        let (appender, worker) = Appender::start(connection, &declared, &settings, Metrics::unregistered())
            .await
            .unwrap();
        tokio::spawn(worker.run());
        appender
    };
    let appended = start(&ingress).await;
    let stored = futures_util::future::join_all((0..100).map(|n| appended.append(event(n)))).await;
    assert!(
        stored
            .iter()
            .all(|one| matches!(one, Ok(Appended::Stored { .. }))),
        "{stored:?}"
    );
    let again = start(&reconciler).await.append(event(7)).await.unwrap();
    assert!(matches!(again, Appended::Duplicate { .. }), "{again:?}");

    let spec = ConsumerSpec::default();
    let (mut consumer, _) = Consumer::bind(&projector, &seen, &spec, Start::First)
        .await
        .unwrap();
    let mut fetched = 0;
    while fetched < 100 {
        let events = consumer.fetch(40, 1 << 20, SOON).await.unwrap();
        assert!(!events.is_empty());
        for event in &events {
            event.acker.ack().await.unwrap();
        }
        fetched += events.len();
    }
    eventually("the acknowledgments have arrived", SOON, async || {
        let progress = consumer.progress().await.unwrap();
        if progress
            .as_ref()
            .is_some_and(|progress| progress.ack_floor == 100)
        {
            Ok(())
        } else {
            Err(progress)
        }
    })
    .await;
    assert!(consumer.message_id(8).await.unwrap().is_some());
    consumer.restart(99).await.unwrap();
    assert_eq!(consumer.fetch(40, 1 << 20, SOON).await.unwrap()[0].seq, 100);
}

fn event(number: u32) -> schemas::event::Event {
    let body = format!(
        r#"{{"task":{{"id":"task-{number}","status":"COMPLETED","createdAt":"2026-11-30T12:00:00Z"}},"response":{{}}}}"#
    );
    let source = Source::new("urn:answerline").unwrap();
    classify(body.into(), Via::Webhook, &source, Trace::default())
        .into_event()
        .unwrap()
}

#[tokio::test]
async fn nobody_connects_without_a_password_of_the_files() {
    let broker = Broker::start().await;
    let url = broker.server.url();
    let attempts = [
        ConnectOptions::new(),
        ConnectOptions::new().user_and_password("ingress".to_owned(), password(&broker.secrets, "projector")),
        ConnectOptions::new().user_and_password("ingress".to_owned(), "$INGRESS_PASSWORD".to_owned()),
    ];
    for attempt in attempts {
        let error = attempt.connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), async_nats::ConnectErrorKind::AuthorizationViolation);
    }
}

#[tokio::test]
async fn the_broker_syncs_before_it_acknowledges_and_takes_eight_megabytes() {
    let broker = Broker::start().await;
    let ingress = broker.user("ingress").await;
    assert_eq!(ingress.client.server_info().max_payload, 8 << 20);
    let jsz = get(&format!("{}/jsz", broker.server.monitor_url().unwrap())).await;
    assert!(jsz.contains(r#""sync_always": true"#), "{jsz}");
}

/// `deploy/make-secrets` may run again at any time.
#[test]
fn passwords_that_are_there_stay_and_no_two_are_equal() {
    let dir = tempfile::tempdir().unwrap();
    let make = || {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/make-secrets");
        assert!(Command::new(script).arg(dir.path()).status().unwrap().success());
        SERVICES.map(|user| password(dir.path(), user))
    };
    let first = make();
    assert_eq!(make(), first);
    let distinct: std::collections::HashSet<_> =
        first.iter().filter(|password| password.len() == 32).collect();
    assert_eq!(distinct.len(), SERVICES.len());
}

async fn get(url: &str) -> String {
    use http_body_util::BodyExt;
    let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
        .build_http::<http_body_util::Empty<bytes::Bytes>>();
    let answer = client.get(url.parse().unwrap()).await.unwrap();
    String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}
