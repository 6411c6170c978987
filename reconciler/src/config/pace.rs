//! When is asked, how often, and when something is given up.

use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use humantime::format_duration;
use service::ConfigFaults;
use stream::consume::consumer_name;

use crate::schedule::Schedule;

/// When is asked, how often, and when something is given up. Times count by the clock of the database.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Pace")]
pub struct Pace {
    /// Time between two looks at what is due.
    #[arg(long, env = "SWEEP_INTERVAL", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "10s")]
    pub sweep_interval: Duration,
    /// Most tasks asked for before the next look.
    #[arg(long, env = "SWEEP_LIMIT", value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=5000), default_value_t = 500)]
    pub sweep_limit: usize,
    /// Most calls to the provider at a time. Each can hold one body of --body-limit in memory.
    #[arg(long, env = "MAX_IN_FLIGHT", value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=256), default_value_t = 8)]
    pub max_in_flight: usize,
    /// How long a task that one process asks for is left alone by the others; one that dies holds it up for so long.
    #[arg(long, env = "LEASE", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "5m")]
    pub lease: Duration,
    /// Time from the first check of a task to the second; it doubles from check to check.
    #[arg(long, env = "CHECK_INTERVAL", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "1m")]
    pub check_interval: Duration,
    /// Longest time between two checks of a task.
    #[arg(long, env = "MAX_CHECK_INTERVAL", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "30m")]
    pub max_check_interval: Duration,
    /// Age at which a task without a result is overdue: past all that the provider takes by itself.
    #[arg(long, env = "OVERDUE_AFTER", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "5h")]
    pub overdue_after: Duration,
    /// Age at which an overdue task is reported as critical, once.
    #[arg(long, env = "CRITICAL_AFTER", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "12h")]
    pub critical_after: Duration,
    /// Age at which a task is given up: how long the provider keeps results. Also how far an answer may be from a
    /// submission without an id to be the answer to it.
    #[arg(long, env = "LOST_AFTER", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "24h")]
    pub lost_after: Duration,
    /// How often in a row the provider must say that it does not know a task before that is believed.
    #[arg(long, env = "GONE_CHECKS", value_name = "N", value_parser = clap::value_parser!(i32).range(1..), default_value_t = 3)]
    pub gone_checks: i32,
    /// Time over which it must have said so.
    #[arg(long, env = "GONE_AFTER", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "30m")]
    pub gone_after: Duration,
    /// Time between two attempts while the key is not accepted, or the provider seems to know none of our tasks.
    #[arg(long, env = "DENIED_PROBE_INTERVAL", value_name = "TIME", value_parser = humantime::parse_duration, default_value = "5m")]
    pub denied_probe_interval: Duration,
    /// Most messages that the projection may be behind; beyond, nothing is asked for, because it may be there already.
    #[arg(long, env = "MAX_LAG", value_name = "N", default_value_t = 10_000)]
    pub max_lag: u64,
    /// Name of the durable consumer of the projectors.
    #[arg(long, env = "CONSUMER", value_name = "NAME", value_parser = consumer_name, default_value = "projector")]
    pub consumer: String,
}

impl Pace {
    /// The times between the checks of one task.
    pub fn schedule(&self) -> Schedule {
        Schedule {
            first: self.check_interval,
            longest: self.max_check_interval,
        }
    }

    /// `call` is the longest that one task takes: the call, the append and the note of it.
    pub(super) fn check(&self, call: Duration, faults: &mut ConfigFaults) {
        for (name, time) in [
            ("--sweep-interval", self.sweep_interval),
            ("--check-interval", self.check_interval),
            ("--denied-probe-interval", self.denied_probe_interval),
        ] {
            faults.require(!time.is_zero(), format_args!("{name} must not be zero"));
        }
        faults.require(
            self.lease > call,
            format_args!(
                "--lease must be more than one task may take ({}, from --request-timeout, --publish-timeout and --statement-timeout)",
                format_duration(call)
            ),
        );
        faults.require(
            self.check_interval <= self.max_check_interval,
            "--check-interval must not be more than --max-check-interval",
        );
        faults.require(
            self.overdue_after < self.lost_after,
            "--overdue-after must be less than --lost-after",
        );
    }
}
