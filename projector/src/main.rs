//! The binary `projector`.

use std::process::ExitCode;

use projector::config::{Command, Config};
use projector::{migration, run};
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
                service::run("projector", &log, async |stop| run::run(*config, stop).await)
            }
            Command::Migrate(target) => {
                service::run("projector migrate", &log, async |_| migration::run(*target).await)
            }
            Command::Healthcheck(args) => healthcheck(&args),
        },
    }
}
