//! What every section works with.

use std::sync::Arc;

use anyhow::Result;
use sandbox::clock::Clock;
use sandbox::provider::secrets::Secret;
use sandbox::seed::Seed;

use crate::config::Effort;
use crate::figures::{Case, Metric, Section, Setting, Subject};
use crate::load::{Batch, Closed, Mint, Size};
use crate::measured::Measured;
use crate::report::number;
use crate::results::Results;
use crate::stack::{Installed, Receiver};

/// More than one connection can be answered in a second: the way there and back takes longer.
const PER_CONNECTION: usize = 30_000;

/// A run: what it works with, and what it has found so far.
#[derive(Debug)]
pub struct Bench {
    /// How thoroughly.
    pub effort: Effort,
    /// Where the programs are.
    pub installed: Installed,
    /// What deliveries are signed with.
    pub secret: Secret,
    /// Where randomness comes from.
    pub seed: Seed,
    /// Tells the time.
    pub clock: Clock,
    /// Makes deliveries.
    pub mint: Mint,
    /// What was measured.
    pub results: Results,
}

/// A receiver that takes its turns with others.
#[derive(Debug)]
pub struct Contender {
    /// Which it is.
    pub subject: Subject,
    /// It.
    pub receiver: Receiver,
    /// More than it can take in a second: how much is made for it beforehand.
    pub pace: usize,
}

impl Contender {
    /// A contender of ours, or one in Rust.
    pub fn fast(subject: Subject, receiver: Receiver) -> Self {
        Self {
            subject,
            receiver,
            pace: 45_000,
        }
    }

    /// A contender in Python.
    pub fn slow(subject: Subject, receiver: Receiver) -> Self {
        Self {
            subject,
            receiver,
            pace: 4_000,
        }
    }
}

impl Bench {
    /// A run that has found nothing yet.
    pub fn new(effort: Effort, installed: Installed, clock: Clock) -> Self {
        let seed = Seed(1);
        let secret = Secret::generate(seed, 0);
        Self {
            effort,
            installed,
            mint: Mint::new(seed, secret.clone(), clock.clone()),
            secret,
            seed,
            clock,
            results: Results::default(),
        }
    }

    /// Rounds, counted from 1.
    pub fn rounds(&self) -> impl Iterator<Item = u32> + use<> {
        1..=self.effort.rounds
    }

    /// A closed loop as every section has it.
    pub fn load(&self, connections: usize) -> Closed {
        Closed {
            connections,
            lead: self.effort.lead,
            window: self.effort.window,
        }
    }

    /// As many new deliveries as a receiver of this pace may take while it is measured.
    pub fn batch(&mut self, size: Size, pace: usize, connections: usize) -> Arc<Batch> {
        let pace = match size {
            Size::Usual => pace,
            Size::Large => pace / 4,
        };
        let most = pace.min(self.effort.pace).min(connections * PER_CONNECTION) as f64
            * self.effort.span().as_secs_f64();
        Arc::new(Batch::once(self.mint.deliveries(size, most as usize)))
    }

    /// Measures the contenders in turns, a closed loop each, as many rounds as there are; and that each has stored what it
    /// acknowledged.
    ///
    /// # Errors
    /// When one of them fails.
    pub async fn in_turns(
        &mut self,
        section: Section,
        contenders: &mut [Contender],
        connections: usize,
        size: Size,
    ) -> Result<()> {
        let load = self.load(connections);
        for round in self.rounds() {
            for contender in &mut *contenders {
                let batch = self.batch(size, contender.pace, connections);
                let measured = contender.receiver.closed(&batch, load, true).await?;
                let case = Case::new(section, contender.subject, Setting::Connections(connections));
                self.record(case, round, &measured);
            }
        }
        for contender in contenders {
            contender.receiver.check().await?;
        }
        Ok(())
    }

    /// Adds a round of deliveries to the results, and says so.
    pub fn record(&mut self, case: Case, round: u32, measured: &Measured) {
        measured.record(&mut self.results, case);
        let (rate, p99) = (
            measured.outcome.rate(),
            measured.outcome.latencies.percentile(99.0),
        );
        eprintln!("  {round}  {case}: {rate:.0} a second, p99 {p99:.1} ms");
    }

    /// Adds a round of something else.
    pub fn note(&mut self, case: Case, round: u32, figures: &[(Metric, f64)]) {
        let mut said = Vec::new();
        for (metric, value) in figures {
            self.results.add(case, *metric, *value);
            said.push(format!("{} {}", number(*value), metric.head()));
        }
        eprintln!("  {round}  {case}: {}", said.join(", "));
    }
}
