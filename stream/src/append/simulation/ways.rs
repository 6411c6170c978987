//! Does it take the better way?

use std::time::Duration;

use super::broker::{CACHED, Costs, SYNCED};
use super::{HOP, Simulation, numbered};
use crate::append::pace::Way;
use crate::append::settings::Mode;

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
