//! One look at everything: what can be settled, what got too old, what is due.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use database::DatabaseError;
use service::Chain;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::check::{Checker, Step};
use crate::gate::Closed;
use crate::log::Progress;
use crate::submissions::{Aged, Ages, Claim, Claimed, Counts, Due, Filled, Settled};

/// Pages of submissions that one sweep looks through for rows that came; where there are more, the next sweep goes on.
const PAGES: u32 = 4;
/// What is under way when a stop is requested may take so much longer. The rest is due again when its lease ends.
const FINISH: Duration = Duration::from_secs(5);

/// What a sweep found and did.
#[derive(Debug, Clone, Default)]
pub struct Swept {
    /// Submissions settled.
    pub settled: Settled,
    /// Task ids found.
    pub filled: u64,
    /// Submissions that got too old.
    pub aged: Aged,
    /// Tasks asked for.
    pub asked: usize,
    /// Results appended.
    pub appended: usize,
    /// How things stand now.
    pub counts: Counts,
    /// How far the projection is.
    pub progress: Option<Progress>,
    /// More may be due.
    pub more: bool,
    /// Why not all that is due was asked for.
    pub held: Option<Held>,
}

/// Why the provider is not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// The gate is closed.
    Closed(Closed),
    /// The projection is too far behind.
    Lag,
    /// Nothing can be appended.
    Stream,
}

