//! How busy the machine is.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::time::sleep;

/// Long enough for a share to the hundredth, at a hundred ticks a second.
const LOOK: Duration = Duration::from_secs(1);

/// What the processors have done since the machine started, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    all: u64,
}

/// Which share of the time of all processors somebody takes, seen for a second in which this program does nothing. What is waited
/// for does not count: neither disks, nor what would run if it could.
///
/// # Errors
/// When `/proc` cannot be read.
pub async fn share() -> Result<f64> {
    let before = look()?;
    sleep(LOOK).await;
    let after = look()?;
    ensure!(after.all > before.all, "the processors of /proc/stat stand still");
    let busy = after.busy.saturating_sub(before.busy);
    Ok(busy as f64 / (after.all - before.all) as f64)
}

fn look() -> Result<Ticks> {
    let text = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    parse(&text).context("understanding /proc/stat")
}

/// The first line is of all processors: user, nice, system, idle, iowait, irq, softirq, steal. Guests are among users.
fn parse(stat: &str) -> Option<Ticks> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<u64> = fields.take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let [_, _, _, idle, waiting, ..] = ticks[..] else {
        return None;
    };
    let all = ticks.iter().sum();
    Some(Ticks {
        busy: all - idle - waiting,
        all,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_not_being_busy_and_guests_count_once() {
        let stat = "cpu  10 1 5 600 70 2 3 4 9 9\ncpu0 5 0 2 300 35 1 1 2 4 4\n";
        assert_eq!(parse(stat), Some(Ticks { busy: 25, all: 695 }));
        assert_eq!(parse("intr 1 2 3\n"), None);
        assert_eq!(parse("cpu  10 1\n"), None);
    }

    #[tokio::test]
    async fn a_share_is_between_nothing_and_all() {
        let share = share().await.unwrap();
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
}
