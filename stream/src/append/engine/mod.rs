//! What becomes of every event, decided without I/O and without a clock.
//!
//! Events come in by [`Engine::submit`], the broker's answers by [`Engine::replied`], time by the argument `now`.
//! Messages for the broker come out in [`Engine::output`], answers go to those who asked. Every event that came in
//! gets exactly one answer, at its deadline at the latest; nothing is kept of it afterwards but its id.
//!
//! An event passes through these steps:
//!
//! - It waits until [`Pace`] sends it, by itself or in a batch.
//! - Its receipt says *stored*: done. *Not now*: it is published again in a moment, until its deadline. *Duplicate*:
//!   the message that the broker has is read back and compared. A batch is rejected: its events are published again
//!   by themselves, so that each gets its own receipt.
//! - The message read back is the same result: done. Otherwise the event is published under a second id.
//!
//! After a reconnect everything that was under way begins again; ids make that safe.

mod entry;
mod finish;
mod receive;
mod send;
mod surroundings;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use async_nats::message::OutboundMessage;
use async_nats::{HeaderMap, Subject};
use schemas::event::{Event, Subjects};
use tokio::sync::oneshot;

use super::metrics::Metrics;
use super::outcome::{AppendError, Appended};
use super::pace::{BATCH_EVENTS, Pace};
use super::probe::Look;
use super::recent::{Fingerprint, IdKey, Known, RecentIds};
use super::standing::Standing;
use entry::{Batch, Callers, Entry, Phase};
pub(super) use entry::{Compared, Comparison};

/// Most events kept at once, and most bytes of them: a second line behind the limits of the callers.
const MOST_EVENTS: usize = 16_384;
const MOST_BYTES: usize = 256 << 20;

/// Most messages that wait for the client to take them: when the connection is clogged, events wait before that, where
/// they expire.
const MOST_OUTPUT: usize = 2 * BATCH_EVENTS;

/// Most events that wait for another one with the same id.
const MOST_FOLLOWERS: usize = 64;

pub(super) type Answer = Result<Appended, AppendError>;

/// An event to append, and who wants to know.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) event: Event,
    /// The event's headers for the first attempt, built by the caller so that the work is spread.
    pub(super) headers: HeaderMap,
    pub(super) fingerprint: Fingerprint,
    /// Headers and body together, in bytes.
    pub(super) size: usize,
    pub(super) deadline: Instant,
    pub(super) caller: oneshot::Sender<Answer>,
}

/// What stays the same for the life of an appender.
#[derive(Debug, Clone)]
pub(super) struct Fixed {
    pub(super) stream: String,
    pub(super) subjects: Subjects,
    /// Answers of the broker come to subjects below this one.
    pub(super) inbox: String,
    /// First part of the ids of batches: different in every process.
    pub(super) batch_prefix: String,
    /// Where a stored message is asked for.
    pub(super) read_subject: Subject,
    pub(super) max_message: usize,
    /// Longest time an event takes from its arrival to its answer.
    pub(super) limit: Duration,
}

/// Names one event or batch that is under way. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Token(u64);

/// See the module.
#[derive(Debug)]
pub(super) struct Engine {
    fixed: Fixed,
    pace: Pace,
    recent: RecentIds,
    metrics: Metrics,
    entries: HashMap<Token, Entry>,
    /// Events that wait or are under way, by id.
    by_id: HashMap<IdKey, Token>,
    waiting: VecDeque<Token>,
    waiting_bytes: usize,
    bytes: usize,
    batches: HashMap<Token, Batch>,
    deadlines: BTreeSet<(Instant, Token)>,
    retries: VecDeque<(Instant, Token)>,
    wake: Option<Instant>,
    next_token: u64,
    /// The stream at the last look; None when it was not there.
    look: Option<Look>,
    /// Whether events are being stored.
    pub(super) standing: Standing,
    /// Since when there is no connection; None while there is one.
    disconnected: Option<Instant>,
    /// Messages for the broker, in order.
    pub(super) output: VecDeque<OutboundMessage>,
    /// Comparisons to be made outside.
    pub(super) comparisons: Vec<Comparison>,
}

