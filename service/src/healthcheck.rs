//! The command `healthcheck` of every program, for container images, which hold no shell and no curl.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::admin::AdminArgs;

/// Asked of a port on the same machine; more than this means that it hangs.
const PATIENCE: Duration = Duration::from_secs(3);

/// What to ask, and where.
#[derive(Debug, Clone, Args)]
pub struct HealthcheckArgs {
    /// Ask whether the process lives (`/livez`) rather than whether it is ready (`/readyz`)
    #[arg(long)]
    pub live: bool,
    /// Where the process's admin port is.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// Asks the admin port of the process beside this one; exit code 0 when all is right, else 1 with the answer on
/// standard error.
pub fn healthcheck(args: &HealthcheckArgs) -> ExitCode {
    let path = if args.live { "/livez" } else { "/readyz" };
    match get(reachable(args.admin.admin_listen), path) {
        Ok(answer) if answer.starts_with("HTTP/1.1 200 ") => ExitCode::SUCCESS,
        Ok(answer) => {
            let body = answer
                .split_once("\r\n\r\n")
                .map_or(answer.as_str(), |(_, body)| body);
            eprint!("{body}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("no answer from {}: {error}", args.admin.admin_listen);
            ExitCode::FAILURE
        }
    }
}

/// A process that listens on all addresses is asked on the loopback one.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

fn get(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    Ok(answer)
}
