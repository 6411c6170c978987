//! The program `sandbox`: see the library.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sandbox::clock::Clock;
use sandbox::demo::{self, DemoArgs};
use sandbox::serve::{self, ServeArgs};
use service::Chain;
use service::cli::EXIT_USAGE;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The provider on your machine, and private servers for it to meet.
#[derive(Debug, Parser)]
#[command(name = "sandbox", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(DemoArgs),
    Serve(ServeArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing is left to be done when the terminal is gone.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(EXIT_USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match run(cli.command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sandbox: {}", Chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<bool, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = stop_on_signals()?;
        match command {
            Command::Demo(args) => Ok(demo::run(&args, own_directory()?, &Clock::system(), &stop).await?),
            Command::Serve(args) => {
                serve::run(&args, &Clock::system(), &stop).await?;
                Ok(true)
            }
        }
    })
}

/// Cancelled by Ctrl-C and by SIGTERM, so that everything that was started is taken down in order.
fn stop_on_signals() -> io::Result<CancellationToken> {
    let stop = CancellationToken::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let (mut signals, stop) = (signal(kind)?, stop.clone());
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                stop.cancel();
            }
        });
    }
    Ok(stop)
}

/// Where this program lies, and the others beside it.
fn own_directory() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(program.parent().map(PathBuf::from).unwrap_or_default())
}
