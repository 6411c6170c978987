//! Flags and environment, checked whole before anything starts.

mod commands;
mod pace;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use database::{DatabaseArgs, Limits, LoadArgs};
use schemas::event::Source;
use service::admin::AdminArgs;
use service::healthcheck::HealthcheckArgs;
use service::{ConfigFaults, LogArgs};
use stream::AppendSettings;
use stream::append::Mode;
use stream::declare::parse_size;

pub use commands::{RecordArgs, RecordConfig, ReportArgs, ReportConfig};
pub use pace::Pace;

use crate::provider::{Target, TargetArgs};
use commands::{AdminPort, HealthArgs};

/// Find the results that no webhook brought: ask the provider for submitted tasks, and append what it answers to the stream.
#[derive(Debug, Parser)]
#[command(name = "reconciler", version)]
struct Cli {
    #[command(subcommand)]
    command: CommandArgs,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, Subcommand)]
enum CommandArgs {
    /// Reconcile until told to stop. Any number of these share the work.
    Run(Box<RunArgs>),
    /// Reconcile until nothing is due. Exit code 0 when nothing is outstanding and the provider's queue is empty, else 1.
    Once(Box<WorkArgs>),
    /// Say what is outstanding, overdue, given up or unknown.
    Report(Box<ReportArgs>),
    /// Record submitted tasks. Recording them again changes nothing.
    Record(Box<RecordArgs>),
    /// Ask the process beside this one how it is: exit code 0 when all is right.
    Healthcheck(HealthArgs),
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    work: WorkArgs,
    #[command(flatten)]
    admin: AdminPort,
    /// Longest time from a signal to stop until the end; what the provider has answered already is appended first.
    #[arg(long, env = "STOP_GRACE", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "15s", help_heading = "Pace")]
    stop_grace: Duration,
}

#[derive(Debug, Args)]
struct WorkArgs {
    #[command(flatten)]
    provider: TargetArgs,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    nats: stream::connect::Settings,
    #[command(flatten)]
    stream: stream::StreamSpec,
    #[command(flatten)]
    append: AppendArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    load: LoadArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Append")]
struct AppendArgs {
    /// Largest body; by default what the stream takes less 64 KiB for headers. Refuses to start when the stream takes less than this.
    #[arg(long, env = "BODY_LIMIT", value_name = "SIZE", value_parser = parse_size::<usize>)]
    body_limit: Option<usize>,
    /// Longest time for one append, whatever happens to the broker.
    #[arg(long, env = "PUBLISH_TIMEOUT", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "5s")]
    publish_timeout: Duration,
    /// What the events name as their source (CloudEvents `source`), a URI reference; the same as that of ingress.
    #[arg(long, env = "EVENT_SOURCE", value_name = "URI", default_value = Source::DEFAULT, value_parser = Source::new)]
    event_source: Source,
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
    /// Reconcile until told to stop.
    Run(Box<RunConfig>),
    /// Reconcile until nothing is due.
    Once(Box<WorkConfig>),
    /// Say how things are.
    Report(Box<ReportConfig>),
    /// Record submissions.
    Record(Box<RecordConfig>),
    /// Ask the admin port.
    Healthcheck(HealthcheckArgs),
}

/// Everything that `run` needs to know.
#[derive(Debug)]
pub struct RunConfig {
    /// The work itself.
    pub work: WorkConfig,
    /// The admin port.
    pub admin: AdminArgs,
    /// How long a stop may take.
    pub stop_grace: Duration,
}

/// Everything that reconciling needs to know.
#[derive(Debug)]
pub struct WorkConfig {
    /// The provider.
    pub provider: Target,
    /// When is asked, and how much.
    pub pace: Pace,
    /// The broker.
    pub nats: stream::connect::Settings,
    /// The stream on it.
    pub stream: stream::StreamSpec,
    /// How to append.
    pub append: AppendSettings,
    /// What the events name as their source.
    pub source: Source,
    /// Largest body in bytes; what the stream takes when `None`.
    pub body_limit: Option<usize>,
    /// The database.
    pub database: database::Target,
    /// Time limits of transactions.
    pub limits: Limits,
    /// Most connections to it.
    pub pool_size: usize,
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
                CommandArgs::Once(args) => Command::Once(Box::new(args.check(environment, faults)?)),
                CommandArgs::Report(args) => Command::Report(Box::new(args.check(environment, faults)?)),
                CommandArgs::Record(args) => Command::Record(Box::new(args.check(environment, faults)?)),
                CommandArgs::Healthcheck(args) => Command::Healthcheck(args.into()),
            };
            Some(Self {
                log: cli.log,
                command,
            })
        })
    }
}

impl RunArgs {
    fn check(
        self,
        environment: &dyn Fn(&str) -> Option<OsString>,
        faults: &mut ConfigFaults,
    ) -> Option<RunConfig> {
        faults.require(!self.stop_grace.is_zero(), "--stop-grace must not be zero");
        Some(RunConfig {
            work: self.work.check(environment, faults)?,
            admin: self.admin.into(),
            stop_grace: self.stop_grace,
        })
    }
}

impl WorkArgs {
    fn check(
        self,
        environment: &dyn Fn(&str) -> Option<OsString>,
        faults: &mut ConfigFaults,
    ) -> Option<WorkConfig> {
        let limits = self.load.limits(&self.database);
        let call = self.provider.request_timeout + self.append.publish_timeout + limits.transaction();
        self.pace.check(call, faults);
        faults.require(
            !self.append.publish_timeout.is_zero(),
            "--publish-timeout must not be zero",
        );
        faults.require(self.append.body_limit != Some(0), "--body-limit must not be zero");
        let database = self.database.check(environment, faults);
        let provider = self.provider.check(environment, faults);
        self.nats
            .faults()
            .into_iter()
            .for_each(|fault| faults.push(fault));
        Some(WorkConfig {
            provider: provider?,
            pace: self.pace,
            nats: self.nats,
            stream: self.stream,
            append: AppendSettings {
                // A few at a time, and each once.
                mode: Mode::Plain,
                publish_timeout: self.append.publish_timeout,
                recent_ids: 0,
                ..AppendSettings::default()
            },
            source: self.append.event_source,
            body_limit: self.append.body_limit,
            database: database?,
            limits,
            pool_size: self.load.database_pool_size,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn no_two_settings_of_a_command_share_a_name() {
        Cli::command().debug_assert();
    }
}
