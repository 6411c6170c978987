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
use tokio_postgres::Client;

use super::{
    Database, ServerError, database, find,
    server::{Kind, Server},
};

/// The superuser of every private server; trusted on loopback, so there is no password.
pub(super) const USER: &str = "postgres";

/// How a private database server is set up.
#[derive(Debug, Clone, Default)]
pub struct PostgresOptions {
    /// Whether commits are synced to disk. Off by default: a killed server keeps what the page cache has, and tests are
    /// several times faster.
    pub durable: bool,
    /// Whether [backups](super::Backup) can be made of it; it writes more for that.
    pub backups: bool,
    /// More settings, as lines of `postgresql.conf`.
    pub extra: String,
    /// Where the data are kept, a directory to be made; `None` is one of the server's own.
    pub data: Option<PathBuf>,
}

/// A Postgres server on a free loopback port, with data of its own. Ends when dropped.
pub type Postgres = Server<DatabaseServer>;

/// A server that is a database server.
#[derive(Debug)]
pub struct DatabaseServer {
    bin: PathBuf,
    owner: Option<(Uid, Gid)>,
    data: Option<PathBuf>,
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
    ///
    /// # Errors
    /// When no Postgres is found, or nobody to run it as, or it does not become ready.
    pub async fn start_with(options: PostgresOptions) -> Result<Self, ServerError> {
        let kind = DatabaseServer {
            bin: find::postgres_bin()?,
            owner: owner()?,
            data: options.data.clone(),
            template: OnceCell::new(),
        };
        let mut server = Self::new("postgres", kind)?;
        server.kind.init(server.process.dir())?;
        server.configure(&options)?;
        server.run().await?;
        Ok(server)
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

    /// A new database without tables, dropped when the value is.
    ///
    /// # Panics
    /// When the server does not make one.
    pub async fn empty_database(&self) -> Database {
        Database::create_empty(self.addr())
            .await
            .unwrap_or_else(|e| panic!("{e}"))
    }

    /// As [`fresh_database`](Self::fresh_database), with the refusal as a value.
    ///
    /// # Errors
    /// When the server does not make one.
    pub async fn create_database(&self) -> Result<Database, ServerError> {
        self.kind
            .template
            .get_or_try_init(|| database::create_template(self.addr()))
            .await?;
        Database::create(self.addr()).await
    }

    fn configure(&self, options: &PostgresOptions) -> Result<(), ServerError> {
        // Shared memory in the directory, so that it goes with it, also when the server is killed.
        let mut text = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = ''\nmax_connections = 200\n\
             log_line_prefix = '%m [%p] %d '\ndynamic_shared_memory_type = mmap\n",
            self.addr().port()
        );
        if !options.durable {
            text.push_str("fsync = off\nfull_page_writes = off\n");
        }
        if !options.durable && !options.backups {
            text.push_str("wal_level = minimal\nmax_wal_senders = 0\n");
        }
        text.push_str(&options.extra);
        let path = self.kind.data(self.process.dir()).join("postgresql.auto.conf");
        fs::write(&path, text).map_err(ServerError::io(format!("writing {}", path.display())))
    }
}

impl DatabaseServer {
    fn init(&self, dir: &Path) -> Result<(), ServerError> {
        if let Some((uid, gid)) = self.owner {
            chown(dir, Some(uid.as_raw()), Some(gid.as_raw()))
                .map_err(ServerError::io(format!("chown {}", dir.display())))?;
        }
        let mut initdb = self.tool("initdb", dir);
        let program = PathBuf::from(initdb.get_program());
        let output = initdb
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
            .arg(self.data(dir))
            .output()
            .map_err(ServerError::io(format!("starting {}", program.display())))?;
        if !output.status.success() {
            let output = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(ServerError::Failed { program, output });
        }
        Ok(())
    }

    /// Where the data are, of a server in the directory `dir`.
    pub(super) fn data(&self, dir: &Path) -> PathBuf {
        self.data.clone().unwrap_or_else(|| dir.join("data"))
    }

    /// One of the programs that come with the server.
    pub(super) fn tool(&self, name: &str, dir: &Path) -> Command {
        self.as_owner(&self.bin.join(name), dir)
    }

    /// A command as the owner of the data, in a directory that the owner may be in.
    pub(super) fn as_owner(&self, program: &Path, dir: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(dir);
        if let Some((uid, gid)) = self.owner {
            command.uid(uid.as_raw()).gid(gid.as_raw());
        }
        command
    }
}

impl Kind for DatabaseServer {
    const STOP: Signal = Signal::SIGINT;

    fn command(&self, dir: &Path, _: SocketAddr) -> Result<Command, ServerError> {
        let mut command = self.tool("postgres", dir);
        command.arg("-D").arg(self.data(dir));
        Ok(command)
    }

    async fn probe(&self, addr: SocketAddr) -> Result<(), String> {
        let select = async |client: &Client| client.simple_query("select 1").await.map(drop);
        let asked = database::with_client(&database::url(addr, "postgres"), select).await;
        asked.map_err(|e| e.to_string())
    }
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
