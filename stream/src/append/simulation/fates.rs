//! Does every event get the answer that is true?

use std::time::Duration;

use schemas::event::Kind;

use super::broker::{Broker, SYNCED};
use super::{HOP, LIMIT, Simulation, numbered, result};
use crate::append::outcome::{AppendError, Appended};
use crate::append::pace::Way;
use crate::append::probe::Look;
use crate::append::settings::Mode;

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
fn a_body_without_a_result_that_is_gone_is_stored_again_under_its_second_id() {
    let mut simulation = Simulation::new(Mode::Auto, Way::Plain, SYNCED);
    let no_json = result("t", "\"", 1);
    assert_eq!(no_json.kind, Kind::Quarantine);
    for (seq, event) in [(1, numbered(7)), (3, no_json)] {
        simulation.append(event.clone()).unwrap();
        simulation.broker.delete(seq);
        simulation.engine.connected(true, 8 << 20, simulation.now);
        let seq = seq as u64 + 1;
        assert_eq!(simulation.append(event.clone()), Ok(Appended::Divergent { seq }));
        assert_eq!(simulation.append(event), Ok(Appended::Duplicate { seq }));
    }
}

#[test]
fn a_repeat_of_an_event_that_a_purge_deleted_is_stored_again() {
    let mut simulation = Simulation::new(Mode::Auto, Way::Plain, SYNCED);
    let look = |first_seq| {
        Some(Look {
            created: 1,
            first_seq,
            full: false,
        })
    };
    simulation.engine.looked(look(1));
    simulation.append(result("t", "yes", 1)).unwrap();
    simulation.broker.delete(1);
    simulation.engine.looked(look(2));
    assert_eq!(
        simulation.append(result("t", "yes", 1)),
        Ok(Appended::Divergent { seq: 2 })
    );
}

#[test]
fn what_was_stored_on_a_stream_that_was_deleted_is_stored_on_its_successor() {
    let mut simulation = Simulation::new(Mode::Auto, Way::Plain, SYNCED);
    let look = |created| {
        Some(Look {
            created,
            first_seq: 0,
            full: false,
        })
    };
    simulation.engine.looked(look(1));
    simulation.append(result("t", "yes", 1)).unwrap();
    simulation.broker = Broker::new(SYNCED, simulation.now);
    simulation.engine.looked(look(2));
    assert_eq!(
        simulation.append(result("t", "yes", 1)),
        Ok(Appended::Stored { seq: 1 })
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
