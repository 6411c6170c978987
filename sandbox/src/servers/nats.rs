//! A private broker.

use std::{
    error::Error,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use nix::sys::signal::Signal;

use super::{
    ServerError, find,
    port::Port,
    server::{Kind, Server},
};

/// How a private broker is set up. The default is what production runs: synced before each ack, 8 MB messages, no users.
#[derive(Debug, Clone)]
pub struct NatsOptions {
    /// The program; `None` finds one, see [`find::nats_server`].
    pub binary: Option<PathBuf>,
    /// Whether every message is synced to disk before it is acknowledged.
    pub sync_always: bool,
    /// The largest message, headers included, in bytes.
    pub max_payload: usize,
    /// More configuration, in the broker's own syntax, e.g. an `authorization` block.
    pub extra: String,
    /// A configuration file to run in place of the settings above. Its addresses and its store are overridden.
    pub config: Option<PathBuf>,
    /// Where the streams are kept; `None` is a directory of the broker's own.
    pub store: Option<PathBuf>,
    /// Whether the HTTP monitoring port is opened.
    pub monitor: bool,
    /// User and password with which readiness is tried.
    pub user: Option<(String, String)>,
}

impl Default for NatsOptions {
    fn default() -> Self {
        Self {
            binary: None,
            sync_always: true,
            max_payload: 8 << 20,
            extra: String::new(),
            config: None,
            store: None,
            monitor: false,
            user: None,
        }
    }
}

impl NatsOptions {
    /// Two users, both with the password `x`: `all`, who may do everything, and `some`, who may not publish to `subject`.
    #[must_use]
    pub fn with_user_who_may_not_publish(self, subject: &str) -> Self {
        let users = format!(
            r#"authorization {{ users: [
                {{ user: all, password: x }}
                {{ user: some, password: x, permissions {{ publish: {{ deny: "{subject}" }} }} }}
            ] }}"#
        );
        Self {
            extra: format!("{}\n{users}", self.extra),
            user: Some(("all".to_owned(), "x".to_owned())),
            ..self
        }
    }
}

/// A broker with JetStream on a free loopback port, with a store of its own. Ends when dropped.
pub type NatsServer = Server<Broker>;

/// A server that is a broker.
#[derive(Debug)]
pub struct Broker {
    options: NatsOptions,
    monitor: Option<Port>,
}

impl NatsServer {
    /// A broker with the default options, ready for clients.
    ///
    /// # Panics
    /// When there is none to start; the message says what to do.
    pub async fn start() -> Self {
        Self::start_with(NatsOptions::default())
            .await
            .unwrap_or_else(|e| panic!("{e}"))
    }

    /// A broker with these options, ready for clients.
    ///
    /// # Errors
    /// When no nats-server is found, or it does not become ready.
    pub async fn start_with(options: NatsOptions) -> Result<Self, ServerError> {
        // A file may open the monitoring port by itself, at an address that others use.
        let monitor = (options.monitor || options.config.is_some())
            .then(Port::lease)
            .transpose()?;
        let mut server = Self::new("nats", Broker { options, monitor })?;
        server.run().await?;
        Ok(server)
    }

    /// `nats://host:port`, without user.
    pub fn url(&self) -> String {
        format!("nats://{}", self.addr())
    }

    /// A page of the monitoring port, such as `/jsz`.
    ///
    /// # Panics
    /// When [`NatsOptions::monitor`] asked for no such port, or it does not answer.
    pub async fn monitoring(&self, page: &str) -> String {
        let port = self.kind.monitor.as_ref().expect("the options ask for the port");
        let url = format!("http://{}{page}", port.addr());
        let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
        let get = async {
            let answer = client.get(url.parse()?).await?;
            let body = answer.into_body().collect().await?.to_bytes();
            Ok::<_, Box<dyn Error>>(String::from_utf8(body.into())?)
        };
        get.await.unwrap_or_else(|e| panic!("getting {url}: {e}"))
    }

    /// Where the broker keeps its streams.
    pub fn store_dir(&self) -> PathBuf {
        self.kind.store(self.process.dir())
    }
}

impl Kind for Broker {
    const STOP: Signal = Signal::SIGTERM;

    /// Flags override the file, so that a production file runs unchanged but for its addresses and its store.
    fn command(&self, dir: &Path, addr: SocketAddr) -> Result<Command, ServerError> {
        let mut command = Command::new(self.options.binary.clone().map_or_else(find::nats_server, Ok)?);
        command.arg("--config").arg(match &self.options.config {
            Some(file) => file.clone(),
            None => self.write_config(dir)?,
        });
        command.args([
            "--addr",
            &addr.ip().to_string(),
            "--port",
            &addr.port().to_string(),
        ]);
        command.arg("--store_dir").arg(self.store(dir));
        if let Some(monitor) = &self.monitor {
            command.args(["--http_port", &monitor.number().to_string()]);
        }
        Ok(command)
    }

    async fn probe(&self, addr: SocketAddr) -> Result<(), String> {
        let mut options = async_nats::ConnectOptions::new().connection_timeout(Duration::from_secs(2));
        if let Some((user, password)) = &self.options.user {
            options = options.user_and_password(user.clone(), password.clone());
        }
        let client = options.connect(addr.to_string()).await;
        client.map(drop).map_err(|e| e.to_string())
    }
}

impl Broker {
    fn write_config(&self, dir: &Path) -> Result<PathBuf, ServerError> {
        let sync = if self.options.sync_always {
            "sync_interval: always"
        } else {
            ""
        };
        // A stream reserves its largest size. By default a broker gives its streams three quarters of what is free on the
        // disk, and whether a test passes would depend on that.
        let text = format!(
            "max_payload: {}\njetstream {{ {sync}\n max_file_store: 1TB }}\n{}\n",
            self.options.max_payload, self.options.extra
        );
        let path = dir.join("nats.conf");
        fs::write(&path, text).map_err(ServerError::io(format!("writing {}", path.display())))?;
        Ok(path)
    }

    fn store(&self, dir: &Path) -> PathBuf {
        self.options.store.clone().unwrap_or_else(|| dir.join("store"))
    }
}
