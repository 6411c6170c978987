//! The settings of `explain`.

use std::ffi::OsString;

use clap::{ArgGroup, Args};
use schemas::delivery::TaskId;
use service::ConfigFaults;

use super::reach::{Reach, ReachArgs};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["task_id", "job"]).required(true))]
pub(super) struct ExplainArgs {
    /// The task, by its id.
    #[arg(value_name = "TASK_ID")]
    task_id: Option<TaskId>,
    /// The job, by its key: what answers it, and why.
    #[arg(long, value_name = "KEY")]
    job: Option<String>,
    /// One JSON object for programs.
    #[arg(long)]
    json: bool,
    /// Print responses as well.
    #[arg(long)]
    response: bool,
    /// Ask the database alone. The events on the stream are not looked for then, which takes a while on a long stream.
    #[arg(long)]
    tables_only: bool,
    #[command(flatten)]
    reach: ReachArgs,
}

/// What to explain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// This task.
    Task(TaskId),
    /// This job, or that of this idempotency key.
    Job(String),
}

/// What `explain` needs to know.
#[derive(Debug)]
pub struct ExplainConfig {
    /// What to explain.
    pub question: Question,
    /// For programs.
    pub json: bool,
    /// With responses.
    pub response: bool,
    /// Without the stream.
    pub tables_only: bool,
    /// Where to look.
    pub reach: Reach,
}

impl ExplainArgs {
    pub(super) fn check(
        self,
        environment: &dyn Fn(&str) -> Option<OsString>,
        faults: &mut ConfigFaults,
    ) -> Option<ExplainConfig> {
        let question = match (self.task_id, self.job) {
            (Some(id), _) => Question::Task(id),
            (None, Some(key)) if !key.is_empty() => Question::Job(key),
            (None, _) => {
                faults.push("--job must name a job");
                return None;
            }
        };
        Some(ExplainConfig {
            question,
            json: self.json,
            response: self.response,
            tables_only: self.tables_only,
            reach: self.reach.check(environment, faults)?,
        })
    }
}
