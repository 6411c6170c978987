//! What comes next: it follows from the seed and from what is broken, and from nothing that was observed.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::operation::{Breakage, Change, Deed, Ill, Operation, Order, Wrong};
use super::state::{State, sides};

/// With so many things broken, the next operation mends one as often as not.
const USUALLY_BROKEN: f64 = 3.0;

/// How often each is chosen, against the others.
const CHOICES: &[(u32, Choice)] = &[
    (8, Choice::Burst),
    (6, Choice::Lose),
    (3, Choice::Deed(Deed::Reverse)),
    (3, Choice::Deed(Deed::SubmitByKey)),
    (2, Choice::Deed(Deed::TestDelivery)),
    (2, Choice::Deed(Deed::NonFinal)),
    (2, Choice::Deed(Deed::Unreadable)),
    (2, Choice::Deed(Deed::Divergent(false))),
    (2, Choice::Deed(Deed::Divergent(true))),
    (4, Choice::Deed(Deed::Redeliver)),
    (2, Choice::Deed(Deed::DeleteConsumer)),
    (1, Choice::Deed(Deed::ChangeConsumer(Change::Filter))),
    (1, Choice::Deed(Deed::ChangeConsumer(Change::MaxDeliver))),
    (1, Choice::Deed(Deed::ChangeConsumer(Change::Limits))),
    (2, Choice::Deed(Deed::EndSessions)),
    (3, Choice::Deed(Deed::BackUp)),
    (3, Choice::Deed(Deed::PutBack)),
    (2, Choice::Deed(Deed::PowerCut)),
    (2, Choice::Deed(Deed::Corrupt)),
    (3, Choice::Rebuild),
    (10, Choice::Kill),
    (7, Choice::Stop),
    (3, Choice::Freeze),
    (14, Choice::Link),
    (4, Choice::Breakage(Breakage::BrokerKilled)),
    (2, Choice::Breakage(Breakage::BrokerFrozen)),
    (2, Choice::Breakage(Breakage::StreamFull)),
    (2, Choice::Breakage(Breakage::DiskFull)),
    (4, Choice::Breakage(Breakage::DatabaseKilled)),
    (2, Choice::Breakage(Breakage::DatabaseFrozen)),
    (2, Choice::Breakage(Breakage::ReadOnly)),
    (2, Choice::Breakage(Breakage::RowsLocked)),
    (2, Choice::Breakage(Breakage::ApiAway)),
    (6, Choice::Api),
    (1, Choice::Breakage(Breakage::Rotation(Order::ReceiverFirst))),
    (1, Choice::Breakage(Breakage::Rotation(Order::SenderFirst))),
    (1, Choice::Breakage(Breakage::Rotation(Order::OutOfOrder))),
    (5, Choice::Look),
];

#[derive(Debug, Clone, Copy)]
enum Choice {
    Deed(Deed),
    Breakage(Breakage),
    Burst,
    Lose,
    Rebuild,
    Kill,
    Stop,
    Freeze,
    Link,
    Api,
    Look,
}

const ILLS: &[Ill] = &[
    Ill::Cut,
    Ill::Mute,
    Ill::AnswersHeld,
    Ill::RequestsHeld,
    Ill::Slow,
];

const WRONGS: &[Wrong] = &[
    Wrong::TooMany,
    Wrong::TooManyForHowLong,
    Wrong::Unavailable,
    Wrong::Broken,
    Wrong::Denied,
    Wrong::Unknown,
    Wrong::Elsewhere,
    Wrong::Silence,
    Wrong::Cut,
    Wrong::OtherTask,
    Wrong::Test,
    Wrong::NotJson,
    Wrong::Nothing,
];

/// What comes next.
pub(super) fn next(state: &State, rng: &mut StdRng) -> Operation {
    let mendable = state.mendable();
    let broken = f64::from(u32::try_from(mendable.len()).unwrap_or(u32::MAX));
    if rng.random_bool(broken / (broken + USUALLY_BROKEN)) {
        let mended = mendable.choose(rng).expect("of nothing, nothing is mended");
        return Operation::Mend(*mended);
    }
    loop {
        let (_, choice) = CHOICES
            .choose_weighted(rng, |(weight, _)| *weight)
            .expect("the list is not empty");
        if let Some(operation) = choice.fill_in(state, rng) {
            return operation;
        }
    }
}

