//! The program `bench`: see the library.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use bench::config::{Cli, Job};
use bench::load::null;
use clap::Parser;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sandbox::clock::Clock;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.job {
        Some(Job::Null { listen }) => null::serve(listen).await,
        None => measure(&cli).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(cli: &Cli) -> Result<()> {
    // A thousand connections are more than the soft limit of many systems.
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("asking how many files may be open")?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("opening more files than usual")?;
    bench::run(&cli.args, Clock::system()).await
}
