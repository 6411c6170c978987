//! What holds whatever happens: any events, in any order, on a connection that breaks at any time.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use schemas::event::{Event, Fact};
use tokio::sync::oneshot;

use super::broker::{CACHED, SYNCED};
use super::{HOP, Simulation, result};
use crate::append::engine::Answer;
use crate::append::outcome::Appended;
use crate::append::pace::Way;
use crate::append::settings::Mode;

#[derive(Debug, Clone)]
enum Step {
    /// A delivery: which task, with which result, in which envelope.
    Append(u8, u8, u8),
    /// Time passes, and with it whatever is due.
    Pass(u64),
    /// The connection breaks: what the broker was sent it may or may not have had, its answers are lost.
    Break { arrived: bool },
    /// There is a connection again.
    Mend,
    /// The broker forgets the id of nothing, but an operator deletes a message.
    Delete(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..6_u8, 0..2_u8, 0..2_u8).prop_map(|(task, text, sent)| Step::Append(task, text, sent)),
        6 => (1..3_000_u64).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(|arrived| Step::Break { arrived }),
        2 => Just(Step::Mend),
        1 => any::<u8>().prop_map(Step::Delete),
    ]
}

struct Run {
    simulation: Simulation,
    appended: Vec<(Event, oneshot::Receiver<Answer>)>,
    connected: bool,
    deleted: bool,
}

impl Run {
    fn new(mode: Mode, way: Way, synced: bool) -> Self {
        let costs = if synced { SYNCED } else { CACHED };
        let simulation = Simulation::new(mode, way, costs);
        Self {
            simulation,
            appended: Vec::new(),
            connected: true,
            deleted: false,
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Append(task, text, sent) => {
                let event = result(&format!("t-{task}"), &format!("r-{text}"), u32::from(sent));
                let answer = self.simulation.submit(event.clone());
                self.appended.push((event, answer));
                self.simulation.exchange();
            }
            Step::Pass(micros) => self.pass(Duration::from_micros(micros)),
            Step::Break { arrived } if self.connected => {
                self.connected = false;
                if arrived {
                    self.simulation.broker.work(self.simulation.now + HOP);
                } else {
                    self.simulation.broker.arriving.clear();
                }
                self.simulation.broker.staged.clear();
                self.simulation.to_client.clear();
                self.simulation.engine.disconnected(self.simulation.now);
            }
            Step::Mend if !self.connected => {
                self.connected = true;
                self.simulation
                    .engine
                    .connected(true, 8 << 20, self.simulation.now);
            }
            Step::Delete(seq) if usize::from(seq) < self.simulation.broker.stored.len() => {
                self.deleted = true;
                self.simulation.broker.delete(usize::from(seq) + 1);
            }
            Step::Break { .. } | Step::Mend | Step::Delete(_) => {}
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.simulation.now + time;
        while let Some(next) = self.simulation.exchange()
            && next < end
        {
            self.simulation.advance_to(next);
        }
        self.simulation.advance_to(end);
    }

    /// Everything that was appended, with its answer, once nothing is under way.
    fn settled(mut self) -> (Vec<(Event, Answer)>, Simulation, bool) {
        self.step(&Step::Mend);
        self.simulation.settle();
        let answered = self.appended.into_iter().map(|(event, mut answer)| {
            let answer = answer.try_recv().expect("every event has exactly one answer");
            (event, answer)
        });
        (answered.collect(), self.simulation, self.deleted)
    }
}

fn modes() -> impl Strategy<Value = (Mode, Way)> {
    prop_oneof![
        Just((Mode::Plain, Way::Plain)),
        Just((Mode::Batch, Way::Batch)),
        Just((Mode::Auto, Way::Plain)),
        Just((Mode::Auto, Way::Batch)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_was_acknowledged_is_on_the_stream_and_no_result_is_there_twice(
        (mode, way) in modes(),
        synced in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let mut run = Run::new(mode, way, synced);
        for step in &steps {
            run.step(step);
        }
        let (answered, simulation, deleted) = run.settled();
        let stored = &simulation.broker.stored;
        for (event, answer) in &answered {
            // An operator who deletes a message after its acknowledgment takes the proof with it.
            if let Ok(appended) = answer && !deleted {
                let found = &stored[usize::try_from(appended.seq()).unwrap() - 1];
                prop_assert_eq!(Fact::read(&found.body), event.fact(), "{:?}", appended);
            }
            if let Ok(Appended::Stored { seq }) = answer && !deleted {
                let found = &stored[usize::try_from(*seq).unwrap() - 1];
                prop_assert_eq!(&found.id, event.msg_id.as_str());
            }
        }
        let mut copies: HashMap<Fact, usize> = HashMap::new();
        for fact in stored.iter().filter_map(|found| Fact::read(&found.body)) {
            *copies.entry(fact).or_default() += 1;
        }
        prop_assert!(copies.values().all(|copies| *copies == 1), "{copies:?}");
        prop_assert_eq!(simulation.engine.next_wake(), None, "something is left behind");
    }
}
