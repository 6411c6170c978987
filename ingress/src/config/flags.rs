//! The command line, as clap sees it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Parser;
use clap::builder::RangedU64ValueParser;
use schemas::event::Source;
use service::{LogArgs, admin::AdminArgs, healthcheck::HealthcheckArgs};
use stream::append::AppendSettings;
use stream::connect::Settings;
use stream::declare::{StreamSpec, parse_size};

use super::signing::SigningFlags;

/// Receives signed webhook deliveries and appends them to the stream.
///
/// The secrets come from WEBHOOK_SECRETS (one to eight, separated by commas) or from the file that WEBHOOK_SECRETS_FILE names (one
/// a line), never from a flag.
#[derive(Debug, Parser)]
#[command(name = "ingress", version, args_conflicts_with_subcommands = true)]
pub(super) struct Flags {
    #[command(subcommand)]
    pub(super) command: Option<Subcommand>,
    #[command(flatten)]
    pub(super) serve: ServeFlags,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum Subcommand {
    /// Compare the stream's configuration with what it should be, or change it.
    Stream {
        #[command(subcommand)]
        action: StreamAction,
    },
    /// Ask the process beside this one how it is: exit code 0 when all is right.
    Healthcheck(HealthcheckArgs),
}

/// What to do with the stream's configuration.
#[derive(Debug, clap::Subcommand)]
pub enum StreamAction {
    /// Say what differs from what it should be; exit code 1 when something does.
    Check(Box<StreamArgs>),
    /// Change what differs, where the broker allows it, and say what was changed.
    Update(Box<StreamArgs>),
}

/// Where the stream is, and what it should be.
#[derive(Debug, clap::Args)]
pub struct StreamArgs {
    /// How to reach the broker.
    #[command(flatten)]
    pub nats: Settings,
    /// What the stream should be.
    #[command(flatten)]
    pub stream: StreamSpec,
    /// How to log.
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Debug, clap::Args)]
pub(super) struct ServeFlags {
    #[command(flatten)]
    pub(super) signing: SigningFlags,

    /// Address of the public port.
    #[arg(
        long,
        env = "LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8080",
        help_heading = "Public port"
    )]
    pub(super) listen: SocketAddr,

    /// Path of the hook, served with and without a final slash; every other path is 404.
    #[arg(
        long,
        env = "HOOK_PATH",
        value_name = "PATH",
        default_value = "/hooks/answers",
        help_heading = "Public port"
    )]
    pub(super) hook_path: HookPath,

    /// Certificate chain to serve with, PEM; without it the port speaks plain HTTP, for a TLS proxy in front.
    #[arg(long, env = "TLS_CERT", value_name = "FILE", help_heading = "Public port")]
    pub(super) tls_cert: Option<PathBuf>,

    /// Private key of the certificate, PEM.
    #[arg(long, env = "TLS_KEY", value_name = "FILE", help_heading = "Public port")]
    pub(super) tls_key: Option<PathBuf>,

    /// Largest body; by default what the stream takes less 64 KiB for headers. Refuses to start when the stream takes less than this.
    #[arg(long, env = "BODY_LIMIT", value_name = "SIZE", value_parser = parse_size::<usize>, help_heading = "Limits")]
    pub(super) body_limit: Option<usize>,

    /// Bytes of bodies held at the same time, the first 64 KiB of each not counted; what is over gets 503.
    #[arg(long, env = "BODY_BUDGET", value_name = "SIZE", default_value = "256MiB", value_parser = parse_size::<usize>, help_heading = "Limits")]
    pub(super) body_budget: usize,

    /// Requests worked on at the same time; what is over gets 503.
    #[arg(long, env = "MAX_IN_FLIGHT", value_name = "N", default_value_t = 2048, value_parser = RangedU64ValueParser::<usize>::new().range(1..), help_heading = "Limits")]
    pub(super) max_in_flight: usize,

    /// Open connections; further ones wait to be accepted.
    #[arg(long, env = "MAX_CONNECTIONS", value_name = "N", default_value_t = 4096, value_parser = RangedU64ValueParser::<usize>::new().range(1..), help_heading = "Limits")]
    pub(super) max_connections: usize,

    /// Longest time until the head of a request is there; also how long a kept connection may be idle.
    #[arg(long, env = "HEADER_DEADLINE", value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration, help_heading = "Limits")]
    pub(super) header_deadline: Duration,

    /// Longest time from the head of a request to its answer. The body has what --publish-timeout leaves of it.
    #[arg(long, env = "REQUEST_DEADLINE", value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration, help_heading = "Limits")]
    pub(super) request_deadline: Duration,

    /// Longest time from a signal to stop until the last connection is closed; at most 15s.
    #[arg(long, env = "STOP_GRACE", value_name = "TIME", default_value = "12s", value_parser = humantime::parse_duration, help_heading = "Limits")]
    pub(super) stop_grace: Duration,

    /// What the events name as their source (CloudEvents `source`), a URI reference.
    #[arg(long, env = "EVENT_SOURCE", value_name = "URI", default_value = Source::DEFAULT, value_parser = Source::new, help_heading = "Stream")]
    pub(super) event_source: Source,

    #[command(flatten)]
    pub(super) nats: Settings,
    #[command(flatten)]
    pub(super) stream: StreamSpec,
    #[command(flatten)]
    pub(super) append: AppendSettings,
    #[command(flatten)]
    pub(super) admin: AdminArgs,
    #[command(flatten)]
    pub(super) log: LogArgs,
}

/// A path without its final slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HookPath(pub(super) String);

/// Why a text cannot be the path of a request.
#[derive(Debug, thiserror::Error)]
#[error("a path begins with / and has visible ASCII characters, none of them one of ? # \" < > ` {{ }}")]
pub(super) struct InvalidPath;

impl FromStr for HookPath {
    type Err = InvalidPath;

    fn from_str(text: &str) -> Result<Self, InvalidPath> {
        let plain = |c: u8| c.is_ascii_graphic() && !b"?#\"<>`{}".contains(&c);
        if !text.starts_with('/') || !text.bytes().all(plain) {
            return Err(InvalidPath);
        }
        Ok(Self(text.strip_suffix('/').unwrap_or(text).to_owned()))
    }
}

impl fmt::Display for HookPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
