//! Which way the next events go, and how long they wait for company: a decision without I/O and without a clock.
//!
//! There are two ways. *Plain*: every event is published at once, and a broker that syncs before it acknowledges
//! syncs for each one. *Batch*: events are gathered into an atomic batch, which costs the broker a constant few
//! syncs however many there are, so long as one batch at a time is in flight. With `n` events under way at once
//! the first takes about `n·p`, the second `B + n·b`. Which is less depends on the disk, the replicas and the
//! load, so both are measured, and now and then the other way is tried.
//!
//! Two things make the measurements mean something. A measurement of either way begins when nothing is
//! outstanding: one that queues behind other events measures the queue. And what the trials cost is bounded:
//! after one, the next waits for a hundred times what it cost.

mod company;
mod measure;

use std::time::Instant;

use super::settings::Mode;
use company::{ECHO, Last};
use measure::{Burst, Group, seconds};

/// Most events in one batch; the broker takes 1,000 unless told otherwise.
pub(super) const BATCH_EVENTS: usize = 500;

/// Most bytes of bodies in one batch.
pub(super) const BATCH_BYTES: usize = 4 << 20;

/// Fewest and most acknowledgments in one measurement of the plain way while there always are events outstanding.
/// Between the two it is one turn of all that are: a broker sends its acknowledgments in convoys, and part of one
/// would measure nothing.
const WINDOW: (usize, usize) = (16, 256);

/// Events published plainly to try that way while batches are the rule.
const PLAIN_TRIAL: usize = 32;

/// Batches in a row to try them while plain is the rule; the best one counts.
const BATCH_TRIALS: u8 = 3;

/// What to do with the events that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Publish this many, each by itself.
    Plain(usize),
    /// Publish this many as one batch.
    Batch(usize),
    /// Nothing yet; ask again when something changes, and at the latest then.
    Hold(Option<Instant>),
}

/// What there is to decide about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue {
    /// Events that wait. Not zero.
    pub(super) waiting: usize,
    /// How many of them, from the first on, fit into one batch.
    pub(super) batchable: usize,
    /// When the first one began to wait.
    pub(super) since: Instant,
}

/// The way that events take until something better is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Way {
    /// Each by itself, at once.
    Plain,
    /// Gathered.
    Batch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    None,
    /// That many batches are still to be tried. None yet in flight: what is outstanding has to come back first.
    Batches(u8),
}

/// The state of the decision.
#[derive(Debug)]
pub(super) struct Pace {
    mode: Mode,
    batches_allowed: bool,
    way: Way,
    trial: Trial,
    next_trial: Option<Instant>,
    /// Seconds an event takes in a plain burst.
    plain: Option<f64>,
    /// Seconds a batch takes apart from its events.
    batch: Option<f64>,
    /// The best batch of the present trial, and what the trial has cost so far, in seconds.
    tried: (Option<f64>, f64),
    /// Events under way at once, lately.
    load: f64,
    outstanding: usize,
    burst: Option<Burst>,
    group: Option<Group>,
    last: Last,
}

impl Pace {
    pub(super) fn new(mode: Mode, start: Way) -> Self {
        Self {
            mode,
            batches_allowed: true,
            way: start,
            trial: Trial::None,
            next_trial: None,
            plain: None,
            batch: None,
            tried: (None, 0.0),
            load: 0.0,
            outstanding: 0,
            burst: None,
            group: None,
            last: Last::none(),
        }
    }

    /// Whether the broker takes batches at all. Known at each connect.
    pub(super) fn allow_batches(&mut self, allowed: bool) {
        self.batches_allowed = allowed;
        if !allowed {
            self.trial = Trial::None;
        }
    }

    /// The way that the events take now.
    pub(super) fn way(&self) -> Way {
        match self.mode {
            _ if !self.batches_allowed => Way::Plain,
            Mode::Plain => Way::Plain,
            Mode::Batch => Way::Batch,
            Mode::Auto => self.way,
        }
    }

