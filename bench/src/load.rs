//! The sender: deliveries that were signed beforehand, over connections that are kept.
//!
//! It shares the machine with what it loads, so it does as little as it can: bytes that lie ready go into a socket, and
//! of each answer only the status is looked at. What it can do at most is measured too (section `sender`).

mod batch;
mod closed;
mod connection;
mod delivery;
pub mod null;
mod open;
mod outcome;
mod reply;
mod schedule;

use std::future::Future;

use anyhow::{Context as _, Result};

pub use batch::Batch;
pub use closed::{Closed, closed};
pub use connection::Connection;
pub use delivery::{Delivery, Mint, Size};
pub use open::{Open, open};
pub use outcome::{Latencies, Outcome};
pub use schedule::Schedule;

/// The path that every receiver takes deliveries on.
pub const HOOK: &str = "/hooks/answers";

/// Runs the sender on a thread and a runtime of its own, where nothing else of this program holds it up.
async fn alone<T, W>(work: impl FnOnce() -> W + Send + 'static) -> Result<T>
where
    T: Send + 'static,
    W: Future<Output = Result<T>>,
{
    let thread = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("making a runtime for the sender")?;
        runtime.block_on(work())
    });
    thread.await.context("sending")?
}
