//! The settings of `erase`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use schemas::delivery::TaskId;
use service::ConfigFaults;

use super::reach::{Reach, ReachArgs};

#[derive(Debug, Args)]
pub(super) struct EraseArgs {
    /// The task, by its id.
    #[arg(value_name = "TASK_ID")]
    task_id: TaskId,
    /// Say what would be erased, and erase nothing.
    #[arg(long)]
    dry_run: bool,
    /// Erase as well the parked events that no task can be read from and whose body holds the id.
    #[arg(long)]
    mentions: bool,
    /// One JSON object for programs.
    #[arg(long)]
    json: bool,
    /// Name of the durable consumer of the projectors, which may have an event in hand.
    #[arg(long, env = "CONSUMER", value_name = "NAME", default_value = "projector")]
    consumer: String,
    /// How long to wait for projectors that may have an event of the task in hand.
    #[arg(long, env = "ERASE_WAIT", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "2m")]
    wait: Duration,
    /// No projector runs, so none has an event in hand: do not wait.
    #[arg(long)]
    projectors_stopped: bool,
    #[command(flatten)]
    reach: ReachArgs,
}

/// What `erase` needs to know.
#[derive(Debug)]
pub struct EraseConfig {
    /// Which task.
    pub task_id: TaskId,
    /// Erase nothing.
    pub dry_run: bool,
    /// Erase also what only mentions it.
    pub mentions: bool,
    /// For programs.
    pub json: bool,
    /// The consumer of the projectors.
    pub consumer: String,
    /// How long to wait for them.
    pub wait: Duration,
    /// There are none.
    pub projectors_stopped: bool,
    /// Where stream and rows are.
    pub reach: Reach,
}

impl EraseArgs {
    pub(super) fn check(
        self,
        environment: &dyn Fn(&str) -> Option<OsString>,
        faults: &mut ConfigFaults,
    ) -> Option<EraseConfig> {
        Some(EraseConfig {
            task_id: self.task_id,
            dry_run: self.dry_run,
            mentions: self.mentions,
            json: self.json,
            consumer: self.consumer,
            wait: self.wait,
            projectors_stopped: self.projectors_stopped,
            reach: self.reach.check(environment, faults)?,
        })
    }
}
