//! Where the servers' programs are. The same places, in the same order, as `scripts/servers`, which installs what is missing.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::ServerError;

/// Set by the build: the root of the workspace, below which `make servers` unpacks.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const DEBIAN: &str = "/usr/lib/postgresql";

/// The broker's program, 2.12 or later: `NATS_SERVER`, `PATH`, `target/servers`.
pub fn nats_server() -> Result<PathBuf, ServerError> {
    // One that is named by hand is taken as it is, an older one too: there are tests for those.
    if let Some(named) = variable("NATS_SERVER") {
        return Ok(named.into());
    }
    let unpacked = Path::new(WORKSPACE).join("target/servers/nats-server");
    first(
        "nats-server",
        "2.12",
        (2, 12),
        on_path("nats-server").into_iter().chain([unpacked]),
    )
}

/// The directory with `initdb` and `postgres`, 15 or later: `PG_BIN`, `PATH`, Debian's place (the newest there).
pub fn postgres_bin() -> Result<PathBuf, ServerError> {
    if let Some(named) = variable("PG_BIN") {
        return Ok(named.into());
    }
    let mut debian: Vec<PathBuf> = fs::read_dir(DEBIAN)
        .map(|dirs| {
            dirs.flatten()
                .map(|dir| dir.path().join("bin/postgres"))
                .collect()
        })
        .unwrap_or_default();
    debian.sort_by_key(|path| std::cmp::Reverse(version(path)));
    let postgres = first(
        "postgres",
        "15",
        (15, 0),
        on_path("postgres").into_iter().chain(debian),
    )?;
    // Through the links that lead to it: initdb lies beside the real one.
    let real = postgres
        .canonicalize()
        .map_err(ServerError::io(format!("reading {}", postgres.display())))?;
    Ok(real.parent().expect("a file lies in a directory").to_owned())
}

fn first(
    program: &'static str,
    minimum: &'static str,
    at_least: (u32, u32),
    places: impl Iterator<Item = PathBuf>,
) -> Result<PathBuf, ServerError> {
    let mut looked = Vec::new();
    for place in places {
        match version(&place) {
            Some(found) if found >= at_least => return Ok(place),
            Some((major, minor)) => looked.push(format!("{} is {major}.{minor}", place.display())),
            None => looked.push(format!("{} is not there", place.display())),
        }
    }
    Err(ServerError::NotFound {
        program,
        minimum,
        looked: looked.join(", "),
    })
}

fn on_path(program: &str) -> Vec<PathBuf> {
    let path = variable("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|dir| dir.join(program))
        .filter(|file| file.is_file())
        .collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "where the programs are is a matter of the machine, like PATH itself"
)]
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// What `--version` says: the first word that starts with a number, cut to major and minor.
fn version(program: &Path) -> Option<(u32, u32)> {
    let output = Command::new(program).arg("--version").output().ok()?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    text.split_whitespace().find_map(|word| {
        let mut numbers = word.trim_start_matches('v').split(|c: char| !c.is_ascii_digit());
        let major = numbers.next()?.parse().ok()?;
        Some((
            major,
            numbers.next().and_then(|minor| minor.parse().ok()).unwrap_or(0),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_the_programs_print() {
        assert_eq!(parse_version("nats-server: v2.15.1\n"), Some((2, 15)));
        assert_eq!(
            parse_version("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"),
            Some((15, 18))
        );
        assert_eq!(parse_version("postgres (PostgreSQL) 18beta1\n"), Some((18, 0)));
        assert_eq!(parse_version("no such thing"), None);
    }

    #[test]
    fn a_program_that_is_too_old_is_passed_over_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join("nats-server");
        fs::write(&old, "#!/bin/sh\necho nats-server: v2.9.10\n").unwrap();
        fs::set_permissions(&old, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let error = first("nats-server", "2.12", (2, 12), [old].into_iter())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("is 2.9") && error.contains("make servers"),
            "{error}"
        );
    }
}
