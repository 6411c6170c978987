//! CPU time.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// In which Linux counts CPU time for users, on every architecture.
const TICK: Duration = Duration::from_millis(10);

/// A line of `/proc/PID/stat`, as far as it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// Its own, in ticks.
    own: u64,
    /// Of its children that have ended, in ticks.
    ended: u64,
}

/// CPU time of this process, without those that it started.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn own() -> Result<Duration> {
    Ok(time(this()?.own))
}

/// CPU time of the processes that this one has started and seen the end of.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn ended() -> Result<Duration> {
    Ok(time(this()?.ended))
}

/// CPU time of these processes and of all that they started, whether it still runs or not.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn of(processes: &[u32]) -> Result<Duration> {
    let all = running().context("reading /proc")?;
    let ticks = family(&all, processes)
        .into_iter()
        .filter_map(|pid| all.get(&pid))
        .map(|stat| stat.own + stat.ended)
        .sum();
    Ok(time(ticks))
}

/// These processes and all that they started, as far as they run.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn running_of(processes: &[u32]) -> Result<Vec<u32>> {
    let all = running().context("reading /proc")?;
    Ok(family(&all, processes)
        .into_iter()
        .filter(|pid| all.contains_key(pid))
        .collect())
}

fn this() -> Result<Stat> {
    let line = fs::read_to_string("/proc/self/stat").context("reading /proc/self/stat")?;
    parse(&line).context("understanding /proc/self/stat")
}

fn running() -> std::io::Result<HashMap<u32, Stat>> {
    let mut all = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // One that ended meanwhile has no line any more; what it took is with its parent.
        let line = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some(stat) = parse(&line) {
            all.insert(pid, stat);
        }
    }
    Ok(all)
}

fn family(all: &HashMap<u32, Stat>, processes: &[u32]) -> HashSet<u32> {
    let mut family: HashSet<u32> = processes.iter().copied().collect();
    loop {
        let more: Vec<u32> = all
            .iter()
            .filter(|(pid, stat)| family.contains(&stat.parent) && !family.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            return family;
        }
        family.extend(more);
    }
}

/// The name, in parentheses, may hold anything; what is behind the last one is numbers.
fn parse(line: &str) -> Option<Stat> {
    let (_, fields) = line.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own: ticks(11)? + ticks(12)?,
        ended: ticks(13)? + ticks(14)?,
    })
}

fn time(ticks: u64) -> Duration {
    TICK * u32::try_from(ticks).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_process_is_called() {
        let line = "4211 (a) name (8) S 77 4211 77 0 -1 4194304 900 0 1 0 12 30 5 6 20 0 9 0 1 2 3";
        let stat = Stat {
            parent: 77,
            own: 42,
            ended: 11,
        };
        assert_eq!(parse(line), Some(stat));
        assert_eq!(parse(""), None);
        assert_eq!(parse("1 (init) S"), None);
    }

    #[test]
    fn a_family_has_children_and_their_children() {
        let child_of = |parent| Stat {
            parent,
            own: 0,
            ended: 0,
        };
        let all = [(10, 1), (11, 10), (12, 11), (20, 1)];
        let all = all
            .into_iter()
            .map(|(pid, parent)| (pid, child_of(parent)))
            .collect();
        assert_eq!(family(&all, &[10]), HashSet::from([10, 11, 12]));
    }

    #[test]
    fn this_process_has_taken_some_time() {
        let began = own().unwrap();
        let mut sum = 0_u64;
        while own().unwrap() == began {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        assert!(of(&[std::process::id()]).unwrap() > began);
    }

    #[test]
    fn what_has_ended_counts_once_it_was_seen_to_end() {
        let before = ended().unwrap();
        let count = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let status = Command::new("sh").args(["-c", count]).status().unwrap();
        assert!(status.success());
        assert!(ended().unwrap() > before);
    }
}
