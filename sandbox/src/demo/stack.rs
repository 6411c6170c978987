//! The whole pipeline on this machine: private servers, and the real binaries as processes of their own.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::DemoError;
use crate::servers::port::Port;
use crate::servers::process::Process;
use crate::servers::{NatsServer, Postgres, PostgresOptions, ServerError};

/// The path on which ingress takes deliveries.
pub(super) const HOOK: &str = "/hooks/answers";

/// How often the processes are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long the migration may take.
const MIGRATION: Duration = Duration::from_secs(60);

/// What to start.
#[derive(Debug)]
pub(super) struct Plan {
    /// Where the binaries are.
    pub(super) binaries: PathBuf,
    /// Processes of ingress.
    pub(super) ingresses: usize,
    /// Processes of projector.
    pub(super) projectors: usize,
    /// The secrets that deliveries are verified with, newest first.
    pub(super) secrets: Vec<String>,
}

/// Where everything is.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// The public ports of the ingresses.
    pub(super) hooks: Vec<SocketAddr>,
    /// The broker.
    pub(super) nats: String,
    /// The database with the tables.
    pub(super) database: String,
}

/// Everything that runs; it ends, files and all, when this is dropped.
pub(super) struct Stack {
    // The programs first, so that they go before the servers they talk to.
    programs: Vec<Program>,
    nats: NatsServer,
    postgres: Postgres,
    places: Places,
}

struct Program {
    process: Process,
    /// Its ports stay ours as long as it lives.
    _ports: Vec<Port>,
}

impl Stack {
    /// Starts the servers, puts the schema into the database, and starts the programs; returns when all are ready.
    pub(super) async fn start(plan: &Plan) -> Result<Self, DemoError> {
        let ingress = binary(&plan.binaries, "ingress")?;
        let projector = binary(&plan.binaries, "projector")?;
        // Both servers sync before they say yes, as in production.
        let nats = NatsServer::start_with(crate::servers::NatsOptions::default()).await?;
        let durable = PostgresOptions {
            durable: true,
            ..PostgresOptions::default()
        };
        let postgres = Postgres::start_with(durable).await?;
        let database = super::evidence::create_database(&postgres.url()).await?;
        migrate(&projector, &database).await?;

        let places = Places {
            hooks: Vec::new(),
            nats: nats.url(),
            database,
        };
        let mut stack = Self {
            programs: Vec::new(),
            nats,
            postgres,
            places,
        };
        // One after the other: the first ingress creates the stream, the first projector its consumer.
        for _ in 0..plan.ingresses {
            stack.start_ingress(&ingress, &plan.secrets).await?;
        }
        for _ in 0..plan.projectors {
            stack.start_projector(&projector).await?;
        }
        Ok(stack)
    }

    /// Where everything is.
    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    /// Waits until something that should run has ended by itself, and says what and why.
    pub(super) async fn first_death(&mut self) -> DemoError {
        loop {
            let servers = [self.nats.process(), self.postgres.process()];
            for process in self
                .programs
                .iter_mut()
                .map(|program| &mut program.process)
                .chain(servers)
            {
                if let Some(status) = process.ended() {
                    return DemoError::Ended {
                        name: process.name(),
                        status,
                        log: process.log_tail(),
                    };
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Asks every program to stop, waits, and gives an error if one of them did not end well.
    pub(super) async fn stop(&mut self) -> Result<(), DemoError> {
        for program in &self.programs {
            program.process.signal(Signal::SIGTERM);
        }
        for program in &mut self.programs {
            let process = &mut program.process;
            let status = loop {
                match process.ended() {
                    Some(status) => break status,
                    None => tokio::time::sleep(LOOK).await,
                }
            };
            if !status.success() {
                return Err(DemoError::Ended {
                    name: process.name(),
                    status,
                    log: process.log_tail(),
                });
            }
        }
        self.programs.clear();
        Ok(())
    }

    async fn start_ingress(&mut self, binary: &Path, secrets: &[String]) -> Result<(), DemoError> {
        let (public, admin) = (Port::lease()?, Port::lease()?);
        let mut command = alone(binary);
        command
            .env("NATS_URL", &self.places.nats)
            .env("WEBHOOK_SECRETS", secrets.join(","))
            .env("HOOK_PATH", HOOK)
            .env("LISTEN", public.addr().to_string())
            .env("ADMIN_LISTEN", admin.addr().to_string());
        self.places.hooks.push(public.addr());
        self.run("ingress", command, admin, Some(public)).await
    }

    async fn start_projector(&mut self, binary: &Path) -> Result<(), DemoError> {
        let admin = Port::lease()?;
        let mut command = alone(binary);
        command
            .arg("run")
            .env("NATS_URL", &self.places.nats)
            .env("DATABASE_URL", &self.places.database)
            .env("ADMIN_LISTEN", admin.addr().to_string());
        self.run("projector", command, admin, None).await
    }

    async fn run(
        &mut self,
        name: &'static str,
        command: Command,
        admin: Port,
        public: Option<Port>,
    ) -> Result<(), DemoError> {
        let address = admin.addr();
        let mut process = Process::new(name)?;
        process.spawn(command)?;
        process
            .wait_ready(async || ready(address).await.map_err(|e| format!("asking {address}: {e}")))
            .await?;
        self.programs.push(Program {
            process,
            _ports: std::iter::once(admin).chain(public).collect(),
        });
        Ok(())
    }
}

/// A command that inherits nothing: a variable of the caller's must not change what the demo shows.
fn alone(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    command.env_clear();
    command
}

fn binary(directory: &Path, name: &'static str) -> Result<PathBuf, DemoError> {
    let path = directory.join(name);
    if path.is_file() {
        Ok(path)
    } else {
        Err(DemoError::NoBinary {
            name,
            directory: directory.to_owned(),
        })
    }
}

async fn migrate(projector: &Path, database: &str) -> Result<(), DemoError> {
    let mut command = alone(projector);
    command.arg("migrate").env("DATABASE_URL", database);
    let output = tokio::process::Command::from(command).kill_on_drop(true).output();
    let output = tokio::time::timeout(MIGRATION, output)
        .await
        .map_err(|_| DemoError::Migration(format!("not done within {MIGRATION:?}")))?
        .map_err(ServerError::io("starting projector migrate"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(DemoError::Migration(format!(
        "{}: {}",
        output.status,
        String::from_utf8_lossy(&said).trim()
    )))
}

/// Asks a program's admin port whether it is ready.
async fn ready(address: SocketAddr) -> Result<(), String> {
    let ask = async {
        let mut connection = TcpStream::connect(address).await?;
        let question = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        connection.write_all(question.as_bytes()).await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        io::Result::Ok(answer)
    };
    let answer = tokio::time::timeout(Duration::from_secs(2), ask)
        .await
        .map_err(|_| "no answer".to_owned())?;
    let answer = answer.map_err(|e| e.to_string())?;
    let status = answer.split_whitespace().nth(1);
    if status == Some("200") {
        Ok(())
    } else {
        Err(answer.lines().last().unwrap_or_default().to_owned())
    }
}
