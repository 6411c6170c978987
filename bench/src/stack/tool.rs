//! Programs that run to their end.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use sandbox::program::Program;
use serde::Deserialize;

use crate::process::{cpu, memory};

/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// After this a program is stuck.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// How a program ended that ended well.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// How long it took, from its start to its end.
    pub took: Duration,
    /// The most memory that it was seen to hold, in MB.
    pub memory: f64,
    /// Its CPU time.
    pub cpu: Duration,
}

/// Starts a program and waits for its end. Nothing else that this process started may end meanwhile: CPU time is counted together.
///
/// # Errors
/// When it ends badly, with the end of its log.
pub async fn to_end(program: &mut Program) -> Result<Ended> {
    let (before, began) = (cpu::ended()?, Instant::now());
    program.start()?;
    let pid = program
        .pid()
        .context("a program that was started has a process")?;
    let mut peak = 0.0;
    loop {
        // A process that has just ended has no memory any more.
        peak = memory::peak(&[pid]).unwrap_or(peak).max(peak);
        if let Some(status) = program.wait_ended(LOOK).await {
            let (name, log) = (program.name(), program.log_tail());
            ensure!(
                status.success(),
                "{name} ended with {status}; the end of its log:\n{log}"
            );
            break;
        }
        if began.elapsed() > PATIENCE {
            bail!("{} does not end", program.name());
        }
    }
    Ok(Ended {
        took: began.elapsed(),
        memory: peak,
        cpu: cpu::ended()? - before,
    })
}

#[derive(Deserialize)]
struct Drained {
    rows: usize,
    /// How many of them the first commit brought.
    first: usize,
    /// From the first commit to the last.
    seconds: f64,
}

/// Lets the worker of a peer empty its inbox, of so many rows; gives rows a second between its first commit and its last, by its own
/// clock, and what it took.
///
/// # Errors
/// When it ends badly, made other than that many rows, or all of them at once.
pub async fn drained(
    name: &'static str,
    binary: PathBuf,
    arguments: &[&str],
    url: &str,
    rows: usize,
) -> Result<(f64, Ended)> {
    let mut program = Program::new(name, binary)?;
    program.arguments(arguments);
    program.set("DATABASE_URL", url);
    program.set("POOL_SIZE", 1);
    let ended = to_end(&mut program).await?;
    let log = program.log();
    let said = log.lines().last().unwrap_or_default();
    let drained: Drained = serde_json::from_str(said).with_context(|| format!("{name} said {said:?}"))?;
    ensure!(
        drained.rows == rows,
        "{name} made {} rows of {rows}",
        drained.rows
    );
    ensure!(drained.first < rows, "{rows} rows are too few to see a rate");
    Ok(((rows - drained.first) as f64 / drained.seconds, ended))
}
