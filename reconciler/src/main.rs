//! The binary `reconciler`.

use std::process::ExitCode;

use reconciler::config::{Command, Config};
use reconciler::{once, record, report, run};
use service::healthcheck::healthcheck;

#[expect(
    clippy::disallowed_methods,
    reason = "the environment enters here, and is passed in from here on"
)]
fn main() -> ExitCode {
    match Config::parse(std::env::args_os(), &|name| std::env::var_os(name)) {
        Err(code) => code,
        Ok(Config { log, command }) => match command {
            Command::Run(config) => {
                service::run("reconciler", &log, async |stop| run::run(*config, stop).await)
            }
            Command::Once(config) => service::run("reconciler once", &log, async |stop| {
                once::run(*config, stop).await
            }),
            Command::Report(config) => service::run("reconciler report", &log, async |stop| {
                report::run(*config, stop).await
            }),
            Command::Record(config) => service::run("reconciler record", &log, async |stop| {
                record::run(*config, stop).await
            }),
            Command::Healthcheck(args) => healthcheck(&args),
        },
    }
}
