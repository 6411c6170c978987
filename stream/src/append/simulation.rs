//! The engine against a simulated broker, in virtual time: does it take the better way, and does every event get the
//! answer that is true?
//!
//! The broker does what a real one was seen to do. It takes everything that has arrived, works through it, and only
//! then sends the acknowledgments. A plain message costs a fixed time; a batch a larger one, and little for each of
//! its messages; a batch with one known id is rejected as a whole. Nothing here is random, so a run that fails fails
//! again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use async_nats::message::OutboundMessage;
use async_nats::{HeaderMap, Message, StatusCode, header};
use bytes::Bytes;
use schemas::event::{Event, Kind, MsgId, Source, Subjects, Trace, Via, classify};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use super::engine::{Answer, Engine, Fixed, Request};
use super::metrics::Metrics;
use super::outcome::{AppendError, Appended};
use super::pace::{Pace, Way};
use super::recent::RecentIds;
use super::settings::Mode;
use super::wire::{self, Reading};

const STREAM: &str = "ANSWERS";
const LIMIT: Duration = Duration::from_secs(5);
/// One way over the network.
const HOP: Duration = Duration::from_micros(40);

/// What things cost the broker.
#[derive(Clone, Copy)]
struct Costs {
    plain: Duration,
    batch: Duration,
    batched: Duration,
}

/// Syncs before it acknowledges.
const SYNCED: Costs = Costs {
    plain: Duration::from_micros(200),
    batch: Duration::from_micros(2_200),
    batched: Duration::from_micros(15),
};

/// Acknowledges what is in the page cache; a batch is no cheaper for that.
const CACHED: Costs = Costs {
    plain: Duration::from_micros(15),
    ..SYNCED
};

struct Broker {
    costs: Costs,
    arriving: VecDeque<(Instant, OutboundMessage)>,
    busy_until: Instant,
    stored: Vec<(String, Bytes)>,
    ids: HashMap<String, usize>,
    staged: HashMap<String, Vec<(String, Bytes)>>,
    /// Takes messages and answers nothing.
    mute: bool,
}

impl Broker {
    fn new(costs: Costs, now: Instant) -> Self {
        Self {
            costs,
            arriving: VecDeque::new(),
            busy_until: now,
            stored: Vec::new(),
            ids: HashMap::new(),
            staged: HashMap::new(),
            mute: false,
        }
    }

    /// When it next has something to do.
    fn next(&self) -> Option<Instant> {
        self.arriving.front().map(|(at, _)| self.busy_until.max(*at))
    }

