//! A broker that runs deploy/nats.conf, and clients that are its users.

use std::path::{Path, PathBuf};

use async_nats::{
    Client, ConnectOptions, Event, HeaderMap, RequestErrorKind,
    jetstream::{
        self, Context,
        consumer::{PullConsumer, pull},
        stream::Config,
    },
};
use futures_util::{StreamExt, TryStreamExt};
use sandbox::servers::{DeployedNats, NatsOptions, NatsServer, deployed};
use tokio::sync::mpsc;

use crate::{ROOT, SOON};

/// The name of the JetStream API in every account but the operator's.
pub(crate) const API: &str = "ANSWERS.API";

/// Everyone but the operator: the users that programs run as.
pub(crate) const SERVICES: [&str; 4] = ["ingress", "projector", "reconciler", "subscriber"];

/// What nobody may ask for, below the name of the API.
pub(crate) const DESTRUCTIVE: [&str; 6] = [
    "STREAM.DELETE.ANSWERS",
    "STREAM.PURGE.ANSWERS",
    "STREAM.MSG.DELETE.ANSWERS",
    "STREAM.RESTORE.ANSWERS",
    "STREAM.SNAPSHOT.ANSWERS",
    "STREAM.CREATE.OTHER",
];

/// A broker that runs deploy/nats.conf, with passwords made by deploy/make-secrets.
pub(crate) struct Broker(DeployedNats);

impl Broker {
    pub(crate) async fn start() -> Self {
        Self(DeployedNats::start().await.unwrap())
    }

    /// One that runs the files of another directory than `deploy`.
    pub(crate) async fn start_from(deploy: &Path) -> Self {
        Self(DeployedNats::start_from(deploy).await.unwrap())
    }

    pub(crate) fn server(&self) -> &NatsServer {
        &self.0.server
    }

    pub(crate) fn password(&self, user: &str) -> String {
        self.0.password(user)
    }

    pub(crate) async fn user(&self, name: &'static str) -> User {
        let (report, refusals) = mpsc::unbounded_channel();
        let client = ConnectOptions::new()
            .user_and_password(name.to_owned(), self.password(name))
            .event_callback(move |event| {
                if let Event::ServerError(error) = event {
                    report.send(error.to_string()).unwrap();
                }
                std::future::ready(())
            })
            .connect(self.server().url())
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
    pub(crate) async fn with_events(&self) -> User {
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

    /// As [`with_events`](Self::with_events), with the durable of the projectors.
    pub(crate) async fn with_projector(&self) -> User {
        let ingress = self.with_events().await;
        let projector = self.user("projector").await;
        projector.consumer("projector", "answers.>").await;
        ingress
    }

    pub(crate) async fn messages(&self) -> u64 {
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

pub(crate) struct User {
    pub(crate) name: &'static str,
    pub(crate) client: Client,
    pub(crate) jetstream: Context,
    pub(crate) refusals: mpsc::UnboundedReceiver<String>,
}

impl User {
    /// Nobody hears what is said on these subjects, with or without the prefix of the API.
    pub(crate) async fn cannot_reach(&self, subjects: &[&str]) {
        for subject in subjects {
            let answer = self.client.request((*subject).to_owned(), "".into()).await;
            let error = answer.map_err(|e| e.kind()).expect_err(subject);
            assert_eq!(error, RequestErrorKind::NoResponders, "{}: {subject}", self.name);
        }
    }

    pub(crate) async fn cannot_ask_for(&self, requests: &[&str]) {
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
    pub(crate) async fn is_refused(&mut self, subjects: &[String]) {
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
    pub(crate) async fn has_answered_on(&self, target: &str, request: &str, headers: HeaderMap, body: &str) {
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

    pub(crate) async fn consumer(&self, name: &str, filter: &str) -> PullConsumer {
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

pub(crate) fn stream() -> Config {
    Config {
        name: "ANSWERS".to_owned(),
        subjects: vec!["answers.>".to_owned()],
        allow_direct: true,
        allow_atomic_publish: true,
        ..Config::default()
    }
}

pub(crate) fn make_secrets(dir: &Path) -> PathBuf {
    deployed::make_secrets(dir).unwrap()
}

/// A broker that runs a copy of the file `config` of this repository in `dir`, beside the secrets that the file includes.
pub(crate) fn options(dir: &Path, config: impl AsRef<Path>) -> NatsOptions {
    deployed::options(dir, &Path::new(ROOT).join(config)).unwrap()
}

pub(crate) fn password(secrets: &Path, user: &str) -> String {
    deployed::password(secrets, user).unwrap()
}

/// The headers of a message in an atomic batch.
pub(crate) fn batch(sequence: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Batch-Id", "batch");
    headers.insert("Nats-Batch-Sequence", sequence.to_string().as_str());
    headers
}

/// Subjects of the first few messages that a consumer has, each acknowledged.
pub(crate) async fn take(consumer: &PullConsumer) -> Vec<String> {
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
