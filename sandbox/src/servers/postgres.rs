//! A private database server.

use std::{
    fs,
    net::SocketAddr,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

use nix::{
    sys::signal::Signal,
    unistd::{Gid, Uid, User},
};
use tokio::sync::OnceCell;

use super::{
    Database, ServerError, database, find,
    port::Port,
    process::{self, Process},
};

/// The superuser of every private server; trusted on loopback, so there is no password.
pub(super) const USER: &str = "postgres";

/// How a private database server is set up.
#[derive(Debug, Clone, Default)]
pub struct PostgresOptions {
    /// Whether commits are synced to disk. Off by default: a killed server keeps what the page cache has, and tests are
    /// several times faster.
    pub durable: bool,
    /// More settings, as lines of `postgresql.conf`.
    pub extra: String,
}

/// A Postgres server on a free loopback port, with data of its own. Ends when dropped.
#[derive(Debug)]
pub struct Postgres {
    process: Process,
    port: Port,
    bin: PathBuf,
    owner: Option<(Uid, Gid)>,
    template: OnceCell<()>,
}

static SHARED: OnceCell<Postgres> = OnceCell::const_new();

impl Postgres {
    /// The server that all tests of this process share; started by the first that asks, gone when the process ends.
    ///
    /// # Panics
    /// When there is none to start; the message says what to do.
    pub async fn shared() -> &'static Self {
        SHARED.get_or_init(Self::start).await
    }

    /// A server that nothing else uses, for tests that stop it.
    ///
    /// # Panics
    /// When there is none to start; the message says what to do.
    pub async fn start() -> Self {
        Self::start_with(PostgresOptions::default())
            .await
            .unwrap_or_else(|e| panic!("{e}"))
    }

    /// A server with these options, ready for clients.
    pub async fn start_with(options: PostgresOptions) -> Result<Self, ServerError> {
        let bin = find::postgres_bin()?;
        let owner = owner()?;
        let mut server = Self {
            process: Process::new("postgres")?,
            port: Port::lease()?,
            bin,
            owner,
            template: OnceCell::new(),
        };
        server.init(&options)?;
        server.run().await?;
        Ok(server)
    }

    /// `host:port`, the same for the life of this value.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// The URL of the maintenance database `postgres`, for tokio-postgres and psql.
    pub fn url(&self) -> String {
        database::url(self.addr(), "postgres")
    }

    /// A new database with the schema in it, dropped when the value is.
    ///
    /// # Panics
    /// When the server does not make one.
    pub async fn fresh_database(&self) -> Database {
        self.create_database().await.unwrap_or_else(|e| panic!("{e}"))
    }

    /// As [`fresh_database`](Self::fresh_database), with the refusal as a value.
    pub async fn create_database(&self) -> Result<Database, ServerError> {
        self.template
            .get_or_try_init(|| database::create_template(self.addr()))
            .await?;
        Database::create(self.addr()).await
    }

    /// What the server printed, of all its runs.
    pub fn log(&self) -> PathBuf {
        self.process.log()
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The pid of the first process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// Kills it and its sessions as a crash would (SIGKILL); returns when it is gone. The data stays.
    pub fn kill(&mut self) {
        // Frozen first, so that no session is born between the look and the kill.
        if let Some(pid) = self.pid() {
            process::freeze(pid);
            self.each_session(|session| drop(process::send(session, Signal::SIGKILL)));
        }
        self.process.reap();
    }

    /// Stops it in order, ending open sessions (a fast shutdown); returns when it is gone. The data stays.
    pub async fn stop(&mut self) {
        self.process.signal(Signal::SIGINT);
        self.process.wait_stopped().await;
    }

    /// Starts it again on the same port and data, killing it first when it runs; returns when it is ready.
    ///
    /// # Panics
    /// When it does not come back.
    pub async fn restart(&mut self) {
        self.kill();
        self.run().await.unwrap_or_else(|e| panic!("{e}"));
    }

    /// Freezes it with its sessions: connections stay open and nothing answers, until [`resume`](Self::resume).
    pub fn pause(&self) {
        self.process.freeze();
        self.each_session(process::freeze);
    }

    /// Lets a frozen server go on.
    pub fn resume(&self) {
        self.each_session(|session| drop(process::send(session, Signal::SIGCONT)));
        self.process.signal(Signal::SIGCONT);
    }

    /// For the pid of each process that the first one has started. One that has ended meanwhile is passed over.
    fn each_session(&self, act: impl Fn(u32)) {
        let Some(pid) = self.pid() else { return };
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .for_each(act);
    }

    fn data(&self) -> PathBuf {
        self.process.dir().join("data")
    }

    fn init(&self, options: &PostgresOptions) -> Result<(), ServerError> {
        let dir = self.process.dir();
        if let Some((uid, gid)) = self.owner {
            chown(dir, Some(uid.as_raw()), Some(gid.as_raw()))
                .map_err(ServerError::io(format!("chown {}", dir.display())))?;
        }
        let program = self.bin.join("initdb");
        let output = self
            .command(&program)
            .args([
                "--username",
                USER,
                "--auth",
                "trust",
                "--encoding",
                "UTF8",
                "--no-locale",
                "--no-sync",
                "--pgdata",
            ])
            .arg(self.data())
            .output()
            .map_err(ServerError::io(format!("starting {}", program.display())))?;
        if !output.status.success() {
            let output = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(ServerError::Failed { program, output });
        }
        self.configure(options)
    }

    fn configure(&self, options: &PostgresOptions) -> Result<(), ServerError> {
        let mut text = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = ''\nmax_connections = 200\n\
             log_line_prefix = '%m [%p] %d '\n",
            self.port.number()
        );
        if !options.durable {
            text.push_str("fsync = off\nfull_page_writes = off\nwal_level = minimal\nmax_wal_senders = 0\n");
        }
        text.push_str(&options.extra);
        let path = self.data().join("postgresql.auto.conf");
        fs::write(&path, text).map_err(ServerError::io(format!("writing {}", path.display())))
    }

    async fn run(&mut self) -> Result<(), ServerError> {
        let mut command = self.command(&self.bin.join("postgres"));
        command.arg("-D").arg(self.data());
        self.process.spawn(command)?;
        let url = self.url();
        self.process
            .wait_ready(async || probe(&url).await.map_err(|e| format!("connecting to {url}: {e}")))
            .await
    }

    /// A command as the owner of the data, in a directory that the owner may be in.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.process.dir());
        if let Some((uid, gid)) = self.owner {
            command.uid(uid.as_raw()).gid(gid.as_raw());
        }
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn probe(url: &str) -> Result<(), tokio_postgres::Error> {
    database::with_client(url, async |client| {
        client.simple_query("select 1").await.map(drop)
    })
    .await
}

/// The user to run as: Postgres refuses root, so for root it is another user of this machine.
fn owner() -> Result<Option<(Uid, Gid)>, ServerError> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    ["postgres", "nobody"]
        .into_iter()
        .find_map(|name| User::from_name(name).ok().flatten())
        .map(|user| Some((user.uid, user.gid)))
        .ok_or(ServerError::NoUser)
}
