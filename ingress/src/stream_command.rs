//! `ingress stream check` and `ingress stream update`.

use std::process::ExitCode;

use service::Stop;
use stream::connect::{ConnectError, connect};
use stream::declare::{DeclareError, check, update};

use crate::config::{StreamAction, StreamArgs};

/// Compares the stream with what it should be, or changes it, and prints what differs, or what differed until it was changed, one a line.
///
/// The exit code of `check` is 1 when something differs.
pub fn stream_command(action: &StreamAction) -> ExitCode {
    let (StreamAction::Check(args) | StreamAction::Update(args)) = action;
    let mut code = ExitCode::SUCCESS;
    let ran = service::run("ingress stream", &args.log, async |stop: Stop| {
        match stop.unless_requested(run(action, args)).await {
            Some(Ok(done)) => {
                code = done;
                Ok(())
            }
            Some(Err(error)) => Err(error),
            None => Ok(()),
        }
    });
    if ran == ExitCode::SUCCESS { code } else { ran }
}

#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error("connecting to the broker")]
    Connect(#[source] ConnectError),
    #[error("looking at the stream")]
    Stream(#[source] DeclareError),
}

async fn run(action: &StreamAction, args: &StreamArgs) -> Result<ExitCode, CommandError> {
    let connection = connect(&args.nats, "ingress stream")
        .await
        .map_err(CommandError::Connect)?;
    let name = &args.stream.name;
    let (differences, code) = match action {
        StreamAction::Check(_) => {
            let found = check(&connection, &args.stream)
                .await
                .map_err(CommandError::Stream)?;
            let code = if found.is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            };
            (found, code)
        }
        StreamAction::Update(_) => {
            let changed = update(&connection, &args.stream)
                .await
                .map_err(CommandError::Stream)?;
            if !changed.is_empty() {
                println!("{name}: changed what differed");
            }
            (changed, ExitCode::SUCCESS)
        }
    };
    for difference in &differences {
        println!("{difference}");
    }
    if differences.is_empty() {
        println!("{name}: nothing differs");
    }
    Ok(code)
}
