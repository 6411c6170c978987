//! How events are appended: flags and environment variables.

use std::time::Duration;

use clap::{Args, ValueEnum};

/// How events are appended.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Append")]
pub struct AppendSettings {
    /// How events are published. Batches need a server of 2.15 or later and a stream with `allow_atomic`.
    #[arg(
        long = "append-mode",
        env = "APPEND_MODE",
        value_name = "MODE",
        default_value = "auto"
    )]
    pub mode: Mode,

    /// Longest time from the call to its answer, whatever happens to the broker.
    #[arg(long = "publish-timeout", env = "PUBLISH_TIMEOUT", value_name = "TIME", default_value = "5s", value_parser = crate::settings::time)]
    pub publish_timeout: Duration,

    /// How many acknowledged ids are remembered, so that a repeat is answered without the broker; about 120 bytes each.
    #[arg(
        long = "recent-ids",
        env = "RECENT_IDS",
        value_name = "N",
        default_value_t = 100_000
    )]
    pub recent_ids: usize,

    /// How long an acknowledged id is remembered.
    #[arg(long = "recent-ids-age", env = "RECENT_IDS_AGE", value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    pub recent_ids_age: Duration,
}

impl Default for AppendSettings {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            publish_timeout: Duration::from_secs(5),
            recent_ids: 100_000,
            recent_ids_age: Duration::from_secs(300),
        }
    }
}

/// How events are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Whichever of the two is measured to be faster under the present load.
    Auto,
    /// Each by itself.
    Plain,
    /// In atomic batches where the server has them; one that comes alone goes by itself.
    Batch,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        append: AppendSettings,
    }

    #[test]
    fn the_defaults_of_the_flags_are_the_default() {
        let parsed = <Program as clap::Parser>::parse_from(["program"]).append;
        assert_eq!(format!("{parsed:?}"), format!("{:?}", AppendSettings::default()));
    }
}