    /// Works through all that has arrived; the answers and when they reach the client.
    fn work(&mut self, now: Instant) -> Vec<(Instant, Message)> {
        let mut answers = Vec::new();
        self.busy_until = now;
        while self.arriving.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, message)) = self.arriving.pop_front() else {
                break;
            };
            answers.extend(self.take(message));
        }
        if self.mute {
            answers.clear();
        }
        let at = self.busy_until + HOP;
        answers.into_iter().map(|answer| (at, answer)).collect()
    }

    fn take(&mut self, message: OutboundMessage) -> Option<Message> {
        let headers = message.headers.unwrap_or_default();
        if message.subject.starts_with("$JS.API.") {
            self.busy_until += self.costs.batched;
            return message
                .reply
                .map(|reply| self.read(reply.as_str(), &message.payload));
        }
        let id = headers
            .get(header::NATS_MESSAGE_ID)
            .map(ToString::to_string)
            .unwrap_or_default();
        let Some(batch) = headers.get(header::NATS_BATCH_ID).map(ToString::to_string) else {
            self.busy_until += self.costs.plain;
            let text = match self.ids.get(&id) {
                Some(index) => format!(r#"{{"stream":"ANSWERS","seq":{},"duplicate":true}}"#, index + 1),
                None => format!(
                    r#"{{"stream":"ANSWERS","seq":{}}}"#,
                    self.store(id, message.payload)
                ),
            };
            return message.reply.map(|reply| answer(reply.as_str(), text));
        };
        self.busy_until += self.costs.batched;
        let staged = self.staged.entry(batch.clone()).or_default();
        staged.push((id, message.payload));
        headers.get(header::NATS_BATCH_COMMIT)?;
        self.busy_until += self.costs.batch;
        let staged = self.staged.remove(&batch).unwrap_or_default();
        let text = if staged.iter().any(|(id, _)| self.ids.contains_key(id)) {
            r#"{"error":{"code":400,"err_code":10201,"description":"batch contains a duplicate"}}"#.to_owned()
        } else {
            let seqs: Vec<_> = staged
                .into_iter()
                .map(|(id, body)| self.store(id, body))
                .collect();
            let last = seqs.last().copied().unwrap_or_default();
            format!(
                r#"{{"stream":"ANSWERS","seq":{last},"batch":"{batch}","count":{}}}"#,
                seqs.len()
            )
        };
        message.reply.map(|reply| answer(reply.as_str(), text))
    }

    fn store(&mut self, id: String, body: Bytes) -> usize {
        self.ids.insert(id.clone(), self.stored.len());
        self.stored.push((id, body));
        self.stored.len()
    }

    fn read(&self, reply: &str, request: &[u8]) -> Message {
        let seq: usize = String::from_utf8_lossy(request)
            .replace(|c: char| !c.is_ascii_digit(), "")
            .parse()
            .unwrap();
        let Some((id, body)) = self.stored.get(seq - 1).filter(|(id, _)| !id.is_empty()) else {
            return Message {
                status: Some(StatusCode::NOT_FOUND),
                ..answer(reply, String::new())
            };
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::NATS_MESSAGE_ID, id.as_str());
        Message {
            payload: body.clone(),
            headers: Some(headers),
            ..answer(reply, String::new())
        }
    }

    /// The message is deleted; its id stays known.
    fn delete(&mut self, seq: usize) {
        self.stored[seq - 1] = (String::new(), Bytes::new());
    }
}

fn answer(reply: &str, text: String) -> Message {
    Message {
        subject: reply.into(),
        reply: None,
        length: text.len(),
        payload: text.into(),
        headers: None,
        status: None,
        description: None,
    }
}

/// Engine, broker and clock.
struct Simulation {
    now: Instant,
    engine: Engine,
    broker: Broker,
    to_client: BinaryHeap<Reverse<(Instant, usize)>>,
    messages: Vec<Option<Message>>,
    number: u64,
}

impl Simulation {
    fn new(mode: Mode, start: Way, costs: Costs) -> Self {
        let now = Instant::now();
        let fixed = Fixed {
            stream: STREAM.to_owned(),
            subjects: Subjects::new("answers").unwrap(),
            inbox: "_INBOX.test".to_owned(),
            batch_prefix: "test-".to_owned(),
            reading: Reading::Direct,
            read_subject: "$JS.API.DIRECT.GET.ANSWERS".into(),
            max_message: 8 << 20,
            limit: LIMIT,
        };
        let recent = RecentIds::new(10_000, Duration::from_secs(300));
        let mut engine = Engine::new(fixed, Pace::new(mode, start), recent, Metrics::unregistered());
        engine.connected(true, 8 << 20, now);
        Self {
            now,
            engine,
            broker: Broker::new(costs, now),
            to_client: BinaryHeap::new(),
            messages: Vec::new(),
            number: 0,
        }
    }

    fn submit(&mut self, event: Event) -> oneshot::Receiver<Answer> {
        let (caller, answer) = oneshot::channel();
        let request = Request {
            headers: wire::headers(&event, STREAM),
            fingerprint: Sha256::digest(&event.body).into(),
            size: wire::size(&event, STREAM),
            event,
            deadline: self.now + LIMIT,
            caller,
        };
        self.engine.submit(request, self.now);
        answer
    }

    /// Lets engine and broker talk; when something is next due.
    fn exchange(&mut self) -> Option<Instant> {
        self.engine.pump(self.now);
        let at = self.now + HOP;
        self.broker
            .arriving
            .extend(self.engine.output.drain(..).map(|message| (at, message)));
        // Timers of the runtime are rounded up to the millisecond.
        let wake = self
            .engine
            .next_wake()
            .map(|at| at.max(self.now) + Duration::from_micros(900));
        let arrival = self.to_client.peek().map(|Reverse((at, _))| *at);
        [self.broker.next(), arrival, wake].into_iter().flatten().min()
    }

