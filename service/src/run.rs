use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info};

use crate::{Chain, LogArgs, Stop, logging};

/// How long blocking work may hold up the end of the process after everything else has ended.
const BLOCKING_GRACE: Duration = Duration::from_secs(2);

/// Exit code of a [`command`] that could not do what it was asked to: 1 is an answer.
const EXIT_FAILED: u8 = 2;

/// Runs a program: sets up logging and the runtime, turns SIGTERM and SIGINT into a [`Stop`], and logs the error that
/// ended it, once, with its causes.
///
/// A second signal changes nothing: stopping has a bound of its own. The exit code is 0 when `body` returned `Ok`,
/// else 1. (64 is for a configuration that is wrong, see [`crate::cli`].)
pub fn run<E>(name: &'static str, log: &LogArgs, body: impl AsyncFnOnce(Stop) -> Result<(), E>) -> ExitCode
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    logging::start(log);
    match in_runtime(body) {
        Ok(()) => {
            info!("{name} stopped");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            error!(error = %Chain(failure.as_ref()), "{name} failed");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command that looks at something, or does one thing, and ends. As [`run`], but:
///
/// - the exit code of a body that returned `Ok` is its own; 2 means that it failed or was interrupted;
/// - where the log filter was left as it is, only warnings of others are logged, and what the program itself says: what
///   the command prints is for people;
/// - a signal drops the body where it waits.
pub fn command<E>(
    name: &'static str,
    log: &LogArgs,
    body: impl AsyncFnOnce() -> Result<ExitCode, E>,
) -> ExitCode
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    logging::start(&log.for_command(name));
    let interruptible = async |stop: Stop| stop.unless_requested(body()).await.transpose();
    match in_runtime(interruptible) {
        Ok(Some(code)) => code,
        Ok(None) => {
            error!("{name} was interrupted");
            ExitCode::from(EXIT_FAILED)
        }
        Err(failure) => {
            error!(error = %Chain(failure.as_ref()), "{name} failed");
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn in_runtime<T, E>(body: impl AsyncFnOnce(Stop) -> Result<T, E>) -> Result<T, Box<dyn Error + Send + Sync>>
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let stop = Stop::new();
        let signals = [SignalKind::terminate(), SignalKind::interrupt()];
        for kind in signals {
            tokio::spawn(stop_on(signal(kind)?, stop.clone()));
        }
        body(stop).await.map_err(Into::into)
    });
    runtime.shutdown_timeout(BLOCKING_GRACE);
    ended
}

async fn stop_on(mut signal: Signal, stop: Stop) {
    while signal.recv().await.is_some() {
        if stop.is_requested() {
            info!("already stopping");
        } else {
            info!("stopping on a signal");
            stop.request();
        }
    }
}
