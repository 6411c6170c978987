//! The machine, and what runs on it: figures mean nothing without.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use sandbox::servers;
use serde::Serialize;

use crate::load::Latencies;
use crate::process::busy;
use crate::stack::Installed;

/// What the Flask receiver uses, to the version.
const REQUIREMENTS: &str = include_str!("../peers/flask/requirements.txt");
/// Syncs that are timed.
const SYNCS: usize = 200;
/// With this share of the processors' time, something else is going on.
const BUSY: f64 = 0.1;

/// What was measured on, and with which versions.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory, in MB.
    pub memory_megabytes: f64,
    /// Operating system and its version.
    pub kernel: String,
    /// Half of 200 writes of 4 KB were on the disk after this time, in milliseconds.
    pub sync_p50_milliseconds: f64,
    /// 99 of a hundred.
    pub sync_p99_milliseconds: f64,
    /// Which share of the processors' time was taken in the second before it began.
    pub busy_before: f64,
    /// The source, and whether it was changed since.
    pub commit: String,
    /// `rustc`, the servers, and Python with what the Flask receiver uses.
    pub versions: Vec<String>,
}

impl Machine {
    /// Looks at this one, for a good second.
    ///
    /// # Errors
    /// When it cannot be written to the directory of temporary files, or `/proc` not be read.
    pub async fn look(installed: &Installed) -> Result<Self> {
        let syncs = syncs().context("timing syncs")?;
        Ok(Self {
            processor: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_megabytes: megabytes(&field("/proc/meminfo", "MemTotal")),
            kernel: said("uname", &["-sr"]),
            sync_p50_milliseconds: syncs.percentile(50.0),
            sync_p99_milliseconds: syncs.percentile(99.0),
            busy_before: busy::share().await?,
            commit: said(
                "git",
                &[
                    "-C",
                    env!("CARGO_MANIFEST_DIR"),
                    "describe",
                    "--always",
                    "--dirty",
                ],
            ),
            versions: versions(installed)?,
        })
    }

    /// Whether something else was going on.
    pub fn is_busy(&self) -> bool {
        self.busy_before > BUSY
    }
}

fn versions(installed: &Installed) -> Result<Vec<String>> {
    let nats = servers::nats_server()?;
    let postgres = servers::postgres_bin()?.join("postgres");
    let mut versions = vec![
        said("rustc", &["--version"]),
        said(nats, &["--version"]),
        said(postgres, &["--version"]),
        said(installed.python.join("python"), &["--version"]),
    ];
    let packages = REQUIREMENTS.lines().filter(|line| !line.starts_with('#'));
    versions.extend(packages.map(ToOwned::to_owned));
    Ok(versions)
}

/// What a program prints; nothing when there is none.
fn said(program: impl AsRef<Path>, arguments: &[&str]) -> String {
    let output = Command::new(program.as_ref()).args(arguments).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// The first value of a field in a file of `/proc`.
fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let value = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name);
    value
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
}

/// From `24576 kB`.
fn megabytes(text: &str) -> f64 {
    let kib: Option<f64> = text
        .strip_suffix("kB")
        .and_then(|number| number.trim().parse().ok());
    kib.map_or(0.0, |kib| kib * 1_024.0 / 1e6)
}

/// How long it takes until a little is on the disk, where the servers keep their data.
fn syncs() -> std::io::Result<Latencies> {
    let path = std::env::temp_dir().join(format!("answerlog-bench-{}", std::process::id()));
    let mut file = File::create(&path)?;
    let mut latencies = Latencies::default();
    for _ in 0..SYNCS {
        let began = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        latencies.add(began.elapsed());
    }
    fs::remove_file(&path)?;
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_linux_writes_it() {
        assert_eq!(megabytes("1000 kB"), 1.024);
        assert_eq!(megabytes(""), 0.0);
    }
}