    /// Moves the clock; whether an answer reached the client.
    fn advance_to(&mut self, at: Instant) -> bool {
        self.now = at;
        let mut answered = false;
        if self.broker.next().is_some_and(|next| next <= at) {
            for (at, message) in self.broker.work(at) {
                self.to_client.push(Reverse((at, self.messages.len())));
                self.messages.push(Some(message));
            }
        }
        while let Some(Reverse((due, index))) = self.to_client.peek().copied()
            && due <= at
        {
            self.to_client.pop();
            if let Some(message) = self.messages[index].take() {
                self.engine.replied(message, at);
                answered = true;
            }
        }
        answered
    }

    /// Runs until nothing is under way.
    fn settle(&mut self) {
        while let Some(next) = self.exchange() {
            if self.engine.is_idle() {
                return;
            }
            self.advance_to(next);
        }
    }

    fn append(&mut self, event: Event) -> Answer {
        let mut answer = self.submit(event);
        self.settle();
        answer.try_recv().unwrap()
    }

    /// Events a second that so many callers get appended, each beginning anew soon after its answer.
    fn rate(&mut self, callers: usize, seconds: f64) -> f64 {
        let start = self.now;
        let end = start + Duration::from_secs_f64(seconds);
        let mut ready: BinaryHeap<_> = (0..callers).map(|caller| Reverse((start, caller))).collect();
        let mut waiting: Vec<Option<oneshot::Receiver<Answer>>> = (0..callers).map(|_| None).collect();
        let mut done = 0_u64;
        while self.now < end {
            while let Some(Reverse((at, caller))) = ready.peek().copied()
                && at <= self.now
            {
                ready.pop();
                self.number += 1;
                waiting[caller] = Some(self.submit(numbered(self.number)));
            }
            let next = self.exchange().unwrap_or(end);
            let next = ready.peek().map_or(next, |Reverse((at, _))| next.min(*at));
            if !self.advance_to(next) {
                continue;
            }
            for (caller, slot) in waiting.iter_mut().enumerate() {
                if let Some(answer) = slot
                    && let Ok(answer) = answer.try_recv()
                {
                    assert!(matches!(answer, Ok(Appended::Stored { .. })), "{answer:?}");
                    *slot = None;
                    done += 1;
                    // Spread over a while, as connections are.
                    let pause = Duration::from_micros(20 + done * 7919 % 160);
                    ready.push(Reverse((self.now + pause, caller)));
                }
            }
        }
        done as f64 / (self.now - start).as_secs_f64()
    }
}

/// An event that costs little to make.
fn numbered(number: u64) -> Event {
    let body = Bytes::copy_from_slice(&number.to_be_bytes());
    Event {
        kind: Kind::NonFinal,
        msg_id: MsgId::of_nonfinal(&body),
        headers: Vec::new(),
        body,
    }
}

fn result(task: &str, text: &str, sent_at: u32) -> Event {
    let body = format!(
        r#"{{"sent_at":{sent_at},"task":{{"id":"{task}","status":"COMPLETED"}},"response":"{text}"}}"#
    );
    let source = Source::new("urn:answerline").unwrap();
    classify(body.into(), Via::Webhook, &source, Trace::default())
        .into_event()
        .unwrap()
}

/// The automatic choice settles near the better of the two ways, whichever it begins with.
fn settles_on_the_better_way(costs: Costs, callers: usize) {
    let always = |mode, way| Simulation::new(mode, way, costs).rate(callers, 0.1);
    let plain = always(Mode::Plain, Way::Plain);
    let batch = always(Mode::Batch, Way::Batch);
    for start in [Way::Plain, Way::Batch] {
        let mut simulation = Simulation::new(Mode::Auto, start, costs);
        simulation.rate(callers, 0.1);
        // Long enough for a trial of the other way to be part of it, where that does not take too many events.
        let seconds = (20_000.0 / plain.max(batch)).min(1.2);
        let auto = simulation.rate(callers, seconds);
        let share = auto / plain.max(batch);
        let rates =
            format!("plain {plain:.0}, batch {batch:.0}, automatic from {start:?} {auto:.0} a second");
        assert!(share >= 0.95, "{callers} callers: {rates}");
    }
}

