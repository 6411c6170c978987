//! What the measurements say, and when the other way is tried.

use std::time::{Duration, Instant};

use super::company::Last;
use super::{Pace, Trial, Way};
use crate::append::settings::Mode;

/// What one more event costs a batch, in seconds. Too small to be told apart from the constant part while the
/// load is steady; an error here is corrected by the constant part with the first batch of another size.
const BATCH_EVENT: f64 = 15e-6;

/// The other way must be this much better before it is taken.
const MARGIN: f64 = 0.9;

/// With fewer events under way a batch cannot pay: it costs at least four syncs.
const FEWEST: usize = 4;

const SHORTEST_BETWEEN_TRIALS: Duration = Duration::from_secs(1);
const LONGEST_BETWEEN_TRIALS: Duration = Duration::from_secs(60);
const TRIAL_SHARE: f64 = 100.0;

/// Events sent together, of which nothing else may be outstanding while they are gathered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) way: Way,
    pub(super) events: usize,
    pub(super) sent: Instant,
}

/// A measurement of the plain way under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Burst {
    pub(super) start: Instant,
    pub(super) acked: usize,
    /// Most events that were outstanding at once.
    pub(super) peak: usize,
}

impl Pace {
    pub(super) fn plain_burst_ended(&mut self, burst: Burst, now: Instant) {
        if self.way() == Way::Plain {
            self.loaded(burst.peak);
        }
        // A lone event measures the round trip; the more there were, the more the burst says about each.
        if burst.acked > 1 {
            let each = (now - burst.start).as_secs_f64() / burst.acked as f64;
            let weight = (burst.acked as f64 / 16.0).min(1.0);
            self.plain = Some(moved(self.plain, each, weight));
        }
        if self.way() == Way::Plain {
            self.reconsider();
        }
    }

    pub(super) fn group_ended(&mut self, group: Group, measured: bool, waiting: usize, now: Instant) {
        let took = now - group.sent;
        let echoes = 2 * self.last.echo >= self.last.events;
        self.last = Last {
            events: group.events,
            took,
            done: Some(now),
            waiting,
            echo: 0,
            echoes,
        };
        let load = group.events + if echoes { waiting } else { 0 };
        if !measured {
            return;
        }
        if group.way == Way::Plain {
            if self.way() == Way::Batch && group.events > 1 {
                let cost = took.as_secs_f64() - self.batch_takes(group.events).unwrap_or_default();
                self.put_off_trials(cost, now);
            }
            self.loaded(load);
            return self.reconsider();
        }
        let constant = (took.as_secs_f64() - group.events as f64 * BATCH_EVENT).max(0.0);
        match self.trial {
            Trial::None => {
                self.batch = Some(moved(self.batch, constant, 1.0));
                self.loaded(load);
                self.reconsider();
            }
            Trial::Batches(left) => self.tried(left, group.events, constant, now),
        }
    }

    fn tried(&mut self, left: u8, events: usize, constant: f64, now: Instant) {
        let best = self.tried.0.map_or(constant, |best: f64| best.min(constant));
        let plain = events as f64 * self.plain.unwrap_or_default();
        let cost = self.tried.1 + constant + events as f64 * BATCH_EVENT - plain;
        self.tried = (Some(best), cost);
        self.batch = Some(best);
        let hopeless = best > 2.0 * plain;
        if left > 1 && !hopeless {
            self.trial = Trial::Batches(left - 1);
            return;
        }
        self.trial = Trial::None;
        self.put_off_trials(cost, now);
        self.load = self.load.max(events as f64);
        self.reconsider();
    }

    /// That many events were under way at once. Half of what was before stays, for stragglers make small groups.
    fn loaded(&mut self, events: usize) {
        let events = events as f64;
        self.load = if self.load == 0.0 {
            events
        } else {
            (self.load + events) / 2.0
        };
    }

    /// Takes the other way if it is better by the margin, at the present load.
    fn reconsider(&mut self) {
        let (Some(plain), Some(batch)) = (self.plain, self.batch_takes(self.load as usize)) else {
            return;
        };
        let plain = plain * self.load;
        match self.way {
            Way::Plain if batch < MARGIN * plain => self.way = Way::Batch,
            Way::Batch if plain < MARGIN * batch => self.way = Way::Plain,
            Way::Plain | Way::Batch => {}
        }
    }

    pub(super) fn batch_takes(&self, events: usize) -> Option<f64> {
        self.batch.map(|constant| constant + events as f64 * BATCH_EVENT)
    }

    pub(super) fn batch_trial_is_due(&self, now: Instant) -> bool {
        self.mode == Mode::Auto
            && self.batches_allowed
            && self.plain.is_some()
            && self.load >= FEWEST as f64
            && self.next_trial.is_none_or(|next| now >= next)
    }

    pub(super) fn plain_trial_is_due(&self, events: usize, now: Instant) -> bool {
        events >= FEWEST && (self.plain.is_none() || self.next_trial.is_some_and(|next| now >= next))
    }

    fn put_off_trials(&mut self, cost: f64, now: Instant) {
        let pause = seconds(cost * TRIAL_SHARE).clamp(SHORTEST_BETWEEN_TRIALS, LONGEST_BETWEEN_TRIALS);
        self.next_trial = Some(now + pause);
    }
}

/// An estimate moved towards a sample: quickly down, slowly up, and never by more than its double at once, so that
/// one hiccup of the disk does not decide for seconds.
fn moved(estimate: Option<f64>, sample: f64, weight: f64) -> f64 {
    let Some(estimate) = estimate else { return sample };
    let share = if sample < estimate { 0.5 } else { 0.25 };
    estimate + weight * share * (sample.min(2.0 * estimate) - estimate)
}

pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(LONGEST_BETWEEN_TRIALS)
}
