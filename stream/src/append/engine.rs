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

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use async_nats::message::OutboundMessage;
use async_nats::{HeaderMap, Message, Subject};
use bytes::Bytes;
use schemas::event::{Event, Kind, Subjects};
use tokio::sync::oneshot;

use super::metrics::Metrics;
use super::outcome::{AppendError, Appended};
use super::pace::{BATCH_BYTES, BATCH_EVENTS, Decision, Pace, Queue, Way};
use super::recent::{Fingerprint, IdKey, Known, RecentIds};
use super::verdict::{self, Verdict};
use super::wire::{self, ReadBack, Reading, Receipt};

/// Most events kept at once, and most bytes of them: a second line behind the limits of the callers.
const MOST_EVENTS: usize = 16_384;
const MOST_BYTES: usize = 256 << 20;

/// Most events that wait for another one with the same id.
const MOST_FOLLOWERS: usize = 64;

/// The pause before an event is published again that the broker could not take.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Bodies from this size on are compared outside of the engine, so that they hold nobody up.
const LARGE_BODY: usize = 64 * 1024;

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
    pub(super) reading: Reading,
    /// Where a stored message is asked for.
    pub(super) read_subject: Subject,
    pub(super) max_message: usize,
    /// Longest time an event takes from its arrival to its answer.
    pub(super) limit: Duration,
}

/// Names one event or batch that is under way. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Token(u64);

/// A comparison to be made outside of the engine.
#[derive(Debug)]
pub(super) struct Comparison {
    token: Token,
    step: u32,
    seq: u64,
    event: Event,
    id: Option<String>,
    body: Bytes,
}

/// A comparison that was made.
#[derive(Debug)]
pub(super) struct Compared {
    token: Token,
    step: u32,
    seq: u64,
    verdict: Verdict,
}

impl Comparison {
    pub(super) fn make(self) -> Compared {
        let Self {
            token,
            step,
            seq,
            event,
            id,
            body,
        } = self;
        Compared {
            token,
            step,
            seq,
            verdict: verdict::compare(&event, Some((id.as_deref(), &body))),
        }
    }
}

#[derive(Debug)]
struct Entry {
    event: Event,
    /// The event under its second id, once its own turned out to belong to another result.
    divergent: Option<Event>,
    headers: Option<HeaderMap>,
    fingerprint: Fingerprint,
    key: IdKey,
    size: usize,
    since: Instant,
    deadline: Instant,
    callers: Callers,
    /// Events with the same id and another body, which begin when this one is done.
    followers: Vec<Request>,
    phase: Phase,
    /// Counts the questions put to the broker. Answers to earlier ones are not answers to the present one.
    step: u32,
    /// Counted by the pace as outstanding since then.
    paced: Option<(Way, Instant)>,
    /// Why the broker could not take it.
    refusal: Option<String>,
}

impl Entry {
    /// The event as it is published: under its own id, or under its second one.
    fn published(&self) -> &Event {
        self.divergent.as_ref().unwrap_or(&self.event)
    }
}

