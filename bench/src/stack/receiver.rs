//! What takes deliveries.

mod account;
mod kinds;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use nix::sys::signal::Signal;
use sandbox::program::Program;
use sandbox::servers::Database;
use tokio::sync::oneshot;
use tokio::time::sleep;

use self::account::Account;
pub use self::kinds::{FLASK_THREADS, INBOX_CONNECTIONS};
use super::{Broker, session};
use crate::figures::Metric;
use crate::load::{Batch, Closed, Open, Outcome, Schedule, closed, open};
use crate::measured::Measured;
use crate::process::{cpu, memory};

/// How long a receiver may take to begin, and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A receiver, with what it stores deliveries in. Ends when dropped.
#[derive(Debug)]
pub struct Receiver {
    program: Program,
    addr: SocketAddr,
    /// The processes of what it stores in, each with the metric of their CPU time.
    parts: Vec<(Metric, Vec<u32>)>,
    store: Store,
    account: Account,
}

#[derive(Debug)]
enum Store {
    Nothing,
    Stream(Broker),
    Inbox { url: String, _database: Database },
}

impl Receiver {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its process.
    pub fn process(&self) -> Vec<u32> {
        self.program.pid().into_iter().collect()
    }

    /// Where the broker is, of an ingress.
    pub fn broker(&self) -> Option<&Broker> {
        match &self.store {
            Store::Stream(broker) => Some(broker),
            Store::Nothing | Store::Inbox { .. } => None,
        }
    }

    /// Says that it has stored so many beside what is sent to it in loops.
    pub fn holds(&mut self, stored: u64) {
        self.account.add(stored);
    }

    /// Stops it and starts it again: what it remembers in memory is gone.
    ///
    /// # Errors
    /// When it does not come back.
    pub async fn restart(&mut self) -> Result<()> {
        self.program.signal(Signal::SIGTERM);
        if self.program.wait_ended(PATIENCE).await.is_none() {
            bail!("{} does not stop", self.program.name());
        }
        self.program.start()?;
        self.answers().await?;
        if self.broker().is_some() {
            self.program.wait_ready().await?;
        }
        Ok(())
    }

    /// Sends `batch` in a closed loop. What of it is `new` was not sent before, and must be stored by the end.
    ///
    /// # Errors
    /// When a connection breaks, or nothing is acknowledged.
    pub async fn closed(&mut self, batch: &Arc<Batch>, load: Closed, new: bool) -> Result<Measured> {
        let sending = closed(self.addr, Arc::clone(batch), load);
        let measured = self.measure(sending, load.lead).await?;
        if new {
            self.account.settle(batch, &measured.outcome);
        }
        Ok(measured)
    }

    /// Sends `batch`, which is new, in an open loop; `begun` is told when the first is to be sent.
    ///
    /// # Errors
    /// When a connection breaks, or nothing is acknowledged.
    pub async fn open(
        &mut self,
        batch: &Arc<Batch>,
        load: Open,
        begun: oneshot::Sender<Schedule>,
    ) -> Result<Measured> {
        let sending = open(self.addr, Arc::clone(batch), load, begun);
        let measured = self.measure(sending, load.lead).await?;
        self.account.settle(batch, &measured.outcome);
        Ok(measured)
    }

    async fn measure(
        &self,
        sending: impl Future<Output = Result<Outcome>>,
        lead: Duration,
    ) -> Result<Measured> {
        memory::forget_peak(&self.process())?;
        let mut before = Vec::new();
        let begin = async {
            sleep(lead).await;
            before = self.cpu()?;
            anyhow::Ok(())
        };
        let (outcome, begun) = tokio::join!(sending, begin);
        begun?;
        let after = self.cpu()?;
        let cpu = before
            .into_iter()
            .zip(after)
            .map(|((metric, before), (_, after))| (metric, after - before));
        Ok(Measured {
            outcome: outcome?,
            cpu: cpu.collect(),
            memory: memory::peak(&self.process())?,
        })
    }

    fn cpu(&self) -> Result<Vec<(Metric, Duration)>> {
        let mut times = vec![
            (Metric::CpuOwn, cpu::of(&self.process())?),
            (Metric::CpuSender, cpu::own()?),
        ];
        for (metric, processes) in &self.parts {
            times.push((*metric, cpu::of(processes)?));
        }
        Ok(times)
    }

    /// Holds that every delivery which was acknowledged is stored, and nothing that was not sent.
    ///
    /// # Errors
    /// When that is not so.
    pub async fn check(&self) -> Result<()> {
        let stored = match &self.store {
            Store::Nothing => return Ok(()),
            Store::Stream(broker) => broker.stored().await?,
            Store::Inbox { url, .. } => {
                let session = session(url).await?;
                let row = session
                    .query_one("select count(*) from webhook_inbox", &[])
                    .await?;
                row.try_get::<_, i64>(0)?.unsigned_abs()
            }
        };
        self.account.check(self.program.name(), stored)
    }
}
