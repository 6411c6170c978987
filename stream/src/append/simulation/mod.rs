//! The engine against a simulated broker, in virtual time: does it take the better way, and does every event get the
//! answer that is true?
//!
//! The broker does what a real one was seen to do. It takes everything that has arrived, works through it, and only
//! then sends the acknowledgments. A plain message costs a fixed time; a batch a larger one, and little for each of
//! its messages; a batch with one known id is rejected as a whole. Nothing here is random, so a run that fails fails
//! again.

mod broker;
mod fates;
mod laws;
mod ways;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use async_nats::Message;
use bytes::Bytes;
use schemas::event::{Event, Kind, MsgId, Source, Subjects, Trace, Via, classify};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use super::engine::{Answer, Engine, Fixed, Request};
use super::metrics::Metrics;
use super::outcome::Appended;
use super::pace::{Pace, Way};
use super::recent::RecentIds;
use super::settings::Mode;
use super::wire;
use broker::{Broker, Costs};

const STREAM: &str = "ANSWERS";
const LIMIT: Duration = Duration::from_secs(5);
/// One way over the network.
const HOP: Duration = Duration::from_micros(40);

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
            read_subject: "$JS.API.STREAM.MSG.GET.ANSWERS".into(),
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
