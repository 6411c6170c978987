//! Memory of ingress with many connections that do nothing beside a few that are busy.

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;

use super::receiving::one;
use crate::bars::IDLE;
use crate::bench::Bench;
use crate::figures::{Case, Section, Setting, Subject};
use crate::load::{Connection, Size};
use crate::stack::Durability;

const BUSY: usize = 64;

pub(super) async fn run(bench: &mut Bench) -> Result<()> {
    let case = Case::new(Section::Memory, Subject::IngressSync, Setting::Idle(IDLE));
    for round in bench.rounds() {
        let mut ingress = one(bench, Subject::IngressSync, Durability::Synced, None).await?;
        let receiver = &mut ingress.receiver;
        // Each has sent something before it has nothing to do.
        let deliveries = bench.mint.deliveries(Size::Usual, IDLE);
        let addr = receiver.addr();
        let idle = deliveries.iter().map(async |delivery| {
            let mut connection = Connection::open(addr).await?;
            let status = connection.exchange(&delivery.request).await?;
            ensure!(status == 204, "the answer was {status}");
            Ok(connection)
        });
        let idle = try_join_all(idle).await.context("opening idle connections")?;
        receiver.holds(IDLE as u64);
        let (batch, load) = (bench.batch(Size::Usual, ingress.pace, BUSY), bench.load(BUSY));
        let measured = receiver.closed(&batch, load, true).await?;
        drop(idle);
        receiver.check().await?;
        bench.record(case, round, &measured);
    }
    Ok(())
}
