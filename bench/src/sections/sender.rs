//! The sender against a server that does nothing: what it can do at most, and what it costs.

use anyhow::Result;

use crate::bars::CONNECTIONS;
use crate::bench::{Bench, Contender};
use crate::figures::{Section, Subject};
use crate::load::Size;
use crate::stack::Receiver;

/// More than it can send in a second.
const PACE: usize = 120_000;

pub(super) async fn run(bench: &mut Bench) -> Result<()> {
    let contenders = &mut [Contender {
        subject: Subject::Sender,
        receiver: Receiver::null(&bench.installed).await?,
        pace: PACE,
    }];
    for connections in CONNECTIONS {
        bench
            .in_turns(Section::Sender, contenders, connections, Size::Usual)
            .await?;
    }
    Ok(())
}
