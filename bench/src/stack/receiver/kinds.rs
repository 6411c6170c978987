//! The receivers there are, and how each is started.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use sandbox::program::Program;
use sandbox::provider::secrets::Secret;
use sandbox::servers::Postgres;
use tokio::time::{Instant, sleep};

use super::super::{Broker, Installed, database_processes, peer_url};
use super::{Account, PATIENCE, Receiver, Store};
use crate::figures::Metric;
use crate::load::{Connection, HOOK};

const PAUSE: Duration = Duration::from_millis(20);
/// Connections that the Rust inbox has to the database, unless it is tuned. More of them commit more together, up to a point.
pub const INBOX_CONNECTIONS: usize = 64;
/// Threads of each of the two Flask workers, unless it is tuned.
pub const FLASK_THREADS: usize = 16;

impl Receiver {
    /// A server that stores nothing.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn null(installed: &Installed) -> Result<Self> {
        let mut program = Program::new("null", installed.bench.clone())?;
        program.arguments(&["null"]);
        let addr = program.lease("LISTEN")?;
        Self::start(program, addr, Store::Nothing, Vec::new()).await
    }

    /// Ingress as it is shipped, on `broker`; with `mode`, held to one way of publishing.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn ingress(
        installed: &Installed,
        secret: &Secret,
        broker: Broker,
        mode: Option<&str>,
    ) -> Result<Self> {
        let mut program = Program::new("ingress", installed.ingress.clone())?;
        program.set("NATS_URL", broker.urls());
        program.set("STREAM_REPLICAS", broker.replicas());
        program.set("WEBHOOK_SECRETS", secret.text());
        program.set("HOOK_PATH", HOOK);
        if let Some(mode) = mode {
            program.set("APPEND_MODE", mode);
        }
        let parts = vec![(Metric::CpuBroker, broker.processes())];
        let addr = program.lease("LISTEN")?;
        let mut ingress = Self::start(program, addr, Store::Stream(broker), parts).await?;
        ingress.program.wait_ready().await?;
        Ok(ingress)
    }

    /// The Flask receiver, under gunicorn with two workers, each with so many threads and as many connections to the database.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn flask(
        installed: &Installed,
        secret: &Secret,
        postgres: &Postgres,
        threads: usize,
    ) -> Result<Self> {
        let mut program = Program::new("gunicorn", installed.python.join("gunicorn"))?;
        let addr = program.lease("LISTEN")?;
        program.set("POOL_SIZE", threads);
        let (bind, threads) = (addr.to_string(), threads.to_string());
        let directory = installed.flask();
        let directory = directory.to_str().context("the path of the peers is no text")?;
        let mut arguments = vec![
            "--workers",
            "2",
            "--worker-class",
            "gthread",
            "--threads",
            &threads,
        ];
        arguments.extend([
            "--keep-alive",
            "75",
            "--no-control-socket",
            "--bind",
            &bind,
            "--chdir",
            directory,
            "receiver:app",
        ]);
        program.arguments(&arguments);
        program.set("PYTHONDONTWRITEBYTECODE", 1);
        Self::with_inbox(program, addr, secret, postgres).await
    }

    /// The inbox in Rust, with so many connections to the database.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn inbox(
        installed: &Installed,
        secret: &Secret,
        postgres: &Postgres,
        connections: usize,
    ) -> Result<Self> {
        let mut program = Program::new("inbox", installed.inbox.clone())?;
        program.arguments(&["receive"]);
        program.set("POOL_SIZE", connections);
        let addr = program.lease("LISTEN")?;
        Self::with_inbox(program, addr, secret, postgres).await
    }

    async fn with_inbox(
        mut program: Program,
        addr: SocketAddr,
        secret: &Secret,
        postgres: &Postgres,
    ) -> Result<Self> {
        let database = postgres.create_database().await?;
        let url = peer_url(&database).await?;
        program.set("DATABASE_URL", &url);
        program.set("WEBHOOK_SECRET", secret.text());
        let parts = vec![(Metric::CpuDatabase, database_processes(postgres))];
        let store = Store::Inbox {
            url,
            _database: database,
        };
        Self::start(program, addr, store, parts).await
    }

    async fn start(
        mut program: Program,
        addr: SocketAddr,
        store: Store,
        parts: Vec<(Metric, Vec<u32>)>,
    ) -> Result<Self> {
        program.start()?;
        let mut receiver = Self {
            program,
            addr,
            parts,
            store,
            account: Account::default(),
        };
        receiver.answers().await?;
        Ok(receiver)
    }

    /// Waits until it answers.
    pub(super) async fn answers(&mut self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        let request = format!("POST {HOOK} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n");
        loop {
            let knock = async {
                Connection::open(self.addr)
                    .await?
                    .exchange(request.as_bytes())
                    .await
            };
            let error = match knock.await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if self.program.ended().is_some() || Instant::now() > end {
                let (name, log) = (self.program.name(), self.program.log_tail());
                return Err(error)
                    .with_context(|| format!("{name} does not answer; the end of its log:\n{log}"));
            }
            sleep(PAUSE).await;
        }
    }
}
