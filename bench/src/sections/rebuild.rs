//! Filling the tables from the stream, and comparing them with it.

use anyhow::Result;
use sandbox::fill;
use sandbox::program::Program;
use stream::StreamSpec;

use crate::bench::Bench;
use crate::figures::{Case, Metric, Section, Setting, Subject};
use crate::stack::{Broker, Durability, Ended, postgres, to_end};

pub(super) async fn run(bench: &mut Bench) -> Result<()> {
    let postgres = postgres().await?;
    let broker = Broker::one(Durability::Synced).await?;
    let (count, spec, connection) = (
        bench.effort.rebuilt,
        StreamSpec::default(),
        broker.connect().await?,
    );
    let events = fill::events(bench.seed, bench.clock.now());
    fill::fill(&connection.client, &spec.name, &spec.subjects, events, count).await?;
    for round in bench.rounds() {
        let database = postgres.create_database().await?;
        for subject in [Subject::FirstLoad, Subject::Verify, Subject::VerifyDeep] {
            let ended = command(bench, subject, &broker, &database.url()).await?;
            let case = Case::new(Section::Rebuild, subject, Setting::Rows(count));
            bench.note(case, round, &figures(ended, count as u64));
        }
    }
    Ok(())
}

/// Runs one of the commands that read the whole stream. That its tables are right is part of its ending well.
pub(super) async fn command(bench: &Bench, subject: Subject, broker: &Broker, url: &str) -> Result<Ended> {
    let mut program = Program::new("projector", bench.installed.projector.clone())?;
    program.arguments(match subject {
        Subject::FirstLoad => &["rebuild"],
        Subject::VerifyDeep => &["verify", "--deep"],
        _ => &["verify"],
    });
    program.set("NATS_URL", broker.urls());
    program.set("DATABASE_URL", url);
    to_end(&mut program).await
}

/// What is reported of it, when the stream held so many events.
pub(super) fn figures(ended: Ended, events: u64) -> [(Metric, f64); 2] {
    [
        (Metric::Rate, events as f64 / ended.took.as_secs_f64()),
        (Metric::Memory, ended.memory),
    ]
}
