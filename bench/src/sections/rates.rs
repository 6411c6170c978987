//! Deliveries at fixed rates: what a sender waits for its answer when the receiver is not at its limit.

use std::sync::Arc;

use anyhow::Result;
use tokio::sync::oneshot;

use super::receiving::{flask, inbox, one};
use crate::bench::{Bench, Contender};
use crate::figures::{Case, Section, Setting, Subject};
use crate::load::{Batch, Open, Size};
use crate::stack::{Durability, Receiver, postgres};

/// Deliveries a second.
const RATES: [u32; 4] = [100, 1_000, 4_000, 8_000];
/// The receiver in Python is at its limit not far above this.
const MOST_FOR_PYTHON: u32 = 1_000;
/// Deliveries under way at most.
const CONNECTIONS: usize = 256;

pub(super) async fn run(bench: &mut Bench) -> Result<()> {
    let postgres = postgres().await?;
    let null = Receiver::null(&bench.installed).await?;
    let mut contenders = vec![
        Contender::fast(Subject::Sender, null),
        flask(bench, &postgres).await?,
        inbox(bench, &postgres).await?,
        one(bench, Subject::IngressSync, Durability::Synced, None).await?,
        one(bench, Subject::IngressCache, Durability::PageCache, None).await?,
    ];
    for rate in RATES {
        for round in bench.rounds() {
            for contender in &mut contenders {
                if contender.subject == Subject::FlaskReceiver && rate > MOST_FOR_PYTHON {
                    continue;
                }
                let (batch, load) = prepare(bench, rate);
                let measured = contender
                    .receiver
                    .open(&batch, load, oneshot::channel().0)
                    .await?;
                let case = Case::new(Section::Rates, contender.subject, Setting::PerSecond(rate));
                bench.record(case, round, &measured);
            }
        }
    }
    for contender in &contenders {
        contender.receiver.check().await?;
    }
    Ok(())
}

/// An open loop at this rate, and new deliveries for it.
pub(super) fn prepare(bench: &mut Bench, rate: u32) -> (Arc<Batch>, Open) {
    let load = Open {
        per_second: rate,
        connections: CONNECTIONS,
        lead: bench.effort.lead,
        window: bench.effort.window,
    };
    let deliveries = bench.mint.deliveries(Size::Usual, load.deliveries());
    (Arc::new(Batch::once(deliveries)), load)
}
