//! Everything once more, with few and with many events stored.

use anyhow::{Context as _, Result};
use sandbox::fill;
use sandbox::servers::Postgres;

use super::rebuild::{command, filling};
use super::visible::until_visible;
use crate::bars::PER_SECOND;
use crate::bench::{Bench, Contender};
use crate::figures::{Case, Section, Setting, Subject};
use crate::load::Size;
use crate::stack::{Broker, Durability, Projectors, Receiver, postgres};

const CONNECTIONS: usize = 64;

pub(super) async fn run(bench: &mut Bench) -> Result<()> {
    let postgres = postgres().await?;
    for round in bench.rounds() {
        for stored in bench.effort.stored.clone() {
            with(bench, round, stored, &postgres).await?;
        }
    }
    Ok(())
}

/// A pipeline that has stored and projected so many events already.
async fn with(bench: &mut Bench, round: u32, stored: usize, postgres: &Postgres) -> Result<()> {
    let case = |subject| Case::new(Section::Growth, subject, Setting::Stored(stored));
    let database = postgres.create_database().await?;
    let url = database.url();
    let broker = Broker::one(Durability::Synced).await?;
    let events = fill::events(bench.seed, bench.clock.now());
    let took = broker.fill(events, stored).await?;
    bench.note(case(Subject::Filling), round, &filling(took, stored));
    let loaded = command(bench, Subject::FirstLoad, &broker, postgres, &url).await?;
    bench.note(case(Subject::FirstLoad), round, &loaded.figures(stored as u64));

    let ingress = Receiver::ingress(&bench.installed, &bench.secret, broker, None).await?;
    let Contender {
        mut receiver, pace, ..
    } = Contender::fast(Subject::IngressSync, ingress);
    receiver.holds(stored as u64);
    let (batch, load) = (
        bench.batch(Size::Usual, pace, CONNECTIONS),
        bench.load(CONNECTIONS),
    );
    let measured = receiver.closed(&batch, load, true).await?;
    receiver.check().await?;
    bench.record(case(Subject::IngressSync), round, &measured);

    let broker = receiver.broker().context("ingress has a broker")?;
    let new = broker.stored().await? - stored as u64;
    let mut projectors = Projectors::new(&bench.installed, 1, broker, &url, "projector")?;
    let projected = projectors.project(new).await?;
    bench.note(case(Subject::Projector), round, &projected.figures(new));

    projectors.start().await?;
    until_visible(
        bench,
        &mut receiver,
        &url,
        PER_SECOND,
        (case(Subject::Pipeline), round),
    )
    .await?;
    projectors.stop().await?;

    let broker = receiver.broker().context("ingress has a broker")?;
    let verified = command(bench, Subject::Verify, broker, postgres, &url).await?;
    let events = broker.stored().await?;
    bench.note(case(Subject::Verify), round, &verified.figures(events));
    Ok(())
}
