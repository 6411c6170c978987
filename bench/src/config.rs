//! What to measure, and how thoroughly.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum as _};

use crate::figures::Section;

/// Measure the pipeline beside what people would use instead of it.
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
pub struct Cli {
    /// Another job than measuring.
    #[command(subcommand)]
    pub job: Option<Job>,
    /// What to measure.
    #[command(flatten)]
    pub args: BenchArgs,
}

/// What this program does beside measuring.
#[derive(Debug, Subcommand)]
pub enum Job {
    /// Answer everything with 204: what the sender itself is measured against.
    #[command(hide = true)]
    Null {
        /// Where to listen.
        #[arg(long, env = "LISTEN")]
        listen: SocketAddr,
    },
}

/// What to measure.
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// Measure these parts alone. The results are shown and not written
    #[arg(long, value_enum, value_delimiter = ',', value_name = "SECTION")]
    pub only: Vec<Section>,
    /// Measure briefly, to see that it works. The figures say little, and are shown and not written
    #[arg(long)]
    pub quick: bool,
    /// Measure growth with 3 million events too
    #[arg(long)]
    pub full: bool,
    /// How often each figure is measured, instead of as often as is written. The results are shown and not written
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: Option<u32>,
    /// Where the results go, also those of a part
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

impl BenchArgs {
    /// The parts to measure.
    pub fn sections(&self) -> Vec<Section> {
        if self.only.is_empty() {
            return Section::WHOLE.to_vec();
        }
        let wanted = |section: &&Section| self.only.contains(section);
        Section::value_variants().iter().filter(wanted).copied().collect()
    }

    /// How thoroughly.
    pub fn effort(&self) -> Effort {
        let mut effort = if self.quick {
            Effort::quick()
        } else {
            Effort::thorough()
        };
        effort.rounds = self.rounds.unwrap_or(effort.rounds);
        if self.full {
            effort.stored.push(3_000_000);
        }
        effort
    }

    /// Where the results go: to the place that is named, or into the repository when they are whole.
    pub fn results_file(&self) -> Option<PathBuf> {
        let whole = self.only.is_empty() && !self.quick && self.rounds.is_none();
        let tracked = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/results.json"));
        self.out.clone().or_else(|| whole.then(tracked))
    }
}

/// How thoroughly to measure.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Effort {
    /// Whether it says more than that it works.
    pub quick: bool,
    /// How often each figure is measured.
    pub rounds: u32,
    /// The time under load before measuring begins.
    #[serde(serialize_with = "seconds")]
    pub lead: Duration,
    /// How long is measured.
    #[serde(serialize_with = "seconds")]
    pub window: Duration,
    /// Deliveries that are made for a second of load at most. What takes more has a shorter window.
    pub pace: usize,
    /// Events that are made into rows.
    pub rows: usize,
    /// Of these, what the worker in Python gets: it takes long.
    pub rows_of_python: usize,
    /// Events of which tables are rebuilt.
    pub rebuilt: usize,
    /// Deliveries that are sent twice.
    pub repeated: usize,
    /// Events that are there beforehand.
    pub stored: Vec<usize>,
}

impl Effort {
    /// For figures that mean something.
    pub fn thorough() -> Self {
        Self {
            quick: false,
            rounds: 3,
            lead: Duration::from_secs(1),
            window: Duration::from_secs(3),
            pace: 120_000,
            rows: 60_000,
            rows_of_python: 20_000,
            rebuilt: 100_000,
            repeated: 20_000,
            stored: vec![10_000, 300_000],
        }
    }

    /// To see that it works.
    pub fn quick() -> Self {
        Self {
            quick: true,
            rounds: 2,
            lead: Duration::from_millis(300),
            window: Duration::from_secs(1),
            pace: 120_000,
            rows: 10_000,
            rows_of_python: 2_000,
            rebuilt: 10_000,
            repeated: 2_000,
            stored: vec![1_000, 10_000],
        }
    }

    /// From the first delivery to the end of the window.
    pub fn span(&self) -> Duration {
        self.lead + self.window
    }
}

fn seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> BenchArgs {
        let all = ["bench"].iter().chain(arguments);
        Cli::try_parse_from(all).unwrap().args
    }

    #[test]
    fn everything_is_measured_and_written_unless_a_part_is_asked_for() {
        assert_eq!(parsed(&[]).sections(), Section::WHOLE);
        assert!(parsed(&[]).results_file().is_some());
        let part = parsed(&["--only", "growth,sender"]);
        assert_eq!(part.sections(), [Section::Sender, Section::Growth]);
        assert_eq!(part.results_file(), None);
        assert_eq!(parsed(&["--quick"]).results_file(), None);
        assert_eq!(parsed(&["--rounds", "1"]).results_file(), None);
        assert_eq!(parsed(&["--only", "tuning"]).sections(), [Section::Tuning]);
    }

    #[test]
    fn a_part_is_written_where_that_is_said() {
        let part = parsed(&["--quick", "--out", "here.json"]);
        assert_eq!(part.results_file(), Some(PathBuf::from("here.json")));
    }

    #[test]
    fn a_full_run_stores_three_million_events_too() {
        assert_eq!(parsed(&["--full"]).effort().stored, [10_000, 300_000, 3_000_000]);
    }
}