/// Almost always one.
#[derive(Debug)]
struct Callers {
    first: oneshot::Sender<Answer>,
    /// Those who brought the same event while it was under way.
    others: Vec<oneshot::Sender<Answer>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting,
    Publishing,
    /// The message under this sequence is being read.
    Reading(u64),
    /// The message under this sequence is being compared.
    Comparing,
}

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
    batches: HashMap<Token, Vec<Token>>,
    deadlines: BTreeSet<(Instant, Token)>,
    retries: VecDeque<(Instant, Token)>,
    wake: Option<Instant>,
    next_token: u64,
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
        let known = self.recent.get(key, now);
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

    /// Sends what is to be sent now. To be called after everything else, and when [`Engine::wake`] says so.
    pub(super) fn pump(&mut self, now: Instant) {
        self.expire(now);
        self.retry(now);
        self.wake = None;
        if self.disconnected.is_some() {
            return;
        }
        while let Some(first) = self.waiting.front() {
            let since = self.entries[first].since;
            let queue = Queue {
                waiting: self.waiting.len(),
                batchable: self.batchable(),
                since,
            };
            let decision = self.pace.decide(queue, now);
            self.metrics
                .batching
                .set(i64::from(self.pace.way() == Way::Batch));
            match decision {
                Decision::Hold(until) => {
                    self.wake = until;
                    return;
                }
                Decision::Plain(events) => {
                    self.pace.sent(decision, now);
                    for token in self.take(events) {
                        self.paced(token, Way::Plain, now);
                        self.publish(token);
                    }
                }
                Decision::Batch(events) => {
                    self.pace.sent(decision, now);
                    let tokens = self.take(events);
                    self.publish_batch(tokens, now);
                }
            }
        }
    }

    /// When [`Engine::pump`] has to be called at the latest.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        let retry = self.retries.front().map(|(at, _)| *at);
        [deadline, retry, self.wake].into_iter().flatten().min()
    }

    /// How many of the events that wait fit into one batch.
    fn batchable(&self) -> usize {
        // A message near the limit has no room for the headers of a batch; one of those goes by itself.
        let fits = |size: usize| size + wire::BATCH_HEADERS <= self.fixed.max_message;
        let mut bytes = 0;
        let sizes = self
            .waiting
            .iter()
            .take(BATCH_EVENTS)
            .map(|token| self.entries[token].size);
        if self.waiting_bytes <= BATCH_BYTES
            && self.waiting_bytes + wire::BATCH_HEADERS <= self.fixed.max_message
        {
            return self.waiting.len().min(BATCH_EVENTS);
        }
        sizes
            .take_while(|size| {
                bytes += size;
                bytes <= BATCH_BYTES && fits(*size)
            })
            .count()
            .max(1)
    }

    fn take(&mut self, events: usize) -> Vec<Token> {
        let tokens: Vec<_> = self.waiting.drain(..events.min(self.waiting.len())).collect();
        let bytes: usize = tokens.iter().map(|token| self.entries[token].size).sum();
        self.waiting_bytes -= bytes;
        tokens
    }

    fn paced(&mut self, token: Token, way: Way, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.paced = Some((way, now));
        }
    }

    /// Publishes one event by itself.
    fn publish(&mut self, token: Token) {
        let message = self.message(token, None);
        self.output.push_back(message);
    }

    fn publish_batch(&mut self, tokens: Vec<Token>, now: Instant) {
        let batch = self.token();
        let id = format!("{}{}", self.fixed.batch_prefix, batch.0);
        self.metrics.batch_events.observe(tokens.len() as f64);
        let mut deadline = now;
        for (index, token) in tokens.iter().enumerate() {
            self.paced(*token, Way::Batch, now);
            deadline = deadline.max(self.entries[token].deadline);
            let last = index + 1 == tokens.len();
            let mut message = self.message(*token, Some(batch).filter(|_| last));
            let headers = message.headers.get_or_insert_default();
            wire::put_into_batch(headers, &id, index + 1, last);
            if !last {
                message.reply = None;
            }
            self.output.push_back(message);
        }
        self.deadlines.insert((deadline, batch));
        self.batches.insert(batch, tokens);
    }

    /// The message that publishes an event; a receipt for the whole batch goes to the batch.
    fn message(&mut self, token: Token, batch: Option<Token>) -> OutboundMessage {
        let entry = self
            .entries
            .get_mut(&token)
            .expect("only events with an entry are published");
        entry.phase = Phase::Publishing;
        let headers = match entry.headers.take() {
            Some(headers) => headers,
            None => wire::headers(entry.published(), &self.fixed.stream),
        };
        let reply = match batch {
            Some(batch) => reply_subject(&self.fixed.inbox, batch, 0),
            None => reply_subject(&self.fixed.inbox, token, entry.step),
        };
        OutboundMessage {
            subject: Subject::from(self.fixed.subjects.of(entry.event.kind)),
            reply: Some(reply),
            payload: entry.event.body.clone(),
            headers: Some(headers),
        }
    }

    fn read(&mut self, token: Token, seq: u64) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        entry.phase = Phase::Reading(seq);
        entry.step += 1;
        self.metrics.reads.inc();
        self.output.push_back(OutboundMessage {
            subject: self.fixed.read_subject.clone(),
            reply: Some(reply_subject(&self.fixed.inbox, token, entry.step)),
            payload: wire::read_request(seq),
            headers: None,
        });
    }

    /// An answer of the broker.
    pub(super) fn replied(&mut self, message: Message, now: Instant) {
        let Some((token, step)) = parse_reply(&self.fixed.inbox, &message.subject) else {
            return;
        };
        if let Some(members) = self.batches.remove(&token) {
            return self.batch_replied(token, members, &message, now);
        }
        // Too late, or the answer to an earlier question: the event has gone on without it.
        let Some(entry) = self.entries.get_mut(&token).filter(|entry| entry.step == step) else {
            return;
        };
        match entry.phase {
            Phase::Publishing => {
                let receipt = wire::receipt(&message, self.fixed.max_message);
                self.settle(token, !matches!(receipt, Receipt::NotNow(_)), now);
                self.received(token, receipt, now);
            }
            Phase::Reading(seq) => match wire::read_back(self.fixed.reading, message) {
                ReadBack::Found { id, body } => self.found(token, seq, id, body, now),
                ReadBack::Gone => self.judged(token, seq, Verdict::Other, now),
                ReadBack::NotNow(reason) => self.later(token, reason, now),
            },
            Phase::Waiting | Phase::Comparing => {}
        }
    }

    fn received(&mut self, token: Token, receipt: Receipt, now: Instant) {
        let divergent = self
            .entries
            .get(&token)
            .is_some_and(|entry| entry.divergent.is_some());
        match receipt {
            Receipt::Stored(seq) if divergent => self.finish(token, Ok(Appended::Divergent { seq }), now),
            Receipt::Stored(seq) => self.finish(token, Ok(Appended::Stored { seq }), now),
            Receipt::Duplicate(seq) => self.read(token, seq),
            Receipt::NotNow(reason) | Receipt::NoBatches(reason) => self.later(token, reason, now),
            Receipt::Refused(error) => self.finish(token, Err(error), now),
        }
    }

    fn batch_replied(&mut self, batch: Token, members: Vec<Token>, message: &Message, now: Instant) {
        self.deadlines.retain(|(_, token)| *token != batch);
        let last = members.len() as u64 - 1;
        match wire::receipt(message, self.fixed.max_message) {
            Receipt::Stored(seq) => {
                for (index, token) in members.into_iter().enumerate() {
                    self.settle(token, true, now);
                    if self.entries.contains_key(&token) {
                        let seq = seq - (last - index as u64);
                        self.finish(token, Ok(Appended::Stored { seq }), now);
                    }
                }
            }
            refusal => {
                if let Receipt::NoBatches(_) = refusal {
                    self.pace.allow_batches(false);
                }
                self.metrics.rejected_batches.inc();
                // Still outstanding for the pace: what this costs is part of what batches cost.
                for token in members {
                    if self.entries.contains_key(&token) {
                        self.publish(token);
                    }
                }
            }
        }
    }

    fn found(&mut self, token: Token, seq: u64, id: Option<String>, body: Bytes, now: Instant) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        if body == entry.event.body || body.len().max(entry.event.body.len()) < LARGE_BODY {
            let verdict = verdict::compare(entry.published(), Some((id.as_deref(), &body)));
            return self.judged(token, seq, verdict, now);
        }
        entry.phase = Phase::Comparing;
        let (step, event) = (entry.step, entry.published().clone());
        self.comparisons.push(Comparison {
            token,
            step,
            seq,
            event,
            id,
            body,
        });
    }

    /// The result of a comparison that was made outside.
    pub(super) fn compared(&mut self, compared: Compared, now: Instant) {
        let Compared {
            token,
            step,
            seq,
            verdict,
        } = compared;
        if self
            .entries
            .get(&token)
            .is_some_and(|entry| entry.step == step && entry.phase == Phase::Comparing)
        {
            self.judged(token, seq, verdict, now);
        }
    }

    fn judged(&mut self, token: Token, seq: u64, verdict: Verdict, now: Instant) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        if verdict == Verdict::Same {
            return self.finish(token, Ok(Appended::Duplicate { seq }), now);
        }
        // What is no result has no second id; and a second id whose message is gone as well leaves nothing to try.
        if entry.divergent.is_some() || matches!(entry.event.kind, Kind::NonFinal | Kind::Quarantine) {
            return self.finish(token, Err(AppendError::Vanished), now);
        }
        entry.divergent = Some(entry.event.clone().into_divergent());
        // Those prepared with the event name its first id, and are still there when a remembered id led here at once.
        entry.headers = None;
        entry.step += 1;
        self.publish(token);
    }

    fn later(&mut self, token: Token, reason: String, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.refusal = Some(reason);
            self.retries.push_back((now + RETRY_PAUSE, token));
        }
    }

    fn retry(&mut self, now: Instant) {
        while let Some((at, token)) = self.retries.front().copied()
            && at <= now
        {
            self.retries.pop_front();
            if self.disconnected.is_some() {
                continue; // all of them begin again with the next connection
            }
            match self.entries.get(&token).map(|entry| entry.phase) {
                Some(Phase::Publishing) => {
                    self.metrics.republished.inc();
                    self.publish(token);
                }
                Some(Phase::Reading(seq)) => self.read(token, seq),
                Some(Phase::Waiting | Phase::Comparing) | None => {}
            }
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some((at, token)) = self.deadlines.first().copied()
            && at <= now
        {
            self.deadlines.pop_first();
            if self.batches.remove(&token).is_some() {
                continue;
            }
            let Some(entry) = self.entries.get_mut(&token) else {
                continue;
            };
            let (phase, size, refusal) = (entry.phase, entry.size, entry.refusal.take());
            if phase == Phase::Waiting {
                self.waiting.retain(|waiting| *waiting != token);
                self.waiting_bytes -= size;
            }
            let error = self.too_late(refusal);
            self.finish(token, Err(error), now);
        }
    }

    fn too_late(&self, refusal: Option<String>) -> AppendError {
        match refusal {
            _ if self.disconnected.is_some() => AppendError::Disconnected,
            Some(reason) => AppendError::Unavailable(reason),
            None => AppendError::TimedOut,
        }
    }

    /// The broker said something about an event that the pace counts as outstanding.
    fn settle(&mut self, token: Token, measured: bool, now: Instant) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        if let Some((way, sent)) = entry.paced.take() {
            self.pace.settled(measured, self.waiting.len(), now);
            if measured {
                self.metrics
                    .acknowledged(way, now.saturating_duration_since(sent).as_secs_f64());
            }
        }
    }

    fn finish(&mut self, token: Token, answer: Answer, now: Instant) {
        self.settle(token, false, now);
        let Some(entry) = self.entries.remove(&token) else {
            return;
        };
        self.metrics.outstanding.set(self.entries.len() as i64);
        self.bytes -= entry.size;
        self.deadlines.remove(&(entry.deadline, token));
        self.by_id.remove(&entry.key);
        if let Ok(Appended::Stored { seq } | Appended::Duplicate { seq }) = answer
            && entry.divergent.is_none()
        {
            self.recent.insert(
                entry.key,
                Known {
                    seq,
                    fingerprint: entry.fingerprint,
                },
                now,
            );
        }
        for caller in entry.callers.others {
            let shared = answer
                .clone()
                .map(|appended| Appended::Duplicate { seq: appended.seq() });
            self.answer(caller, shared);
        }
        self.answer(entry.callers.first, answer);
        for follower in entry.followers {
            self.submit(follower, now);
        }
    }

    fn refuse(&self, caller: oneshot::Sender<Answer>, error: AppendError) {
        self.answer(caller, Err(error));
    }

    fn answer(&self, caller: oneshot::Sender<Answer>, answer: Answer) {
        self.metrics.answered(&answer);
        // A caller that is gone has given up; the event is none the worse for it.
        let _ = caller.send(answer);
    }

    /// The connection was lost: nothing is sent until there is one again.
    pub(super) fn disconnected(&mut self, now: Instant) {
        self.disconnected.get_or_insert(now);
        self.output.clear();
    }

    /// There is a new connection. Whatever was under way begins again, in the order in which it came, and what was
    /// known about ids is forgotten: the broker may have lost its last events.
    pub(super) fn connected(&mut self, batches_allowed: bool, max_message: usize, now: Instant) {
        self.disconnected = None;
        self.fixed.max_message = max_message;
        self.pace.allow_batches(batches_allowed);
        self.pace.forget_measurements_under_way();
        self.recent.clear();
        self.output.clear();
        self.retries.clear();
        let batches: Vec<_> = self.batches.drain().map(|(token, _)| token).collect();
        self.deadlines.retain(|(_, token)| !batches.contains(token));

        let under_way = |(token, entry): (&Token, &Entry)| (entry.phase != Phase::Waiting).then_some(*token);
        let mut again: Vec<_> = self.entries.iter().filter_map(under_way).collect();
        again.sort_unstable();
        for token in again {
            self.settle(token, false, now);
            let Some(entry) = self.entries.get_mut(&token) else {
                continue;
            };
            entry.step += 1;
            entry.divergent = None;
            self.metrics.republished.inc();
            self.publish(token);
        }
    }
}

fn reply_subject(inbox: &str, token: Token, step: u32) -> Subject {
    Subject::from(format!("{inbox}.{}.{step}", token.0))
}

fn parse_reply(inbox: &str, subject: &str) -> Option<(Token, u32)> {
    let (token, step) = subject.strip_prefix(inbox)?.strip_prefix('.')?.split_once('.')?;
    Some((Token(token.parse().ok()?), step.parse().ok()?))
}
