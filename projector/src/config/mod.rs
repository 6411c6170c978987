//! Flags and environment, checked whole before anything starts.

mod erase;
mod explain;
mod parked;
mod reach;
mod rebuild;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use schemas::job_key::Rules;
use service::admin::AdminArgs;
use service::healthcheck::HealthcheckArgs;
use service::{ConfigFaults, LogArgs};

use database::{DatabaseArgs, Limits, LoadArgs, Target};

pub use erase::EraseConfig;
pub use explain::{ExplainConfig, Question};
pub use parked::{Form, ParkedConfig, Which};
pub use reach::{Reach, Rows};
pub use rebuild::RebuildConfig;

use erase::EraseArgs;
use explain::ExplainArgs;
use parked::ParkedAction;
use rebuild::{RebuildArgs, VerifyArgs};

/// Project the events of one stream into Postgres: one row a task, one winner a job.
#[derive(Debug, Parser)]
#[command(name = "projector", version)]
struct Cli {
    #[command(subcommand)]
    command: CommandArgs,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, Subcommand)]
enum CommandArgs {
    /// Project until told to stop. Any number of these share the work.
    Run(Box<RunArgs>),
    /// Bring the database schema to the version that this build needs.
    Migrate(MigrateArgs),
    /// Tell the story of a task, from its submission to its row, or of a job. Exit code 1 when nothing is known of it.
    Explain(Box<ExplainArgs>),
    /// Look at what could not become a row, and try again.
    Parked {
        #[command(subcommand)]
        action: Box<ParkedAction>,
    },
    /// Erase a task for good: its events on the stream, then its rows. Takes a user of the broker that may delete events.
    Erase(Box<EraseArgs>),
    /// Compare the tables with the stream. Exit code 0 when they are equal, 1 when not.
    Verify(Box<VerifyArgs>),
    /// Make the tables what the stream says, beside the projectors; fill them when they are empty.
    Rebuild(Box<RebuildArgs>),
    /// Ask the process beside this one how it is: exit code 0 when all is right.
    Healthcheck(HealthcheckArgs),
}