impl Choice {
    /// The choice with its details, if it is possible now.
    fn fill_in(self, state: &State, rng: &mut StdRng) -> Option<Operation> {
        let program = |rng: &mut StdRng| *state.programs().choose(rng).expect("a world has programs");
        let breakage = match self {
            Choice::Look => return Some(Operation::Look),
            Choice::Burst => return Some(Operation::Do(Deed::Burst(rng.random_range(5..=60)))),
            Choice::Lose => return Some(Operation::Do(Deed::Lose(rng.random_range(1..=12)))),
            Choice::Rebuild => return Some(Operation::Do(Deed::Rebuild(rng.random_range(1..=100)))),
            Choice::Deed(deed) => return state.can_be_done(deed).then_some(Operation::Do(deed)),
            Choice::Breakage(breakage) => breakage,
            Choice::Kill => Breakage::Killed(program(rng)),
            Choice::Stop => Breakage::Stopped(program(rng)),
            Choice::Freeze => Breakage::Frozen(program(rng)),
            Choice::Link => {
                let who = program(rng);
                let side = sides(who.kind()).choose(rng)?;
                let ill = ILLS.choose(rng)?;
                Breakage::Link(who, *side, *ill)
            }
            Choice::Api => Breakage::ApiWrong(*WRONGS.choose(rng)?, rng.random_range(1..=8)),
        };
        state.can_break(breakage).then_some(Operation::Break(breakage))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sandbox::seed::Seed;

    use super::*;
    use crate::world::Who;

    fn walk(seed: u64, steps: u64) -> Vec<Operation> {
        let programs = vec![
            Who::Ingress(0),
            Who::Ingress(1),
            Who::Projector(0),
            Who::Reconciler(0),
        ];
        let mut state = State::new(programs);
        let mut done = Vec::new();
        for step in 0..steps {
            let operation = next(&state, &mut Seed(seed).rng("operation", step));
            match operation {
                Operation::Break(breakage) => state.broke(breakage),
                Operation::Mend(breakage) => state.mended(breakage),
                Operation::Do(Deed::BackUp) => state.backed_up = true,
                Operation::Do(_) | Operation::Look => {}
            }
            done.push(operation);
        }
        done
    }

    #[test]
    fn a_walk_follows_from_its_seed() {
        assert_eq!(walk(7, 300), walk(7, 300));
        assert_ne!(walk(7, 300), walk(8, 300));
    }

    #[test]
    fn a_long_walk_does_everything_and_mends_about_as_much_as_it_breaks() {
        let done = walk(7, 5_000);
        let kinds: BTreeSet<String> = done.iter().map(|operation| operation.kind()).collect();
        for (_, choice) in CHOICES {
            let all = match choice {
                Choice::Deed(deed) => vec![Operation::Do(*deed).kind()],
                Choice::Breakage(breakage) => vec![Operation::Break(*breakage).kind()],
                Choice::Kill => ["ingress", "projector", "reconciler"]
                    .map(|name| format!("kill {name}"))
                    .into(),
                Choice::Link => ILLS.iter().map(|ill| format!("link: {ill}")).collect(),
                Choice::Burst
                | Choice::Lose
                | Choice::Rebuild
                | Choice::Stop
                | Choice::Freeze
                | Choice::Api
                | Choice::Look => continue,
            };
            for kind in all {
                assert!(kinds.contains(&kind), "{kind}");
            }
        }
        let breaks = done.iter().filter(|it| matches!(it, Operation::Break(_))).count();
        let mends = done.iter().filter(|it| matches!(it, Operation::Mend(_))).count();
        assert!(
            breaks.abs_diff(mends) < 12 && mends > 1_000,
            "{breaks} broken, {mends} mended"
        );
    }
}
