//! A process under test, its broker, and what is on its stream.

use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use sandbox::servers::NatsServer;
use tokio::sync::OnceCell;

use crate::client::{self, Answer, Client, Post, SECRET};
use crate::events::Events;
use crate::process::{self, Process};

/// The secret that is going out of use.
pub(crate) const OLD_SECRET: &str = "whsec_the_secret_before";

static SHARED: OnceCell<NatsServer> = OnceCell::const_new();
static WORLDS: AtomicU32 = AtomicU32::new(0);

/// How a process is to be started.
pub(crate) struct Setup {
    nats_url: String,
    stream: String,
    variables: Vec<(String, String)>,
}

pub(crate) struct World {
    pub(crate) ingress: Process,
    pub(crate) events: Events,
    pub(crate) setup: Setup,
}

impl Setup {
    /// On the broker that all tests share, with a stream of its own.
    pub(crate) async fn shared() -> Self {
        Self::on(&SHARED.get_or_init(NatsServer::start).await.url())
    }

    /// On a broker of the test's own.
    pub(crate) fn on(nats_url: &str) -> Self {
        let number = WORLDS.fetch_add(1, Relaxed);
        let setup = Self {
            nats_url: nats_url.to_owned(),
            stream: format!("WORLD{number}"),
            variables: Vec::new(),
        };
        let (url, stream) = (setup.nats_url.clone(), setup.stream.clone());
        setup
            .set("NATS_URL", &url)
            .set("STREAM", &stream)
            .set("SUBJECT_PREFIX", &format!("world{number}"))
            .set("STREAM_MAX_BYTES", "32MiB")
            .set("WEBHOOK_SECRETS", &format!("{SECRET},{OLD_SECRET}"))
            .set("RUST_LOG", "info,ingress=debug")
    }

    /// With the stream and the prefix of subjects that a deployment has by default.
    pub(crate) fn with_default_names(mut self) -> Self {
        "ANSWERS".clone_into(&mut self.stream);
        self.set("STREAM", "ANSWERS").set("SUBJECT_PREFIX", "answers")
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(set, _)| set != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.variables.retain(|(set, _)| set != name);
        self
    }

    pub(crate) fn stream(&self) -> &str {
        &self.stream
    }

    pub(crate) fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// Runs the program with these variables to its end.
    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        let variables: Vec<_> = self
            .variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        process::output(arguments, &variables)
    }

    /// Starts the process and waits until it is ready.
    pub(crate) async fn start(self) -> World {
        let url = self.nats_url.clone();
        self.start_watching(&url).await
    }

    /// As [`Setup::start`], for a process whose way to the broker is another than the test's.
    pub(crate) async fn start_watching(self, nats_url: &str) -> World {
        let ingress = Process::start(&self.variables).await;
        ingress.ready().await;
        let events = Events::of(nats_url, &self.stream).await;
        World {
            ingress,
            events,
            setup: self,
        }
    }
}

impl World {
    /// On the shared broker, with the default settings.
    pub(crate) async fn start() -> Self {
        Setup::shared().await.start().await
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.ingress.listen).await
    }

    /// Sends one request over a connection of its own.
    pub(crate) async fn post(&self, post: &Post) -> Answer {
        client::post(self.ingress.listen, post).await
    }

    /// Delivers a signed body; the status.
    pub(crate) async fn deliver(&self, body: impl Into<Vec<u8>>) -> u16 {
        self.post(&Post::signed(body)).await.status
    }

    /// Starts the process anew, after it was killed.
    pub(crate) async fn start_again(&mut self) {
        self.ingress = Process::start(self.setup.variables()).await;
        self.ingress.ready().await;
    }
}
