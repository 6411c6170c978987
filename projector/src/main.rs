//! The binary `projector`.

use std::process::ExitCode;

use projector::config::{Command, Config};
use projector::{erase, explain, migration, parked, rebuild, run};
use service::healthcheck::healthcheck;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
            Command::Explain(config) => {
                service::command("projector explain", &log, async || explain::run(*config).await)
            }
            Command::Parked(config) => {
                service::command("projector parked", &log, async || parked::run(*config).await)
            }
            Command::Erase(config) => {
                service::command("projector erase", &log, async || erase::run(*config).await)
            }
            Command::Verify(config) => {
                service::command("projector verify", &log, async || rebuild::verify(*config).await)
            }
            Command::Rebuild(config) => service::command("projector rebuild", &log, async || {
                rebuild::rebuild(*config).await
            }),
            Command::Healthcheck(args) => healthcheck(&args),
        },
    }
}
