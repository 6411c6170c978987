//! The settings of `parked`.

use std::ffi::OsString;

use clap::{Args, Subcommand};
use database::DatabaseArgs;
use schemas::delivery::TaskId;
use service::ConfigFaults;

use super::reach::{Reach, ReachArgs, Rows};

#[derive(Debug, Subcommand)]
pub(super) enum ParkedAction {
    /// List what is parked, oldest first.
    List(ListArgs),
    /// Print one parked event with its body.
    Show(ShowArgs),
    /// Read parked events again, and make rows of those that this build can read. Exit code 1 when some stay parked.
    Retry(Box<RetryArgs>),
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only those parked for this reason.
    #[arg(long, value_name = "REASON")]
    reason: Option<String>,
    /// Only those of this task.
    #[arg(long, value_name = "TASK_ID")]
    task: Option<TaskId>,
    /// Most that are listed; 0 lists all.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
    /// One JSON object a line for programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The event, by its sequence on the stream.
    #[arg(value_name = "SEQ")]
    seq: u64,
    /// One JSON object a line for programs.
    #[arg(long, conflicts_with = "raw")]
    json: bool,
    /// The body alone, byte for byte.
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Debug, Args)]
pub(super) struct RetryArgs {
    /// The events, by their sequences on the stream; all that are parked without any.
    #[arg(value_name = "SEQ")]
    seqs: Vec<u64>,
    /// Only those parked for this reason.
    #[arg(long, value_name = "REASON")]
    reason: Option<String>,
    /// One JSON object a line for programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: ReachArgs,
}

/// Which parked events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Which {
    /// Those with these sequences, on whichever stream; all of them when there are none here.
    pub seqs: Vec<u64>,
    /// Those with this reason.
    pub reason: Option<String>,
    /// Those of this task.
    pub task: Option<TaskId>,
}

/// What `parked` needs to know.
#[derive(Debug)]
pub enum ParkedConfig {
    /// List.
    List {
        /// Which.
        which: Which,
        /// Most of them; all when `None`.
        limit: Option<u32>,
        /// For programs.
        json: bool,
        /// Where they are.
        rows: Rows,
    },
    /// Print with the body.
    Show {
        /// Which.
        seq: u64,
        /// How.
        form: Form,
        /// Where it is.
        rows: Rows,
    },
    /// Try again.
    Retry {
        /// Which.
        which: Which,
        /// For programs.
        json: bool,
        /// Where stream and rows are.
        reach: Box<Reach>,
    },
}

/// How an event is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// The body alone.
    Raw,
}

impl ParkedAction {
    pub(super) fn check(
        self,
        environment: &dyn Fn(&str) -> Option<OsString>,
        faults: &mut ConfigFaults,
    ) -> Option<ParkedConfig> {
        Some(match self {
            Self::List(args) => ParkedConfig::List {
                which: Which {
                    seqs: Vec::new(),
                    reason: args.reason,
                    task: args.task,
                },
                limit: Some(args.limit).filter(|limit| *limit > 0),
                json: args.json,
                rows: Rows::check(&args.database, environment, faults)?,
            },
            Self::Show(args) => ParkedConfig::Show {
                seq: args.seq,
                form: match (args.json, args.raw) {
                    (true, _) => Form::Json,
                    (false, true) => Form::Raw,
                    (false, false) => Form::Text,
                },
                rows: Rows::check(&args.database, environment, faults)?,
            },
            Self::Retry(args) => ParkedConfig::Retry {
                which: Which {
                    seqs: args.seqs,
                    reason: args.reason,
                    task: None,
                },
                json: args.json,
                reach: Box::new(args.reach.check(environment, faults)?),
            },
        })
    }
}
