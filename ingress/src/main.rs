//! Receives signed webhook deliveries and appends them to the stream.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::SystemTime;

use ingress::Command;

fn main() -> ExitCode {
    match ingress::command(std::env::args_os(), &variable) {
        Ok(Command::Serve(config)) => {
            let log = config.log.clone();
            service::run("ingress", &log, async |stop| {
                ingress::serve(*config, unix_now, stop).await
            })
        }
        Ok(Command::Stream(action)) => ingress::stream_command(&action),
        Ok(Command::Healthcheck(args)) => service::healthcheck::healthcheck(&args),
        Err(code) => code,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where this program looks at the clock"
)]
fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // A clock before 1970 finds every signature too new, which is the truth as it sees it.
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where this program reads the environment for itself"
)]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
