//! Logs: lines of text on a terminal, one JSON object a line elsewhere; always on standard error.

use std::fmt;
use std::io::IsTerminal;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

/// What is logged unless somebody says otherwise.
const USUAL: &str = "info,async_nats=warn,postgres=warn,refinery_core=warn";

/// How a program logs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// Form of the log lines; `auto` is text on a terminal and JSON elsewhere
    #[arg(
        long,
        env = "LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "auto",
        global = true
    )]
    pub log_format: LogFormat,
    /// What is logged: a level, or a list of `target=level`
    #[arg(
        long = "log",
        env = "RUST_LOG",
        value_name = "FILTER",
        default_value = USUAL,
        global = true
    )]
    pub log_filter: Filter,
}

impl LogArgs {
    /// The same for a command of the program that `name` begins with: unless the filter was set, its own lines and warnings.
    pub(crate) fn for_command(&self, name: &str) -> Self {
        let mut args = self.clone();
        if args.log_filter.0 == USUAL {
            let program = name.split(' ').next().unwrap_or(name);
            args.log_filter = Filter(format!("warn,{program}=info"));
        }
        args
    }
}

/// Form of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A filter in the syntax of `tracing_subscriber::EnvFilter`, known to be well formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter(String);

impl FromStr for Filter {
    type Err = tracing_subscriber::filter::ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        EnvFilter::builder().parse(text)?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Begins to log, panics included. Only the first call in a process counts.
pub(crate) fn start(args: &LogArgs) {
    let filter = EnvFilter::builder().parse_lossy(&args.log_filter.0);
    let json = match args.log_format {
        LogFormat::Auto => !std::io::stderr().is_terminal(),
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = if json {
        lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .try_init()
    } else {
        lines.with_ansi(std::io::stderr().is_terminal()).try_init()
    };
    if started.is_ok() {
        std::panic::set_hook(Box::new(log_panic));
    }
}

/// A panic is a log line like any other, so that what reads the logs can read it.
fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let message = panic.payload_as_str().unwrap_or("panicked with no message");
    tracing::error!(place, "panic: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_says_less_unless_it_is_asked_for_more() {
        let args = |filter: &str| LogArgs {
            log_format: LogFormat::Auto,
            log_filter: filter.parse().unwrap(),
        };
        let filter = |args: LogArgs| args.for_command("projector explain").log_filter.0;
        assert_eq!(filter(args(USUAL)), "warn,projector=info");
        assert_eq!(filter(args("info")), "info");
    }
}