impl Checker {
    /// One sweep. None when a stop was requested before it was over.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn sweep(self: &Arc<Self>) -> Result<Option<Swept>, DatabaseError> {
        let Some(prepared) = self.stop.unless_requested(self.prepare()).await else {
            return Ok(None);
        };
        let (mut swept, progress) = prepared?;
        if swept.held.is_none() {
            self.ask(progress, &mut swept).await?;
        }
        let Some(counts) = self.stop.unless_requested(self.submissions.counts()).await else {
            return Ok(None);
        };
        swept.counts = counts?;
        self.conditions.database.ok();
        self.tell(&swept);
        Ok(Some(swept))
    }

    /// Everything that needs no provider.
    async fn prepare(&self) -> Result<(Swept, Progress), DatabaseError> {
        // First: what is projected by now is settled after that, and not asked for.
        let (progress, held) = match self.log.look().await {
            Ok(progress) => {
                self.conditions.stream.ok();
                self.metrics
                    .lag
                    .set(i64::try_from(progress.lag).unwrap_or(i64::MAX));
                let behind = progress.lag > self.pace.max_lag;
                (progress, behind.then_some(Held::Lag))
            }
            Err(error) => {
                self.conditions.stream.failing(&Chain(&error).to_string());
                (Progress::UNKNOWN, Some(Held::Stream))
            }
        };
        self.conditions.progress.beat();
        let filled = self.fill().await?;
        let settled = self.settle().await?;
        let ages = Ages {
            overdue: self.pace.overdue_after,
            critical: self.pace.critical_after,
            lost: self.pace.lost_after,
        };
        let aged = self
            .submissions
            .age(ages, progress.floor, progress.last_seq)
            .await?;
        Self::tell_aged(aged);
        let swept = Swept {
            filled: filled.all,
            settled,
            aged,
            held,
            progress: held.is_none_or(|held| held != Held::Stream).then_some(progress),
            ..Swept::default()
        };
        Ok((swept, progress))
    }

    /// Finds the ids of submissions that have none, a page at a time.
    async fn fill(&self) -> Result<Filled, DatabaseError> {
        let mut filled = Filled::default();
        let Some(rules) = self.submissions.rules(&self.log.stream).await? else {
            // Nothing was projected yet.
            return Ok(filled);
        };
        let mut after = 0;
        while let Some(page) = self.submissions.unknown_after(after).await? {
            after = page.last;
            let found = self.submissions.fill(&page, rules, self.pace.lost_after).await?;
            filled.all += found.all;
            filled.merged += found.merged;
            self.conditions.progress.beat();
        }
        Ok(filled)
    }

    /// Settles what has its row: of those that are due next, and of some more, so that a sweep takes its time however many
    /// there are. The next one goes on where this one ended.
    async fn settle(&self) -> Result<Settled, DatabaseError> {
        let mut settled = self.submissions.settle_due().await?;
        let mut after = self.sweeping.settled_up_to.load(Ordering::Relaxed);
        for page in 1.. {
            self.conditions.progress.beat();
            let some = self.submissions.settle_behind(after).await?;
            settled.all += some.all;
            settled.recovered += some.recovered;
            after = some.more_behind.unwrap_or(0);
            if after == 0 || (page == PAGES && !self.thorough) {
                break;
            }
        }
        self.sweeping.settled_up_to.store(after, Ordering::Relaxed);
        Ok(settled)
    }

    /// Asks for what is due, as many at a time as the gate lets through.
    async fn ask(self: &Arc<Self>, progress: Progress, swept: &mut Swept) -> Result<(), DatabaseError> {
        self.standing.try_again().await;
        let mut calls: JoinSet<Result<Step, DatabaseError>> = JoinSet::new();
        let mut failed = None;
        let mut left = self.pace.sweep_limit;
        // However much is due, rows that came meanwhile are looked for now and then.
        let until = Instant::now() + self.pace.sweep_interval;
        swept.more = true;
        loop {
            let room = self.standing.gate.room(calls.len()).min(left);
            let time_left = left == self.pace.sweep_limit || Instant::now() < until;
            let goes_on = swept.more
                && time_left
                && swept.held.is_none()
                && failed.is_none()
                && !self.stop.is_requested();
            if goes_on && room > 0 {
                let Some(claimed) = self.finishing(self.claim(room, progress)).await else {
                    break;
                };
                match claimed {
                    Ok(due) => {
                        self.conditions.progress.beat();
                        swept.more = due.len() == room;
                        left -= due.len();
                        for due in due {
                            let checker = Arc::clone(self);
                            calls.spawn(async move { checker.check(due).await });
                        }
                        continue;
                    }
                    Err(error) => failed = Some(error),
                }
            }
            let Some(joined) = self.finishing(calls.join_next()).await.flatten() else {
                break;
            };
            self.conditions.progress.beat();
            let step = match joined {
                Ok(step) => step,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            };
            match step {
                Ok(Step::Asked) => swept.asked += 1,
                Ok(Step::Appended) => {
                    swept.asked += 1;
                    swept.appended += 1;
                }
                Ok(Step::Released) => {}
                Ok(Step::StreamFails) => {
                    swept.asked += 1;
                    swept.held = Some(Held::Stream);
                }
                Err(error) => failed = Some(error),
            }
            if failed.is_none() {
                failed = self.standing.resolve_doubt().await.err();
            }
        }
        swept.held = swept.held.or(self.standing.gate.closed().map(Held::Closed));
        failed.map_or(Ok(()), Err)
    }

    /// Up to `most` that are due. None when the provider is not to be asked.
    async fn claim(&self, most: usize, progress: Progress) -> Result<Vec<Due>, DatabaseError> {
        let claim = Claim {
            most,
            lease: self.pace.lease,
            floor: progress.floor,
            last_seq: progress.last_seq,
            kept: self.pace.lost_after,
        };
        match self.submissions.claim(claim).await? {
            Claimed::Due(due) => Ok(due),
            Claimed::Paused(rest) => {
                self.standing.gate.paused(rest, rand::random());
                Ok(Vec::new())
            }
        }
    }

    /// Awaits `work`, for a while yet when a stop is requested. None when it is not over then.
    async fn finishing<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.finish_is_over() => None,
        }
    }

    /// Pends until a stop was requested that long ago.
    async fn finish_is_over(&self) {
        self.stop.requested().await;
        let end = self.sweeping.end.get_or_init(|| Instant::now() + FINISH);
        tokio::time::sleep_until(*end).await;
    }

    /// Metrics, and one line when something happened.
    fn tell(&self, swept: &Swept) {
        let m = &self.metrics;
        m.settled.inc_by(swept.settled.all + swept.filled);
        m.recovered.inc_by(swept.settled.recovered);
        m.filled.inc_by(swept.filled);
        m.count(&swept.counts);
        m.closed(self.standing.gate.closed().map(|closed| closed.why));
        let waits = swept.held == Some(Held::Lag);
        m.waiting.set(i64::from(waits));
        if self.sweeping.waited.swap(waits, Ordering::Relaxed) != waits {
            match swept.progress {
                Some(Progress {
                    lag, consumer: false, ..
                }) if waits => warn!(
                    lag,
                    consumer = self.pace.consumer,
                    "nobody projects the stream, so nothing is asked for: is a projector running, and --consumer its consumer?"
                ),
                Some(Progress { lag, .. }) if waits => {
                    info!(
                        lag,
                        "the projection is far behind; asking for nothing until it is not"
                    );
                }
                _ => info!("the projection has caught up"),
            }
        }
        // Not for each of the calls that only find the provider wanting to be left alone still.
        if swept.settled.all + swept.filled + swept.asked as u64 > 0 && self.standing.gate.closings() <= 1 {
            info!(
                asked = swept.asked,
                appended = swept.appended,
                settled = swept.settled.all,
                recovered = swept.settled.recovered,
                ids_found = swept.filled,
                outstanding = swept.counts.outstanding,
                "swept the submissions"
            );
        }
    }

    /// Said as soon as it is so: a stop may end the sweep before it is over.
    fn tell_aged(aged: Aged) {
        let Aged {
            overdue,
            critical,
            lost,
        } = aged;
        if overdue > 0 {
            warn!(
                overdue,
                "submissions are overdue: their results should have come by now"
            );
        }
        if critical > 0 {
            warn!(
                critical,
                "submissions wait for far too long; `reconciler report` lists them"
            );
        }
        if lost > 0 {
            warn!(
                lost,
                "submissions are given up: the provider keeps their results no longer; `reconciler report` lists them"
            );
        }
    }

    /// Waits until the next sweep is due, unless a stop is requested before. False then.
    pub async fn pause(&self, swept: Option<&Swept>) -> bool {
        let interval = self.pace.sweep_interval;
        let wait = match swept {
            // What is due is asked for without a pause.
            Some(Swept {
                more: true,
                held: None,
                ..
            }) => Duration::ZERO,
            Some(Swept {
                held: Some(Held::Closed(closed)),
                ..
            }) => interval.min(closed.until - Instant::now()),
            _ => interval,
        };
        self.stop
            .unless_requested(tokio::time::sleep(wait))
            .await
            .is_some()
    }
}
