//! A closed loop: each connection sends its next delivery once its last one is answered.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures_util::future::try_join_all;

use super::outcome::{Counts, Recorder};
use super::{Batch, Connection, Outcome, alone};

/// A closed loop.
#[derive(Debug, Clone, Copy)]
pub struct Closed {
    /// Connections.
    pub connections: usize,
    /// The time under load before the window.
    pub lead: Duration,
    /// How long is counted.
    pub window: Duration,
}

/// Sends `batch` to `addr` until the window, or the batch, is over.
///
/// # Errors
/// When a connection breaks, or nothing is acknowledged.
pub async fn closed(addr: SocketAddr, batch: Arc<Batch>, load: Closed) -> Result<Outcome> {
    alone(move || async move {
        let connections = (0..load.connections).map(|_| Connection::open(addr));
        let connections = try_join_all(connections).await.context("connecting")?;
        let next = Cell::new(0);
        let from = Instant::now() + load.lead;
        let until = from + load.window;
        let recorder = RefCell::new(Recorder::new(Counts::ByAnswer, from, until, batch.len()));
        let sending = connections.into_iter().map(async |mut connection| {
            while let Some(delivery) = batch.get(next.get()) {
                let begun = Instant::now();
                if begun >= until {
                    break;
                }
                let number = next.replace(next.get() + 1);
                let status = connection.exchange(&delivery.request).await?;
                recorder.borrow_mut().note(number, begun, Instant::now(), status);
            }
            anyhow::Ok(())
        });
        try_join_all(sending).await.context("delivering")?;
        let sent = next.get();
        recorder.into_inner().finish(sent, sent == batch.len())
    })
    .await
}