#[test]
fn it_settles_on_the_better_way_of_a_broker_that_syncs_from_either_start() {
    for callers in [1, 16, 64, 256] {
        settles_on_the_better_way(SYNCED, callers);
    }
}

#[test]
fn it_settles_on_the_better_way_of_a_broker_that_does_not_sync_from_either_start() {
    for callers in [1, 16, 64] {
        settles_on_the_better_way(CACHED, callers);
    }
}

#[test]
fn it_follows_a_broker_that_becomes_slow() {
    let mut simulation = Simulation::new(Mode::Auto, Way::Plain, CACHED);
    simulation.rate(64, 0.2);
    simulation.broker.costs = SYNCED;
    simulation.rate(64, 1.5);
    let plain = Simulation::new(Mode::Plain, Way::Plain, SYNCED).rate(64, 0.2);
    let late = simulation.rate(64, 0.2);
    assert!(
        late > 2.0 * plain,
        "{late:.0} with batches at hand, {plain:.0} plain"
    );
}

#[test]
fn a_lone_event_does_not_wait_for_company() {
    for mode in [Mode::Auto, Mode::Batch, Mode::Plain] {
        let mut simulation = Simulation::new(mode, Way::Batch, SYNCED);
        for number in 0..20 {
            let start = simulation.now;
            simulation.append(numbered(number)).unwrap();
            let took = simulation.now - start;
            assert_eq!(took, SYNCED.plain + 2 * HOP, "{mode:?}");
            simulation.now += Duration::from_millis(7);
        }
    }
}

#[test]
fn a_repeat_is_answered_without_the_broker() {
    let mut simulation = Simulation::new(Mode::Auto, Way::Plain, SYNCED);
    assert_eq!(
        simulation.append(result("t", "yes", 1)),
        Ok(Appended::Stored { seq: 1 })
    );
    let mut again = simulation.submit(result("t", "yes", 1));
    assert_eq!(again.try_recv().unwrap(), Ok(Appended::Duplicate { seq: 1 }));
}

#[test]
fn a_repeat_with_another_envelope_is_a_duplicate_also_when_it_is_remembered() {
    let mut simulation = Simulation::new(Mode::Auto, Way::Plain, SYNCED);
    simulation.append(result("t", "yes", 1)).unwrap();
    assert_eq!(
        simulation.append(result("t", "yes", 2)),
        Ok(Appended::Duplicate { seq: 1 })
    );
    assert_eq!(simulation.broker.stored.len(), 1);
}

#[test]
fn another_result_of_a_task_is_stored_beside_the_first_and_only_once() {
    let mut simulation = Simulation::new(Mode::Auto, Way::Plain, SYNCED);
    simulation.append(result("t", "yes", 1)).unwrap();
    assert_eq!(
        simulation.append(result("t", "no", 2)),
        Ok(Appended::Divergent { seq: 2 })
    );
    assert_eq!(
        simulation.append(result("t", "no", 3)),
        Ok(Appended::Duplicate { seq: 2 })
    );
    assert_eq!(
        simulation.append(result("t", "yes", 4)),
        Ok(Appended::Duplicate { seq: 1 })
    );
    assert_eq!(simulation.broker.stored.len(), 2);
}

#[test]
fn a_duplicate_of_a_message_that_is_gone_is_stored_again() {
    let mut simulation = Simulation::new(Mode::Auto, Way::Plain, SYNCED);
    simulation.append(result("t", "yes", 1)).unwrap();
    simulation.broker.delete(1);
    assert_eq!(
        simulation.append(result("t", "yes", 2)),
        Ok(Appended::Divergent { seq: 2 })
    );
    simulation.broker.delete(2);
    assert_eq!(
        simulation.append(result("t", "yes", 3)),
        Err(AppendError::Vanished)
    );
}

