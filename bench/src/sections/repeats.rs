//! Deliveries that come more than once: some of them between others, and all of them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::receiving::{inbox, one};
use crate::bench::{Bench, Contender};
use crate::figures::{Case, Section, Setting, Subject};
use crate::load::{Batch, Closed, Size};
use crate::stack::{Durability, postgres};

const CONNECTIONS: usize = 64;
/// Of a hundred.
const COPIES: u32 = 10;
/// Everything of a batch is sent, however long it takes.
const ALL: Closed = Closed {
    connections: CONNECTIONS,
    lead: Duration::ZERO,
    window: Duration::from_secs(60),
};

pub(super) async fn run(bench: &mut Bench) -> Result<()> {
    let postgres = postgres().await?;
    let mut contenders = vec![
        inbox(bench, &postgres).await?,
        one(bench, Subject::IngressSync, Durability::Synced, None).await?,
    ];
    for round in bench.rounds() {
        for contender in &mut contenders {
            some(bench, contender, round).await?;
        }
    }
    for round in bench.rounds() {
        for contender in &mut contenders {
            all(bench, contender, round).await?;
        }
    }
    for contender in &contenders {
        contender.receiver.check().await?;
    }
    Ok(())
}

/// Without copies, and with some.
async fn some(bench: &mut Bench, contender: &mut Contender, round: u32) -> Result<()> {
    let load = bench.load(CONNECTIONS);
    let count = (contender.pace.min(bench.effort.pace) as f64 * bench.effort.span().as_secs_f64()) as usize;
    for percent in [0, COPIES] {
        let deliveries = bench.mint.deliveries(Size::Usual, count);
        let rng = &mut bench.seed.rng("copies", u64::from(round));
        let batch = Arc::new(Batch::with_copies(deliveries, percent, rng));
        let measured = contender.receiver.closed(&batch, load, true).await?;
        bench.record(case(contender, Setting::Copies(percent)), round, &measured);
    }
    Ok(())
}

/// Everything once, everything again, and everything again after the process has forgotten it.
async fn all(bench: &mut Bench, contender: &mut Contender, round: u32) -> Result<()> {
    let deliveries = bench.mint.deliveries(Size::Usual, bench.effort.repeated);
    let batch = Arc::new(Batch::once(deliveries));
    contender.receiver.closed(&batch, ALL, true).await?;
    let measured = contender.receiver.closed(&batch, ALL, false).await?;
    bench.record(case(contender, Setting::AllAgain), round, &measured);
    if contender.subject == Subject::IngressSync {
        contender.receiver.restart().await?;
        let measured = contender.receiver.closed(&batch, ALL, false).await?;
        bench.record(case(contender, Setting::AllAgainAnew), round, &measured);
    }
    Ok(())
}

fn case(contender: &Contender, setting: Setting) -> Case {
    Case::new(Section::Repeats, contender.subject, setting)
}