    /// What to do with what waits.
    pub(super) fn decide(&mut self, queue: Queue, now: Instant) -> Decision {
        if self.way() == Way::Plain {
            if self.trial == Trial::None && self.batch_trial_is_due(now) {
                self.trial = Trial::Batches(BATCH_TRIALS);
                self.tried = (None, 0.0);
                self.last.events = self.load as usize;
                self.last.took = seconds(self.load * self.plain.unwrap_or_default());
            }
            if self.trial == Trial::None {
                return self.plainly(queue);
            }
        }
        if self.outstanding > 0 {
            return Decision::Hold(None);
        }
        if queue.batchable == queue.waiting
            && let Some(until) = self.last.wait(queue)
            && now < until
        {
            return Decision::Hold(Some(until));
        }
        let events = queue.batchable;
        if events <= 1 {
            return Decision::Plain(1);
        }
        if self.mode == Mode::Batch || self.trial != Trial::None {
            return Decision::Batch(events);
        }
        match self.plain {
            _ if self.plain_trial_is_due(events, now) => Decision::Plain(events.min(PLAIN_TRIAL)),
            Some(plain) if events as f64 * plain < self.batch_takes(events).unwrap_or_default() => {
                Decision::Plain(events)
            }
            Some(_) | None => Decision::Batch(events),
        }
    }

    /// Everything at once; but few while nothing is known yet, for a slow disk would make a long lesson of many.
    fn plainly(&self, queue: Queue) -> Decision {
        let has_choice = self.mode == Mode::Auto && self.batches_allowed;
        if !has_choice || self.plain.is_some() {
            return Decision::Plain(queue.waiting);
        }
        match PLAIN_TRIAL.saturating_sub(self.outstanding) {
            0 => Decision::Hold(None),
            room => Decision::Plain(queue.waiting.min(room)),
        }
    }

    /// An event came.
    pub(super) fn came(&mut self, now: Instant) {
        let soon = |done| now.saturating_duration_since(done) <= self.last.took / ECHO;
        self.last.echo += usize::from(self.last.done.is_some_and(soon));
    }

    /// Events were sent.
    pub(super) fn sent(&mut self, decision: Decision, now: Instant) {
        let (way, events) = match decision {
            Decision::Plain(events) => (Way::Plain, events),
            Decision::Batch(events) => (Way::Batch, events),
            Decision::Hold(_) => return,
        };
        if way == Way::Plain && self.outstanding == 0 {
            self.burst = Some(Burst {
                start: now,
                acked: 0,
                peak: 0,
            });
        }
        if self.way() == Way::Batch || self.trial != Trial::None {
            self.group = Some(Group {
                way,
                events,
                sent: now,
            });
        }
        self.outstanding += events;
        if let Some(burst) = &mut self.burst {
            burst.peak = burst.peak.max(self.outstanding);
        }
    }

    /// The fate of one sent event is known, while so many wait; `measured` unless it was not an acknowledgment that
    /// settled it.
    pub(super) fn settled(&mut self, measured: bool, waiting: usize, now: Instant) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if !measured {
            self.burst = None;
        }
        if let Some(burst) = &mut self.burst {
            burst.acked += 1;
            if self.outstanding == 0 || burst.acked >= burst.peak.clamp(WINDOW.0, WINDOW.1) {
                let burst = *burst;
                self.burst = (self.outstanding > 0).then_some(Burst {
                    start: now,
                    acked: 0,
                    peak: self.outstanding,
                });
                self.plain_burst_ended(burst, now);
            }
        }
        if self.outstanding == 0
            && let Some(group) = self.group.take()
        {
            self.group_ended(group, measured, waiting, now);
        }
    }

    /// The connection was lost: what was under way says nothing any more.
    pub(super) fn forget_measurements_under_way(&mut self) {
        self.burst = None;
        self.group = None;
        self.trial = Trial::None;
    }
}
