//! Memory.

use std::fs;

use anyhow::{Context as _, Result};

use super::cpu;

const KIB: f64 = 1024.0;
const MB: f64 = 1e6;

/// Lets the peaks of these processes, and of those that they started, begin anew from what they hold now.
///
/// # Errors
/// When one of them has ended, or belongs to somebody else.
pub fn forget_peak(processes: &[u32]) -> Result<()> {
    for pid in cpu::running_of(processes)? {
        let path = format!("/proc/{pid}/clear_refs");
        fs::write(&path, "5").with_context(|| format!("writing {path}"))?;
    }
    Ok(())
}

/// The most memory that these processes and those that they started have held, in MB. Memory that several of them share counts
/// for each.
///
/// # Errors
/// When one of them has ended.
pub fn peak(processes: &[u32]) -> Result<f64> {
    let mut sum = 0.0;
    for pid in cpu::running_of(processes)? {
        let path = format!("/proc/{pid}/status");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        sum += parse(&text).with_context(|| format!("understanding {path}"))?;
    }
    Ok(sum)
}

/// The high-water mark in the text of `/proc/PID/status`, in MB.
pub(crate) fn parse(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * KIB / MB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_found() {
        assert_eq!(
            parse("Name:\tx\nVmHWM:\t   62500 kB\nVmRSS:\t 4 kB\n"),
            Some(64.0)
        );
        assert_eq!(parse("Name:\tkthreadd\n"), None);
    }

    #[test]
    fn this_process_holds_some() {
        assert!(peak(&[std::process::id()]).unwrap() > 1.0);
    }
}
