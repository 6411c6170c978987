//! The settings of ingress: flags and environment variables, checked as a whole before anything starts.

mod flags;
mod secrets;
mod signing;
mod tls;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use schemas::event::Source;
use schemas::signature::{Scheme, Verifier};
use service::{ConfigFaults, LogArgs, admin::AdminArgs, healthcheck::HealthcheckArgs};
use stream::append::AppendSettings;
use stream::connect::Settings;
use stream::declare::StreamSpec;

use crate::admit::FREE_BYTES;
use flags::{Flags, ServeFlags, Subcommand};
pub use flags::{StreamAction, StreamArgs};

/// The provider gives up on an attempt after 15 s, so nothing that it waits for may take longer.
const SENDER_PATIENCE: Duration = Duration::from_secs(15);

/// What the program was asked to do.
#[derive(Debug)]
pub enum Command {
    /// Receive deliveries.
    Serve(Box<Config>),
    /// Look at the stream's configuration, or change it.
    Stream(StreamAction),
    /// Ask a running process how it is.
    Healthcheck(HealthcheckArgs),
}

/// Everything that receiving needs, checked.
#[derive(Debug)]
pub struct Config {
    /// How to log.
    pub log: LogArgs,
    /// Where the admin port listens.
    pub admin: AdminArgs,
    /// Where deliveries arrive.
    pub listen: SocketAddr,
    /// The certificate to serve with; plain HTTP without.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// The hook's path, without its final slash.
    pub path: String,
    /// How deliveries are signed.
    pub scheme: Scheme,
    /// Scheme, keys and tolerance of the signatures.
    pub verifier: Verifier,
    /// How many secrets are in use.
    pub keys: usize,
    /// What the events name as their source.
    pub source: Source,
    /// What one process takes on.
    pub limits: Limits,
    /// How to reach the broker.
    pub nats: Settings,
    /// What the stream should be.
    pub stream: StreamSpec,
    /// How to append.
    pub append: AppendSettings,
}

/// What one process takes on, and for how long.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Largest body in bytes; what the stream takes when `None`.
    pub body: Option<usize>,
    /// Requests that are worked on at the same time.
    pub in_flight: usize,
    /// Bytes of bodies held at the same time, not counting the first 64 KiB of each.
    pub body_budget: usize,
    /// Open connections; further ones wait to be accepted.
    pub connections: usize,
    /// From one answer, or the opening of the connection, until the next request's head is there.
    pub header_deadline: Duration,
    /// From the head of a request until its body is there.
    pub body_deadline: Duration,
    /// From the signal until the last connection is closed.
    pub stop_grace: Duration,
}

/// Reads the command line; `environment` gives the value of a variable.
///
/// # Errors
/// The exit code to end with, after every fault was printed.
pub fn command(
    arguments: impl IntoIterator<Item = OsString>,
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Command, ExitCode> {
    service::cli::parse(arguments, |flags: Flags, faults| match flags.command {
        None => serve(flags.serve, environment, faults).map(|config| Command::Serve(Box::new(config))),
        Some(Subcommand::Stream { action }) => {
            let (StreamAction::Check(args) | StreamAction::Update(args)) = &action;
            args.nats
                .faults()
                .into_iter()
                .for_each(|fault| faults.push(fault));
            Some(Command::Stream(action))
        }
        Some(Subcommand::Healthcheck(args)) => Some(Command::Healthcheck(args)),
    })
}

fn serve(
    flags: ServeFlags,
    environment: &dyn Fn(&str) -> Option<OsString>,
    faults: &mut ConfigFaults,
) -> Option<Config> {
    let keys = secrets::read(flags.signing.key_encoding, environment, faults);
    let key_count = keys.as_ref().map_or(0, Vec::len);
    let scheme = signing::scheme(&flags.signing, faults);
    let verifier = signing::verifier(&flags.signing, scheme.clone(), keys, faults);
    let tls = tls::server(flags.tls_cert.as_deref(), flags.tls_key.as_deref(), faults);
    let limits = limits(&flags, faults);
    flags
        .nats
        .faults()
        .into_iter()
        .for_each(|fault| faults.push(fault));
    Some(Config {
        log: flags.log,
        admin: flags.admin,
        listen: flags.listen,
        tls: tls?,
        path: flags.hook_path.0,
        scheme: scheme?,
        verifier: verifier?,
        keys: key_count,
        source: flags.event_source,
        limits,
        nats: flags.nats,
        stream: flags.stream,
        append: flags.append,
    })
}

fn limits(flags: &ServeFlags, faults: &mut ConfigFaults) -> Limits {
    let publish = flags.append.publish_timeout;
    faults.require(
        publish < flags.request_deadline,
        format_args!(
            "--request-deadline ({:?}) must be longer than --publish-timeout ({publish:?}): the body needs time too",
            flags.request_deadline
        ),
    );
    faults.require(
        flags.request_deadline < SENDER_PATIENCE,
        format_args!(
            "--request-deadline ({:?}) must be shorter than the {SENDER_PATIENCE:?} after which the sender gives up",
            flags.request_deadline
        ),
    );
    faults.require(
        flags.stop_grace <= SENDER_PATIENCE,
        format_args!(
            "--stop-grace ({:?}) must be at most {SENDER_PATIENCE:?}",
            flags.stop_grace
        ),
    );
    faults.require(
        !flags.header_deadline.is_zero(),
        "--header-deadline must not be zero",
    );
    if let Some(body) = flags.body_limit {
        faults.require(body > 0, "--body-limit must not be zero");
        faults.require(
            body.saturating_sub(FREE_BYTES) <= flags.body_budget,
            format_args!(
                "--body-budget ({} bytes) must hold one body of --body-limit ({body} bytes)",
                flags.body_budget
            ),
        );
    }
    Limits {
        body: flags.body_limit,
        in_flight: flags.max_in_flight,
        body_budget: flags.body_budget,
        connections: flags.max_connections,
        header_deadline: flags.header_deadline,
        body_deadline: flags.request_deadline.saturating_sub(publish),
        stop_grace: flags.stop_grace,
    }
}
