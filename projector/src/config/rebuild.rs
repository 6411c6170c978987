//! The settings of `verify` and `rebuild`.

use std::ffi::OsString;

use clap::Args;
use schemas::job_key::Rules;
use service::ConfigFaults;
use stream::consume::consumer_name;

use super::reach::{Reach, ReachArgs};

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// Compare responses as well, which takes longer.
    #[arg(long)]
    deep: bool,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
pub(super) struct RebuildArgs {
    /// Take away rows that may come from events which the stream no longer holds. Without this they stay and are counted.
    #[arg(long)]
    prune: bool,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Debug, Args)]
struct CommonArgs {
    /// One JSON object for programs.
    #[arg(long)]
    json: bool,
    /// Go on when the stream is not the one that the rows came from. Rows that it cannot prove are kept all the same.
    #[arg(long)]
    force: bool,
    /// Name of the durable consumer of the projectors. What it has acknowledged must be in the tables.
    #[arg(long, env = "CONSUMER", value_name = "NAME", value_parser = consumer_name, default_value = "projector")]
    consumer: String,
    /// Whether one rerun suffix `-r1`, `-r2`, … is taken off a key to get the job key.
    #[arg(long, env = "RERUN_SUFFIX", value_name = "BOOL", action = clap::ArgAction::Set, default_value = "true")]
    rerun_suffix: bool,
    #[command(flatten)]
    reach: ReachArgs,
}

/// What `verify` and `rebuild` need to know.
#[derive(Debug, Clone)]
pub struct RebuildConfig {
    /// Where stream and rows are.
    pub reach: Reach,
    /// The durable consumer of the projectors.
    pub consumer: String,
    /// Rules of the job key.
    pub rules: Rules,
    /// Compare responses as well. A rebuild always does.
    pub deep: bool,
    /// Take away what nothing proves.
    pub prune: bool,
    /// Go on with another stream.
    pub force: bool,
    /// For programs.
    pub json: bool,
}

impl VerifyArgs {
    pub(super) fn check(
        self,
        environment: &dyn Fn(&str) -> Option<OsString>,
        faults: &mut ConfigFaults,
    ) -> Option<RebuildConfig> {
        Some(RebuildConfig {
            deep: self.deep,
            ..self.common.check(environment, faults)?
        })
    }
}

impl RebuildArgs {
    pub(super) fn check(
        self,
        environment: &dyn Fn(&str) -> Option<OsString>,
        faults: &mut ConfigFaults,
    ) -> Option<RebuildConfig> {
        Some(RebuildConfig {
            deep: true,
            prune: self.prune,
            ..self.common.check(environment, faults)?
        })
    }
}

impl CommonArgs {
    fn check(
        self,
        environment: &dyn Fn(&str) -> Option<OsString>,
        faults: &mut ConfigFaults,
    ) -> Option<RebuildConfig> {
        Some(RebuildConfig {
            reach: self.reach.check(environment, faults)?,
            consumer: self.consumer,
            rules: Rules {
                rerun_suffix: self.rerun_suffix,
            },
            deep: false,
            prune: false,
            force: self.force,
            json: self.json,
        })
    }
}
