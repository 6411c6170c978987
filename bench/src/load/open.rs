//! An open loop: deliveries at their times, whether the earlier ones are answered or not. Latency counts from the time at which a
//! delivery was to be sent: a receiver that stands still holds up all that should have come meanwhile, and pays for each.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures_util::future::try_join_all;
use tokio::sync::{Semaphore, oneshot};

use super::outcome::{Counts, Recorder};
use super::{Batch, Connection, Outcome, Schedule, alone};

/// An open loop.
#[derive(Debug, Clone, Copy)]
pub struct Open {
    /// Deliveries a second.
    pub per_second: u32,
    /// Connections: deliveries under way at most. The others wait, and their time runs.
    pub connections: usize,
    /// The time under load before the window.
    pub lead: Duration,
    /// How long is counted.
    pub window: Duration,
}

impl Open {
    /// How many are sent.
    pub fn deliveries(&self) -> usize {
        ((self.lead + self.window).as_secs_f64() * f64::from(self.per_second)) as usize
    }
}

/// Sends all of `batch` to `addr`, each at its time. Once the connections are there, `begun` is told when that is.
///
/// # Errors
/// When a connection breaks, or nothing is acknowledged.
pub async fn open(
    addr: SocketAddr,
    batch: Arc<Batch>,
    load: Open,
    begun: oneshot::Sender<Schedule>,
) -> Result<Outcome> {
    alone(move || async move {
        let connections = (0..load.connections).map(|_| Connection::open(addr));
        let connections = try_join_all(connections).await.context("connecting")?;
        let schedule = Schedule::new(Instant::now(), load.per_second);
        // Not everybody wants to know.
        let _ = begun.send(schedule);
        let from = schedule.at(0) + load.lead;
        let due = Arc::new(Semaphore::new(0));
        metronome(schedule, batch.len(), load.connections, Arc::clone(&due)).context("starting a thread")?;
        let next = Cell::new(0);
        let until = from + load.window;
        let recorder = RefCell::new(Recorder::new(Counts::ByStart, from, until, batch.len()));
        let sending = connections.into_iter().map(async |mut connection| {
            loop {
                due.acquire().await?.forget();
                let number = next.replace(next.get() + 1);
                let Some(delivery) = batch.get(number) else { break };
                let status = connection.exchange(&delivery.request).await?;
                recorder
                    .borrow_mut()
                    .note(number, schedule.at(number), Instant::now(), status);
            }
            anyhow::Ok(())
        });
        try_join_all(sending).await.context("delivering")?;
        recorder.into_inner().finish(batch.len(), false)
    })
    .await
}

/// Gives a permit at the time of each delivery, and at the end one to each connection, which sends it home. A thread of its own:
/// the timers of the runtime are a millisecond coarse, which is more than what is measured.
fn metronome(schedule: Schedule, count: usize, connections: usize, due: Arc<Semaphore>) -> io::Result<()> {
    let beat = move || {
        for number in 0..count {
            sleep_until(schedule.at(number));
            due.add_permits(1);
        }
        due.add_permits(connections);
    };
    thread::Builder::new().spawn(beat).map(drop)
}

#[expect(
    clippy::disallowed_methods,
    reason = "this thread has nothing else to do than to wait"
)]
fn sleep_until(at: Instant) {
    if let Some(left) = at.checked_duration_since(Instant::now()) {
        thread::sleep(left);
    }
}
