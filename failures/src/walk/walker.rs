//! Walking through one world.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use sandbox::faults::{FaultPlan, Rates};
use sandbox::provider::life::Life;
use sandbox::seed::Seed;
use sandbox::servers::{Backup, Disk, PostgresOptions};
use tokio::time::Instant;

use super::application::Application;
use super::choice;
use super::report::{Story, Telling};
use super::state::State;
use crate::oracle::Verdict;
use crate::world::{Kind, Setup, World};

/// The longest moment between two operations.
const MOMENT: Duration = Duration::from_millis(300);
/// The broker's disk, which is twice as large as the stream may get.
const DISK: u64 = 128 << 20;
/// Between two looks at how many deliveries were answered.
const LOOK: Duration = Duration::from_millis(10);
/// A walk through one world, from its start to its end.
#[derive(Debug, Clone, Copy)]
pub struct Chapter {
    /// What it follows from.
    pub seed: Seed,
    /// How often everything is mended, waited for and judged.
    pub stretches: u64,
    /// Operations in each stretch.
    pub operations: u64,
}

impl Chapter {
    /// Walks. What was done is in `story` however it ends; when it ends badly, it is printed too.
    ///
    /// # Panics
    /// With what is wrong.
    pub async fn walk(self, story: &Arc<Story>) -> Verdict {
        let mut walker = Walker::new(self.seed, Arc::clone(story)).await;
        let mut verdict = Verdict::default();
        for stretch in 0..self.stretches {
            let steps = stretch * self.operations..(stretch + 1) * self.operations;
            walker.stretch(steps).await;
            verdict = walker.judge().await;
            walker.story.0.judged(&verdict);
            assert!(verdict.faults.is_empty(), "{verdict}");
        }
        walker.world.end().await;
        verdict
    }
}

pub(super) struct Walker {
    // Before the server that it is a copy of, which takes it along.
    pub(super) backup: Option<Backup>,
    pub(super) world: World,
    /// Holds a lock on the rows for as long as it is there.
    pub(super) lock: Option<tokio_postgres::Client>,
    // After the broker that keeps its store there.
    pub(super) disk: Disk,
    pub(super) state: State,
    pub(super) application: Application,
    pub(super) seed: Seed,
    pub(super) story: Telling,
    /// How many deeds there were, and secrets.
    pub(super) deeds: u64,
    pub(super) rotations: u64,
    /// The stream's own limit.
    pub(super) stream_limit: i64,
    /// Whether somebody changed rows that nothing but a rebuild puts right.
    pub(super) corrupted: bool,
    /// Whether they were so when the database was backed up.
    pub(super) backup_is_corrupted: bool,
    /// Whether right deliveries may have been answered 400 since they were last counted, and how many were by then.
    pub(super) refusals_excused: bool,
    pub(super) refused: u64,
    /// When all was quiet for the last time.
    settled: Instant,
}

impl Walker {
    async fn new(seed: Seed, story: Arc<Story>) -> Self {
        let disk = Disk::new(DISK).unwrap_or_else(|e| panic!("{e}"));
        let rng = &mut seed.rng("world", 0);
        let mode = ["auto", "plain", "batch"][rng.random_range(0..3)];
        let setup = Setup {
            seed,
            ingresses: rng.random_range(1..=3),
            projectors: rng.random_range(1..=3),
            reconcilers: rng.random_range(1..=2),
            // Two to five seconds, so that some deliveries outlive an outage and others do not.
            speed: 500.0,
            attempt_limit: Duration::from_secs(3),
            concurrency: 64,
            faults: FaultPlan::new(seed, Rates::rough()),
            life: Life {
                redelivery_window: Duration::from_millis(100),
                ..Life::default()
            },
            postgres: Some(PostgresOptions {
                backups: true,
                ..PostgresOptions::default()
            }),
            ..Setup::default()
        };
        let mut setup = setup.set(Kind::Ingress, "APPEND_MODE", mode);
        setup.nats.store = Some(disk.path().join("store"));
        story.begins(&setup, mode);
        let world = World::with(setup).await;
        let stream_limit = world.stream().await.cached_info().config.max_bytes;
        let programs = [Kind::Ingress, Kind::Projector, Kind::Reconciler];
        let programs = programs.map(|kind| world.all(kind)).concat();
        Self {
            backup: None,
            lock: None,
            disk,
            settled: Instant::now(),
            state: State::new(programs),
            world,
            application: Application::default(),
            seed,
            story: Telling(story),
            deeds: 0,
            rotations: 0,
            stream_limit,
            corrupted: false,
            backup_is_corrupted: false,
            refusals_excused: false,
            refused: 0,
        }
    }

    /// Operations under load, and then everything is mended and waited for.
    async fn stretch(&mut self, steps: std::ops::Range<u64>) {
        let per_second = self.seed.rng("load", steps.start).random_range(10..60);
        let load = self.world.load(per_second);
        for step in steps {
            let operation = choice::next(&self.state, &mut self.seed.rng("operation", step));
            self.story.0.does(operation);
            self.perform(operation).await;
            self.everybody_lives();
            self.record().await;
            self.moment(step).await;
        }
        while let Some(breakage) = self.state.to_mend() {
            self.story.0.mends(breakage);
            self.mend(breakage).await;
        }
        load.stop().await;
        self.record().await;
        self.story.0.waits();
        // From here on the provider's attempts follow each other fast: no delivery may use them up on who is about to be ready.
        self.world.programs_are_ready().await;
        if std::mem::take(&mut self.corrupted) {
            self.world.rebuild().await;
        }
        self.world.provider_is_quiet().await;
        if self.redeliver_what_nobody_can_fetch() > 0 {
            self.world.provider_is_quiet().await;
        }
        self.world.settle().await;
        for who in self.state.must_have_been_ready() {
            self.world.stayed_ready(who, self.settled);
        }
        self.state.settled();
        self.settled = Instant::now();
    }

    /// Whoever should run does.
    fn everybody_lives(&mut self) {
        let programs = self.state.programs().to_vec();
        for who in programs.into_iter().filter(|who| self.state.runs(*who)) {
            self.world.is_alive(who);
        }
    }

    async fn record(&mut self) {
        if self.state.database_writes() {
            self.application.record(&self.world).await;
        }
    }

    /// Lets some deliveries be answered before the next operation, if they are.
    async fn moment(&self, step: u64) {
        let rng = &mut self.seed.rng("moment", step);
        let wanted = self.world.tally().answered() + rng.random_range(0..15);
        let end = Instant::now() + MOMENT.mul_f64(rng.random());
        while self.world.tally().answered() < wanted && Instant::now() < end {
            tokio::time::sleep(LOOK).await;
        }
    }
}
