//! The settings of the smaller commands.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use database::{DatabaseArgs, Limits, LoadArgs};
use service::ConfigFaults;
use service::admin::AdminArgs;
use service::healthcheck::HealthcheckArgs;

use crate::provider::{Target, TargetArgs};
use crate::record::Submission;

/// Where the admin port listens: beside those of the other programs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Admin port")]
pub struct AdminPort {
    /// Address of the admin port (/livez, /readyz, /metrics); keep it from strangers
    #[arg(
        long,
        env = "ADMIN_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9466"
    )]
    admin_listen: SocketAddr,
}

impl From<AdminPort> for AdminArgs {
    fn from(port: AdminPort) -> Self {
        Self {
            admin_listen: port.admin_listen,
        }
    }
}

/// What to ask, and where.
#[derive(Debug, Clone, Args)]
pub struct HealthArgs {
    /// Ask whether the process lives (`/livez`) rather than whether it is ready (`/readyz`)
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    admin: AdminPort,
}

impl From<HealthArgs> for HealthcheckArgs {
    fn from(args: HealthArgs) -> Self {
        Self {
            live: args.live,
            admin: args.admin.into(),
        }
    }
}

/// What `report` takes.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// One JSON object, for programs, rather than text, for people.
    #[arg(long)]
    json: bool,
    /// Most submissions named in each list.
    #[arg(long, value_name = "N", default_value_t = 20)]
    most: u32,
    #[command(flatten)]
    provider: TargetArgs,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    load: LoadArgs,
}

/// Everything that `report` needs to know.
#[derive(Debug)]
pub struct ReportConfig {
    /// As JSON.
    pub json: bool,
    /// Most submissions named in each list.
    pub most: u32,
    /// The provider.
    pub provider: Target,
    /// The database.
    pub database: database::Target,
    /// Time limits of transactions.
    pub limits: Limits,
}

impl ReportArgs {
    pub(super) fn check(
        self,
        environment: &dyn Fn(&str) -> Option<OsString>,
        faults: &mut ConfigFaults,
    ) -> Option<ReportConfig> {
        let limits = self.load.limits(&self.database);
        let provider = self.provider.check(environment, faults);
        let database = self.database.check(environment, faults);
        Some(ReportConfig {
            json: self.json,
            most: self.most,
            provider: provider?,
            database: database?,
            limits,
        })
    }
}

/// What `record` takes.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Submitted tasks: the id, or the id and the idempotency key with `=` between them.
    #[arg(value_name = "TASK_ID[=KEY]", value_parser = Submission::from_argument)]
    tasks: Vec<Submission>,
    /// A submission whose task id is not known: its idempotency key. May be said several times.
    #[arg(long = "key", value_name = "KEY", value_parser = Submission::from_key)]
    keys: Vec<Submission>,
    /// Read more from standard input, one JSON object a line: `task_id`, `idempotency_key` and `created_at`, of which the first or the
    /// second must be there.
    #[arg(long)]
    stdin: bool,
    /// How long after its creation a task is asked for first; until then its webhook has time.
    #[arg(long, env = "FIRST_CHECK_AFTER", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "1h")]
    first_check_after: Duration,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    load: LoadArgs,
}

/// Everything that `record` needs to know.
#[derive(Debug)]
pub struct RecordConfig {
    /// What the arguments name.
    pub submissions: Vec<Submission>,
    /// Whether standard input names more.
    pub stdin: bool,
    /// From the creation of a task to its first check.
    pub first_check_after: Duration,
    /// The database.
    pub database: database::Target,
    /// Time limits of transactions.
    pub limits: Limits,
}

impl RecordArgs {
    pub(super) fn check(
        self,
        environment: &dyn Fn(&str) -> Option<OsString>,
        faults: &mut ConfigFaults,
    ) -> Option<RecordConfig> {
        let limits = self.load.limits(&self.database);
        let submissions: Vec<_> = self.tasks.into_iter().chain(self.keys).collect();
        faults.require(
            self.stdin || !submissions.is_empty(),
            "nothing to record: name tasks, or say --key or --stdin",
        );
        Some(RecordConfig {
            submissions,
            stdin: self.stdin,
            first_check_after: self.first_check_after,
            database: self.database.check(environment, faults)?,
            limits,
        })
    }
}