#[derive(Debug, Args)]
struct MigrateArgs {
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    nats: stream::connect::Settings,
    #[command(flatten)]
    stream: stream::StreamSpec,
    #[command(flatten)]
    consumer: stream::ConsumerSpec,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    projection: ProjectionArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Projection")]
struct ProjectionArgs {
    /// Most messages in one transaction.
    #[arg(long, env = "BATCH_MESSAGES", value_name = "N", default_value = "1000")]
    batch_messages: usize,
    /// Most bytes in one transaction; one message of the largest size that the broker takes always fits.
    #[arg(long, env = "BATCH_BYTES", value_name = "SIZE", value_parser = stream::declare::parse_size::<usize>, default_value = "8MiB")]
    batch_bytes: usize,
    /// Whether one rerun suffix `-r1`, `-r2`, … is taken off a key to get the job key.
    #[arg(long, env = "RERUN_SUFFIX", value_name = "BOOL", action = clap::ArgAction::Set, default_value = "true")]
    rerun_suffix: bool,
    /// How often progress is noted in the database: what a restored database has projected again at most.
    #[arg(long, env = "FLOOR_INTERVAL", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "2s")]
    floor_interval: Duration,
    /// Longest time from a signal to stop until the end; the batch in hand is finished first.
    #[arg(long, env = "STOP_GRACE", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "25s")]
    stop_grace: Duration,
}

/// What the process was asked to do.
#[derive(Debug)]
pub struct Config {
    /// How it logs.
    pub log: LogArgs,
    /// What it does.
    pub command: Command,
}

/// The commands, with their configuration.
#[derive(Debug)]
pub enum Command {
    /// Project.
    Run(Box<RunConfig>),
    /// Migrate this database.
    Migrate(Box<Target>),
    /// Explain a task or a job.
    Explain(Box<ExplainConfig>),
    /// Look at what is parked.
    Parked(Box<ParkedConfig>),
    /// Erase a task.
    Erase(Box<EraseConfig>),
    /// Compare the tables with the stream.
    Verify(Box<RebuildConfig>),
    /// Make the tables what the stream says.
    Rebuild(Box<RebuildConfig>),
    /// Ask the admin port.
    Healthcheck(HealthcheckArgs),
}

/// Everything that `run` needs to know.
#[derive(Debug, Clone)]
pub struct RunConfig {
    /// The broker.
    pub nats: stream::connect::Settings,
    /// The stream on it.
    pub stream: stream::StreamSpec,
    /// The durable consumer that all projectors of one database share.
    pub consumer: stream::ConsumerSpec,
    /// The database.
    pub database: Target,
    /// Most connections to it.
    pub pool_size: usize,
    /// Time limits of transactions.
    pub limits: Limits,
    /// Most messages in a transaction.
    pub batch_messages: usize,
    /// Most bytes in a transaction.
    pub batch_bytes: usize,
    /// Rules of the job key.
    pub rules: Rules,
    /// How often the floor is written.
    pub floor_interval: Duration,
    /// How long a stop may take.
    pub stop_grace: Duration,
    /// The admin port.
    pub admin: AdminArgs,
}

impl Config {
    /// Reads command line and environment.
    ///
    /// # Errors
    /// The exit code to end with: 64 with every fault on standard error, or 0 after `--help`.
    pub fn parse(
        arguments: impl IntoIterator<Item = OsString>,
        environment: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, ExitCode> {
        service::cli::parse::<Cli, _>(arguments, |cli, faults| {
            let command = match cli.command {
                CommandArgs::Run(args) => Command::Run(Box::new(args.check(environment, faults)?)),
                CommandArgs::Migrate(args) => {
                    Command::Migrate(Box::new(args.database.check(environment, faults)?))
                }
                CommandArgs::Explain(args) => Command::Explain(Box::new(args.check(environment, faults)?)),
                CommandArgs::Parked { action } => {
                    Command::Parked(Box::new(action.check(environment, faults)?))
                }
                CommandArgs::Erase(args) => Command::Erase(Box::new(args.check(environment, faults)?)),
                CommandArgs::Verify(args) => Command::Verify(Box::new(args.check(environment, faults)?)),
                CommandArgs::Rebuild(args) => Command::Rebuild(Box::new(args.check(environment, faults)?)),
                CommandArgs::Healthcheck(args) => Command::Healthcheck(args),
            };
            Some(Self {
                log: cli.log,
                command,
            })
        })
    }
}

/// Beyond these a batch gains nothing and only takes memory, here and in the database.
const MOST_BATCH_MESSAGES: usize = 10_000;
const MOST_BATCH_MIB: usize = 64;
const LEAST_BATCH_KIB: usize = 64;

impl RunArgs {
    fn check(
        self,
        environment: &dyn Fn(&str) -> Option<OsString>,
        faults: &mut ConfigFaults,
    ) -> Option<RunConfig> {
        let own = self.projection;
        let limits = self.load.limits(&self.database);
        faults.require(
            self.load.database_pool_size >= 2,
            "--database-pool-size must be at least 2: one for the batches, one for the floor",
        );
        own.check(&limits, &self.consumer, faults);
        let database = self.database.check(environment, faults);
        self.nats
            .faults()
            .into_iter()
            .for_each(|fault| faults.push(fault));
        Some(RunConfig {
            nats: self.nats,
            stream: self.stream,
            consumer: self.consumer,
            database: database?,
            pool_size: self.load.database_pool_size,
            limits,
            batch_messages: own.batch_messages,
            batch_bytes: own.batch_bytes,
            rules: Rules {
                rerun_suffix: own.rerun_suffix,
            },
            floor_interval: own.floor_interval,
            stop_grace: own.stop_grace,
            admin: self.admin,
        })
    }
}

impl ProjectionArgs {
    fn check(&self, limits: &Limits, consumer: &stream::ConsumerSpec, faults: &mut ConfigFaults) {
        faults.require(
            (1..=MOST_BATCH_MESSAGES).contains(&self.batch_messages),
            format!("--batch-messages must be from 1 to {MOST_BATCH_MESSAGES}"),
        );
        faults.require(
            (LEAST_BATCH_KIB << 10..=MOST_BATCH_MIB << 20).contains(&self.batch_bytes),
            format!("--batch-bytes must be from {LEAST_BATCH_KIB}KiB to {MOST_BATCH_MIB}MiB"),
        );
        // Each process has several batches in hand: fetched, waiting, being committed, being acknowledged.
        faults.require(
            usize::try_from(consumer.max_ack_pending).unwrap_or(0) >= self.batch_messages.saturating_mul(4),
            "--max-ack-pending must be at least four times --batch-messages, so that two projectors can work",
        );
        faults.require(
            consumer.ack_wait > limits.transaction(),
            format!(
                "--ack-wait must be more than a transaction may take ({}, from --statement-timeout)",
                humantime::format_duration(limits.transaction())
            ),
        );
        faults.require(
            self.floor_interval >= Duration::from_millis(10),
            "--floor-interval must be at least 10ms",
        );
        faults.require(!self.stop_grace.is_zero(), "--stop-grace must not be zero");
    }
}