#[test]
fn equal_events_under_way_share_one_message_and_different_ones_follow() {
    let mut simulation = Simulation::new(Mode::Auto, Way::Plain, SYNCED);
    let events = [
        result("t", "yes", 1),
        result("t", "yes", 1),
        result("t", "no", 1),
        result("t", "yes", 2),
    ];
    let answers = events.map(|event| simulation.submit(event));
    simulation.settle();
    let answers = answers.map(|mut answer| answer.try_recv().unwrap().unwrap());
    let [stored, duplicate] = [Appended::Stored { seq: 1 }, Appended::Duplicate { seq: 1 }];
    assert_eq!(
        answers,
        [stored, duplicate, Appended::Divergent { seq: 2 }, duplicate]
    );
}

#[test]
fn a_rejected_batch_gives_each_caller_its_own_answer() {
    let mut simulation = Simulation::new(Mode::Batch, Way::Batch, SYNCED);
    simulation.append(result("t-5", "yes", 1)).unwrap();
    // As after a restart of this process: the broker knows the id, we do not.
    simulation.engine.connected(true, 8 << 20, simulation.now);
    // Something has to be under way for a batch to gather behind it.
    let mut first = simulation.submit(result("first", "yes", 1));
    simulation.exchange();
    let answers: Vec<_> = (0..10)
        .map(|n| simulation.submit(result(&format!("t-{n}"), "yes", 2)))
        .collect();
    simulation.settle();
    first.try_recv().unwrap().unwrap();
    let answers: Vec<_> = answers
        .into_iter()
        .map(|mut answer| answer.try_recv().unwrap().unwrap())
        .collect();
    for (number, answer) in answers.iter().enumerate() {
        let repeated = number == 5;
        assert_eq!(
            *answer == Appended::Duplicate { seq: 1 },
            repeated,
            "{number}: {answer:?}"
        );
        assert_eq!(
            matches!(answer, Appended::Stored { .. }),
            !repeated,
            "{number}: {answer:?}"
        );
    }
    assert_eq!(simulation.broker.stored.len(), 11);
}

#[test]
fn a_mute_broker_gives_an_error_at_the_limit_and_leaves_nothing_behind() {
    let mut simulation = Simulation::new(Mode::Auto, Way::Batch, SYNCED);
    simulation.broker.mute = true;
    let start = simulation.now;
    let answers: Vec<_> = (0..100)
        .map(|number| simulation.submit(numbered(number)))
        .collect();
    simulation.settle();
    for mut answer in answers {
        assert_eq!(answer.try_recv().unwrap(), Err(AppendError::TimedOut));
    }
    assert!(simulation.now - start < LIMIT + Duration::from_millis(2));
    assert_eq!(simulation.engine.next_wake(), None);

    simulation.broker.mute = false;
    let answers: Vec<_> = (0..100)
        .map(|number| simulation.submit(numbered(number)))
        .collect();
    simulation.settle();
    for mut answer in answers {
        answer.try_recv().unwrap().unwrap();
    }
}

#[test]
fn what_was_under_way_when_the_connection_was_lost_begins_again_with_the_next() {
    let mut simulation = Simulation::new(Mode::Batch, Way::Batch, SYNCED);
    let answers: Vec<_> = (0..100)
        .map(|number| simulation.submit(numbered(number)))
        .collect();
    simulation.exchange();
    // All of it reaches the broker, and no answer comes back.
    simulation.advance_to(simulation.now + HOP);
    simulation.to_client.clear();
    simulation.engine.disconnected(simulation.now);
    simulation.now += Duration::from_secs(1);
    simulation.engine.connected(true, 8 << 20, simulation.now);
    simulation.settle();
    for mut answer in answers {
        answer.try_recv().unwrap().unwrap();
    }
    assert_eq!(simulation.broker.stored.len(), 100);
}

#[test]
fn without_a_connection_events_wait_for_the_limit_and_later_ones_are_refused_at_once() {
    let mut simulation = Simulation::new(Mode::Auto, Way::Plain, SYNCED);
    simulation.engine.disconnected(simulation.now);
    let start = simulation.now;
    assert_eq!(simulation.append(numbered(1)), Err(AppendError::Disconnected));
    assert!(simulation.now - start >= LIMIT);
    let mut refused = simulation.submit(numbered(2));
    assert_eq!(refused.try_recv().unwrap(), Err(AppendError::Disconnected));
}
