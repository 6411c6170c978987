//! Where stream and rows are, for the commands that look at single tasks and events.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use database::{DatabaseArgs, Limits, Target};
use service::ConfigFaults;
use stream::declare::StreamPlace;

/// How long a statement of such a command may take: some go through a whole table.
const STATEMENT: Duration = Duration::from_secs(60);

/// Where stream and rows are.
#[derive(Debug, Args)]
pub(super) struct ReachArgs {
    #[command(flatten)]
    nats: stream::connect::Settings,
    #[command(flatten)]
    stream: StreamPlace,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// Where stream and rows are.
#[derive(Debug, Clone)]
pub struct Reach {
    /// The broker.
    pub nats: stream::connect::Settings,
    /// The stream on it.
    pub stream: StreamPlace,
    /// The database.
    pub rows: Rows,
}

impl ReachArgs {
    pub(super) fn check(
        self,
        environment: &dyn Fn(&str) -> Option<OsString>,
        faults: &mut ConfigFaults,
    ) -> Option<Reach> {
        self.nats
            .faults()
            .into_iter()
            .for_each(|fault| faults.push(fault));
        Some(Reach {
            nats: self.nats,
            stream: self.stream,
            rows: Rows::check(&self.database, environment, faults)?,
        })
    }
}

/// Which database, for a command that needs nothing else.
#[derive(Debug, Clone)]
pub struct Rows {
    /// The database.
    pub database: Target,
    /// Time limits of transactions.
    pub limits: Limits,
}

impl Rows {
    pub(super) fn check(
        args: &DatabaseArgs,
        environment: &dyn Fn(&str) -> Option<OsString>,
        faults: &mut ConfigFaults,
    ) -> Option<Self> {
        let limits = Limits {
            statement: STATEMENT,
            connect: args.database_connect_timeout,
        };
        let database = args.check(environment, faults)?;
        Some(Self { database, limits })
    }
}