impl Engine {
    pub(super) fn new(fixed: Fixed, pace: Pace, recent: RecentIds, metrics: Metrics) -> Self {
        Self {
            fixed,
            pace,
            recent,
            metrics,
            entries: HashMap::new(),
            by_id: HashMap::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            bytes: 0,
            batches: HashMap::new(),
            deadlines: BTreeSet::new(),
            retries: VecDeque::new(),
            wake: None,
            next_token: 0,
            look: None,
            standing: Standing::default(),
            disconnected: None,
            output: VecDeque::new(),
            comparisons: Vec::new(),
        }
    }

    /// Whether nothing waits and nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.entries.is_empty()
    }

    /// An event to append.
    pub(super) fn submit(&mut self, request: Request, now: Instant) {
        self.pace.came(now);
        if now >= request.deadline {
            return self.refuse(request.caller, self.too_late(None));
        }
        if self
            .disconnected
            .is_some_and(|since| now.saturating_duration_since(since) >= self.fixed.limit)
        {
            return self.refuse(request.caller, AppendError::Disconnected);
        }
        if request.size > self.fixed.max_message {
            return self.refuse(
                request.caller,
                AppendError::TooLarge {
                    limit: self.fixed.max_message,
                },
            );
        }
        let key = self.recent.key(&request.event.msg_id);
        if let Some(token) = self.by_id.get(&key) {
            let token = *token;
            return self.join(token, request);
        }
        let known = self
            .recent
            .get(key, now)
            .filter(|known| self.still_holds(known.seq));
        if let Some(Known { seq, fingerprint }) = known
            && fingerprint == request.fingerprint
        {
            self.metrics.recent_hits.inc();
            return self.answer(request.caller, Ok(Appended::Duplicate { seq }));
        }
        if self.entries.len() >= MOST_EVENTS || self.bytes + request.size > MOST_BYTES {
            return self.refuse(request.caller, AppendError::Overloaded);
        }
        let token = self.admit(key, request, now);
        match known {
            // The broker would call it a duplicate, and reject a whole batch for it.
            Some(known) if self.disconnected.is_none() => self.read(token, known.seq),
            Some(_) | None => self.wait(token),
        }
    }

    /// An event whose id is under way: shares the outcome when it is the same, follows it when it is not.
    fn join(&mut self, token: Token, request: Request) {
        let entry = self.entries.get_mut(&token).expect("ids under way have entries");
        if entry.fingerprint == request.fingerprint {
            self.metrics.shared.inc();
            entry.callers.others.push(request.caller);
        } else if entry.followers.len() < MOST_FOLLOWERS {
            entry.followers.push(request);
        } else {
            self.refuse(request.caller, AppendError::Overloaded);
        }
    }

    fn admit(&mut self, key: IdKey, request: Request, now: Instant) -> Token {
        let Request {
            event,
            headers,
            fingerprint,
            size,
            deadline,
            caller,
        } = request;
        let token = self.token();
        self.bytes += size;
        self.by_id.insert(key, token);
        self.deadlines.insert((deadline, token));
        let entry = Entry {
            event,
            divergent: None,
            headers: Some(headers),
            fingerprint,
            key,
            size,
            since: now,
            deadline,
            callers: Callers {
                first: caller,
                others: Vec::new(),
            },
            followers: Vec::new(),
            phase: Phase::Waiting,
            step: 0,
            paced: None,
            refusal: None,
        };
        self.entries.insert(token, entry);
        self.metrics.outstanding.set(self.entries.len() as i64);
        token
    }

    fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }

    fn wait(&mut self, token: Token) {
        let entry = self
            .entries
            .get_mut(&token)
            .expect("only events with an entry wait");
        entry.phase = Phase::Waiting;
        self.waiting_bytes += entry.size;
        self.waiting.push_back(token);
    }
}
