//! Projectors that share the work on one stream.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use nix::sys::signal::Signal;
use sandbox::program::{Program, samples};
use tokio::time::sleep;

use super::{Broker, Installed};
use crate::figures::Metric;
use crate::process::{cpu, memory};

/// How often progress is looked at: a hundredth of the shortest time that is measured.
const LOOK: Duration = Duration::from_millis(10);
/// After this long without progress a projector is stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most that a batch may be set to: a number of events is reached before it.
const MOST_BYTES: &str = "64MiB";
/// What a projector counts of the messages that it has dealt with.
const DONE: [&str; 4] = [
    "projector_rows_applied_total",
    "projector_events_unchanged_total",
    "projector_events_parked_total",
    "projector_events_nonfinal_total",
];

/// Some projectors with one consumer. They end when dropped.
#[derive(Debug)]
pub struct Projectors {
    programs: Vec<Program>,
}

/// Events that were made into rows.
#[derive(Debug, Clone)]
pub struct Projected {
    /// Events a second, from the first commit that was seen to the last.
    pub rate: f64,
    /// Events to a transaction, on average.
    pub batch: f64,
    /// The most memory that one of the projectors held, in MB.
    pub memory: f64,
    /// Their CPU time.
    pub cpu: Duration,
}

impl Projectors {
    /// So many projectors of the stream of `broker`, that write to the database at `url`. They do not run yet.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn new(
        installed: &Installed,
        count: usize,
        broker: &Broker,
        url: &str,
        consumer: &str,
    ) -> Result<Self> {
        let mut programs = Vec::new();
        for _ in 0..count {
            let mut program = Program::new("projector", installed.projector.clone())?;
            program.arguments(&["run"]);
            program.set("NATS_URL", broker.urls());
            program.set("STREAM_REPLICAS", broker.replicas());
            program.set("DATABASE_URL", url);
            program.set("CONSUMER", consumer);
            programs.push(program);
        }
        Ok(Self { programs })
    }

    /// Lets them bring at most so many events into a transaction, of however many bytes, from the next start on.
    pub fn at_most(&mut self, events: usize) {
        for program in &mut self.programs {
            program.set("BATCH_MESSAGES", events);
            program.set("BATCH_BYTES", MOST_BYTES);
        }
    }

    /// Starts them; returns when all are ready.
    ///
    /// # Errors
    /// When one does not become ready.
    pub async fn start(&mut self) -> Result<()> {
        for program in &mut self.programs {
            program.start()?;
        }
        for program in &mut self.programs {
            program.wait_ready().await?;
        }
        Ok(())
    }

    /// Starts them, waits until they have dealt with `events`, and stops them.
    ///
    /// # Errors
    /// When they end by themselves, or get stuck.
    pub async fn project(&mut self, events: u64) -> Result<Projected> {
        for program in &mut self.programs {
            program.start()?;
        }
        let rate = self.watch(events).await?;
        let processes = self.processes();
        let mut peak = 0.0_f64;
        for process in &processes {
            peak = peak.max(memory::peak(&[*process])?);
        }
        let messages = self.sum(&["projector_batch_messages_sum"]).await;
        let batches = self.sum(&["projector_batch_messages_count"]).await;
        let projected = Projected {
            rate,
            batch: messages / batches,
            memory: peak,
            cpu: cpu::of(&processes)?,
        };
        self.stop().await?;
        Ok(projected)
    }

    /// Asks them to stop, and waits.
    ///
    /// # Errors
    /// When one does not end well.
    pub async fn stop(&mut self) -> Result<()> {
        for program in &self.programs {
            program.signal(Signal::SIGTERM);
        }
        for program in &mut self.programs {
            match program.wait_ended(PATIENCE).await {
                Some(status) if status.success() => {}
                Some(status) => bail!("a projector ended with {status}:\n{}", program.log_tail()),
                None => bail!("a projector does not stop"),
            }
        }
        Ok(())
    }

    /// Waits until they have dealt with `events`; gives the rate, from the first look that saw any to the one that saw all.
    async fn watch(&mut self, events: u64) -> Result<f64> {
        let mut last = (0.0, Instant::now());
        let (mut first, all) = (None, events as f64);
        loop {
            let done = self.sum(&DONE).await;
            let now = Instant::now();
            if done > last.0 {
                last = (done, now);
                let (some, since) = *first.get_or_insert(last);
                if done >= all {
                    ensure!(done > some, "{events} events are too few to see a rate");
                    ensure!(
                        done == all,
                        "{done} events were projected, and there are {events}"
                    );
                    return Ok((done - some) / (now - since).as_secs_f64());
                }
            }
            for program in &mut self.programs {
                if let Some(status) = program.ended() {
                    bail!("a projector ended with {status}:\n{}", program.log_tail());
                }
            }
            ensure!(
                last.1.elapsed() < PATIENCE,
                "the projectors are stuck at {done} of {events} events"
            );
            sleep(LOOK).await;
        }
    }

    /// The sum of these metrics of all of them; one that does not answer yet has none.
    async fn sum(&self, metrics: &[&str]) -> f64 {
        let mut sum = 0.0;
        for program in &self.programs {
            if let Ok((_, page)) = program.page("/metrics").await {
                sum += metrics.iter().map(|metric| samples(&page, metric)).sum::<f64>();
            }
        }
        sum
    }

    fn processes(&self) -> Vec<u32> {
        self.programs.iter().filter_map(Program::pid).collect()
    }
}

impl Projected {
    /// What is reported of it, when it was of so many events.
    pub fn figures(&self, events: u64) -> [(Metric, f64); 4] {
        [
            (Metric::Rate, self.rate),
            (Metric::CpuOwn, self.cpu.as_secs_f64() / (events as f64 / 1_000.0)),
            (Metric::Memory, self.memory),
            (Metric::Batch, self.batch),
        ]
    }
}
