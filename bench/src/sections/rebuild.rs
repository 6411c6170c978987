//! Filling the tables from the stream, comparing them with it, and putting them right.

mod damage;

use std::time::Duration;

use anyhow::Result;
use sandbox::fill;
use sandbox::program::Program;
use sandbox::servers::Postgres;

use self::damage::Damage;
use crate::bench::Bench;
use crate::figures::{Case, Metric, Section, Setting, Subject};
use crate::process::cpu;
use crate::stack::{Broker, Durability, database_processes, postgres, to_end};

pub(super) async fn run(bench: &mut Bench) -> Result<()> {
    let postgres = postgres().await?;
    let broker = Broker::one(Durability::Synced).await?;
    let count = bench.effort.rebuilt;
    let case = |subject| Case::new(Section::Rebuild, subject, Setting::Rows(count));
    let events = fill::events(bench.seed, bench.clock.now());
    let took = broker.fill(events, count).await?;
    bench.note(case(Subject::Filling), 1, &filling(took, count));
    for round in bench.rounds() {
        let database = postgres.create_database().await?;
        for subject in [Subject::FirstLoad, Subject::Verify, Subject::VerifyDeep] {
            let replay = command(bench, subject, &broker, &postgres, &database.url()).await?;
            bench.note(case(subject), round, &replay.figures(count as u64));
        }
        let damage = Damage::make(&database).await?;
        let replay = command(bench, Subject::Repair, &broker, &postgres, &database.url()).await?;
        damage.is_repaired(&replay.log).await?;
        bench.note(case(Subject::Repair), round, &replay.figures(count as u64));
    }
    Ok(())
}

/// A command that read the whole stream.
pub(super) struct Replay {
    took: Duration,
    /// The most memory that it held, in MB.
    memory: f64,
    /// CPU time of each part.
    cpu: [(Metric, Duration); 3],
    /// What it printed.
    log: String,
}

/// Runs one of the commands that read the whole stream. That its tables are right is part of its ending well.
pub(super) async fn command(
    bench: &Bench,
    subject: Subject,
    broker: &Broker,
    postgres: &Postgres,
    url: &str,
) -> Result<Replay> {
    let mut program = Program::new("projector", bench.installed.projector.clone())?;
    program.arguments(match subject {
        Subject::FirstLoad | Subject::Repair => &["rebuild", "--json"],
        Subject::VerifyDeep => &["verify", "--deep", "--json"],
        _ => &["verify", "--json"],
    });
    program.set("NATS_URL", broker.urls());
    program.set("DATABASE_URL", url);
    let servers = || {
        let database = cpu::of(&database_processes(postgres))?;
        anyhow::Ok((cpu::of(&broker.processes())?, database))
    };
    let before = servers()?;
    let ended = to_end(&mut program).await?;
    let after = servers()?;
    Ok(Replay {
        took: ended.took,
        memory: ended.memory,
        cpu: [
            (Metric::CpuOwn, ended.cpu),
            (Metric::CpuBroker, after.0 - before.0),
            (Metric::CpuDatabase, after.1 - before.1),
        ],
        log: program.log(),
    })
}

impl Replay {
    /// What is reported of it, when the stream held so many events.
    pub(super) fn figures(&self, events: u64) -> Vec<(Metric, f64)> {
        let (events, seconds) = (events as f64, self.took.as_secs_f64());
        let mut figures = vec![(Metric::Rate, events / seconds), (Metric::Seconds, seconds)];
        let cpu = self.cpu.iter();
        figures.extend(cpu.map(|(metric, time)| (*metric, time.as_secs_f64() / (events / 1_000.0))));
        figures.push((Metric::Memory, self.memory));
        figures
    }
}

/// What is reported of filling a stream.
pub(super) fn filling(took: Duration, events: usize) -> [(Metric, f64); 2] {
    let seconds = took.as_secs_f64();
    [
        (Metric::Rate, events as f64 / seconds),
        (Metric::Seconds, seconds),
    ]
}
