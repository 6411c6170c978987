//! The whole pipeline on this machine: private servers, and the real binaries as processes of their own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;

use super::DemoError;
use crate::api::Api;
use crate::program::{self, Program};
use crate::provider::task::Task;
use crate::sender::Account;
use crate::servers::{NatsServer, Postgres, PostgresOptions};

/// The path on which ingress takes deliveries.
pub(super) const HOOK: &str = "/hooks/answers";

/// How often the processes are looked at.
const LOOK: Duration = Duration::from_millis(100);

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

impl Stack {
    /// Starts the servers, puts the schema into the database, and starts the programs; returns when all are ready.
    pub(super) async fn start(plan: &Plan) -> Result<Self, DemoError> {
        let ingress = program::find(&plan.binaries, "ingress")?;
        let projector = program::find(&plan.binaries, "projector")?;
        // Both servers sync before they say yes, as in production.
        let nats = NatsServer::start_with(crate::servers::NatsOptions::default()).await?;
        let durable = PostgresOptions {
            durable: true,
            ..PostgresOptions::default()
        };
        let postgres = Postgres::start_with(durable).await?;
        let database = super::evidence::create_database(&postgres.url()).await?;
        let places = Places {
            hooks: Vec::new(),
            nats: nats.url(),
            database,
        };
        migrate(&places.projector(&projector)?).await?;
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

    /// Records every task of `account` as submitted, the way an application does, and starts what recovers them.
    pub(super) async fn start_reconciler(
        &mut self,
        plan: &Plan,
        api: &Api,
        account: &Account,
    ) -> Result<(), DemoError> {
        let binary = program::find(&plan.binaries, "reconciler")?;
        let mut reconciler = Program::new("reconciler", binary)?;
        reconciler.arguments(&["run"]);
        reconciler.set("NATS_URL", &self.places.nats);
        reconciler.set("DATABASE_URL", &self.places.database);
        reconciler.set("PROVIDER_URL", api.url());
        reconciler.set("PROVIDER_API_KEY", api.key());
        // What may take seconds and minutes in production.
        reconciler.set("SWEEP_INTERVAL", "200ms");
        reconciler.set("CHECK_INTERVAL", "1s");
        let output = reconciler
            .output_with(&["record", "--stdin"], &submissions(account))
            .await?;
        succeeded("reconciler record", &output)?;
        self.run(reconciler).await
    }

    /// Where everything is.
    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    /// Waits until something that should run has ended by itself, and says what and why.
    pub(super) async fn first_death(&mut self) -> DemoError {
        loop {
            for program in &mut self.programs {
                if let Some(status) = program.ended() {
                    return died(program, status);
                }
            }
            for server in [self.nats.process(), self.postgres.process()] {
                if let Some(status) = server.ended() {
                    return DemoError::Ended {
                        name: server.name(),
                        status,
                        log: server.log_tail(),
                    };
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Asks every program to stop, waits, and gives an error if one of them did not end well.
    pub(super) async fn stop(&mut self) -> Result<(), DemoError> {
        for program in &self.programs {
            program.signal(Signal::SIGTERM);
        }
        for program in &mut self.programs {
            let status = loop {
                match program.ended() {
                    Some(status) => break status,
                    None => tokio::time::sleep(LOOK).await,
                }
            };
            if !status.success() {
                return Err(died(program, status));
            }
        }
        self.programs.clear();
        Ok(())
    }

    async fn start_ingress(&mut self, binary: &Path, secrets: &[String]) -> Result<(), DemoError> {
        let mut ingress = Program::new("ingress", binary.to_owned())?;
        ingress.set("NATS_URL", &self.places.nats);
        ingress.set("WEBHOOK_SECRETS", secrets.join(","));
        ingress.set("HOOK_PATH", HOOK);
        self.places.hooks.push(ingress.lease("LISTEN")?);
        self.run(ingress).await
    }

    async fn start_projector(&mut self, binary: &Path) -> Result<(), DemoError> {
        let projector = self.places.projector(binary)?;
        self.run(projector).await
    }

    async fn run(&mut self, mut program: Program) -> Result<(), DemoError> {
        program.start()?;
        program.wait_ready().await?;
        self.programs.push(program);
        Ok(())
    }
}

impl Places {
    /// A projector that does not run yet.
    fn projector(&self, binary: &Path) -> Result<Program, DemoError> {
        let mut projector = Program::new("projector", binary.to_owned())?;
        projector.arguments(&["run"]);
        projector.set("NATS_URL", &self.nats);
        projector.set("DATABASE_URL", &self.database);
        Ok(projector)
    }
}

fn died(program: &Program, status: ExitStatus) -> DemoError {
    DemoError::Ended {
        name: program.name(),
        status,
        log: program.log_tail(),
    }
}

/// Puts the schema into the database that the projector is set up for.
async fn migrate(projector: &Program) -> Result<(), DemoError> {
    let output = projector.output(&["migrate"]).await?;
    succeeded("projector migrate", &output)
}

fn succeeded(command: &'static str, output: &Output) -> Result<(), DemoError> {
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout.as_slice(), &output.stderr].concat();
    Err(DemoError::Command {
        command,
        status: output.status,
        said: String::from_utf8_lossy(&said).trim().to_owned(),
    })
}

/// A line of JSON for each task.
fn submissions(account: &Account) -> String {
    let line = |task: &Task| {
        let submission = json!({ "task_id": task.id, "idempotency_key": task.request.idempotency_key });
        format!("{submission}\n")
    };
    account.with(|provider| provider.tasks().iter().map(line).collect())
}
