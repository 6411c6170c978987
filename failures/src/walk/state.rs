//! What is broken at the moment, as far as the walk knows, and what can be done next. No I/O: the operations of a walk follow
//! from its seed alone.

use std::collections::BTreeSet;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::operation::{Breakage, Change, Deed, Ill, Operation, Order, Side, Wrong};
use crate::world::{Kind, Who};

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
    (3, Choice::Deed(Deed::BackUp)),
    (3, Choice::Deed(Deed::PutBack)),
    (2, Choice::Deed(Deed::PowerCut)),
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

/// What a program must say of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Truth {
    Ready,
    NotReady,
    Silent,
    /// Either may be true.
    Open,
}

/// What is broken.
#[derive(Debug, Clone)]
pub(super) struct State {
    programs: Vec<Who>,
    broken: Vec<Breakage>,
    pub(super) backed_up: bool,
    /// The provider was not as it should be: a reconciler that has given it a pause may still be waiting.
    provider_rests: bool,
    /// Programs that had a reason not to be ready since all was settled.
    touched: BTreeSet<Who>,
}

impl State {
    pub(super) fn new(programs: Vec<Who>) -> Self {
        Self {
            programs,
            broken: Vec::new(),
            backed_up: false,
            provider_rests: false,
            touched: BTreeSet::new(),
        }
    }

    /// What comes next.
    pub(super) fn next(&self, rng: &mut StdRng) -> Operation {
        let mendable: Vec<Breakage> = self
            .broken
            .iter()
            .copied()
            .filter(|it| self.can_be_mended(*it))
            .collect();
        let broken = f64::from(u32::try_from(mendable.len()).unwrap_or(u32::MAX));
        if rng.random_bool(broken / (broken + USUALLY_BROKEN)) {
            let mended = mendable.choose(rng).expect("of nothing, nothing is mended");
            return Operation::Mend(*mended);
        }
        loop {
            let (_, choice) = CHOICES
                .choose_weighted(rng, |(weight, _)| *weight)
                .expect("the list is not empty");
            if let Some(operation) = self.fill_in(*choice, rng) {
                return operation;
            }
        }
    }

    /// The choice with its details, if it is possible now.
    fn fill_in(&self, choice: Choice, rng: &mut StdRng) -> Option<Operation> {
        let program = |rng: &mut StdRng| *self.programs.choose(rng).expect("a world has programs");
        let breakage = match choice {
            Choice::Look => return Some(Operation::Look),
            Choice::Burst => return Some(Operation::Do(Deed::Burst(rng.random_range(5..=60)))),
            Choice::Lose => return Some(Operation::Do(Deed::Lose(rng.random_range(1..=12)))),
            Choice::Deed(deed) => return self.can_be_done(deed).then_some(Operation::Do(deed)),
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
        self.can_break(breakage).then_some(Operation::Break(breakage))
    }

    fn can_be_done(&self, deed: Deed) -> bool {
        match deed {
            Deed::DeleteConsumer | Deed::ChangeConsumer(_) => self.broker_runs(),
            Deed::BackUp => self.database_writes(),
            Deed::PutBack => self.backed_up && !self.is(Breakage::DatabaseFrozen),
            _ => true,
        }
    }

    fn can_break(&self, breakage: Breakage) -> bool {
        match breakage {
            Breakage::Killed(who) | Breakage::Stopped(who) | Breakage::Frozen(who) => self.runs(who),
            Breakage::Link(who, side, _) => self.link(who, side).is_none(),
            Breakage::BrokerKilled | Breakage::BrokerFrozen | Breakage::DiskFull => self.broker_runs(),
            Breakage::StreamFull => self.broker_runs() && !self.is(breakage),
            Breakage::DatabaseKilled | Breakage::DatabaseFrozen | Breakage::ReadOnly => {
                self.database_writes()
            }
            Breakage::ApiAway => !self.is(breakage),
            Breakage::ApiWrong(..) => !self.broken.iter().any(|it| matches!(it, Breakage::ApiWrong(..))),
            // Each ingress runs, or will start with what it is told.
            Breakage::Rotation(_) => {
                let rotating = self.broken.iter().any(|it| matches!(it, Breakage::Rotation(_)));
                let mut ingresses = self.programs.iter().filter(|who| who.kind() == Kind::Ingress);
                !rotating && ingresses.all(|who| self.runs(*who) || self.is(Breakage::Killed(*who)))
            }
        }
    }

    fn can_be_mended(&self, breakage: Breakage) -> bool {
        match breakage {
            Breakage::StreamFull => self.broker_runs(),
            _ => true,
        }
    }

    pub(super) fn broke(&mut self, breakage: Breakage) {
        let at_provider = matches!(
            breakage,
            Breakage::ApiAway | Breakage::ApiWrong(..) | Breakage::Link(_, Side::Provider, _)
        );
        self.provider_rests |= at_provider;
        self.broken.push(breakage);
        for who in &self.programs {
            if self.truth(*who) != Truth::Ready || matches!(breakage, Breakage::Rotation(_)) {
                self.touched.insert(*who);
            }
        }
    }

    pub(super) fn mended(&mut self, breakage: Breakage) {
        self.broken.retain(|it| *it != breakage);
    }

    /// What has to be mended, what others need first.
    pub(super) fn to_mend(&self) -> Option<Breakage> {
        let rank = |breakage: &Breakage| match breakage {
            Breakage::BrokerKilled | Breakage::BrokerFrozen | Breakage::DiskFull => 0,
            Breakage::DatabaseKilled | Breakage::DatabaseFrozen => 1,
            Breakage::StreamFull | Breakage::ReadOnly => 2,
            Breakage::ApiAway | Breakage::ApiWrong(..) => 3,
            Breakage::Link(..) => 4,
            Breakage::Rotation(_) => 5,
            Breakage::Killed(_) | Breakage::Stopped(_) | Breakage::Frozen(_) => 6,
        };
        self.broken.iter().copied().min_by_key(rank)
    }

    /// Everything was waited for: nobody rests any more.
    pub(super) fn settled(&mut self) {
        self.provider_rests = false;
        self.touched.clear();
    }

    /// Programs that had no reason not to be ready since all was settled. An ingress has few: a database is none. For the
    /// others there are more than are known here, such as a lock that a frozen one holds.
    pub(super) fn must_have_been_ready(&self) -> impl Iterator<Item = Who> {
        let ingresses = self.programs.iter().filter(|who| who.kind() == Kind::Ingress);
        ingresses.filter(|who| !self.touched.contains(who)).copied()
    }

    /// What must become true of what a program says of itself, if nothing changes.
    pub(super) fn truth(&self, who: Who) -> Truth {
        match self.broken.iter().find(|it| it.program() == Some(who)) {
            Some(Breakage::Stopped(_)) => return Truth::Open,
            Some(_) => return Truth::Silent,
            None => {}
        }
        let rests = who.kind() == Kind::Reconciler && self.provider_rests;
        let effects: Vec<Truth> = self.broken.iter().map(|it| effect(*it, who)).collect();
        if effects.contains(&Truth::NotReady) {
            Truth::NotReady
        } else if rests || effects.contains(&Truth::Open) {
            Truth::Open
        } else {
            Truth::Ready
        }
    }

    pub(super) fn programs(&self) -> &[Who] {
        &self.programs
    }

    pub(super) fn is(&self, breakage: Breakage) -> bool {
        self.broken.contains(&breakage)
    }

    pub(super) fn runs(&self, who: Who) -> bool {
        !self.broken.iter().any(|it| it.program() == Some(who))
    }

    pub(super) fn broker_runs(&self) -> bool {
        let bad = [Breakage::BrokerKilled, Breakage::BrokerFrozen, Breakage::DiskFull];
        !bad.into_iter().any(|breakage| self.is(breakage))
    }

    pub(super) fn database_writes(&self) -> bool {
        let bad = [
            Breakage::DatabaseKilled,
            Breakage::DatabaseFrozen,
            Breakage::ReadOnly,
        ];
        !bad.into_iter().any(|breakage| self.is(breakage))
    }

    pub(super) fn link(&self, who: Who, side: Side) -> Option<Ill> {
        self.broken.iter().find_map(|it| match it {
            Breakage::Link(at, to, ill) if (*at, *to) == (who, side) => Some(*ill),
            _ => None,
        })
    }
}

/// What a breakage does to what a program says that runs.
fn effect(breakage: Breakage, who: Who) -> Truth {
    let needs_rows = who.kind() != Kind::Ingress;
    let appends = who.kind() != Kind::Projector;
    let bad = |concerns: bool| if concerns { Truth::NotReady } else { Truth::Ready };
    match breakage {
        Breakage::BrokerKilled | Breakage::BrokerFrozen => Truth::NotReady,
        // It shows with the next thing that is to be written, and ingress alone always has one.
        Breakage::DiskFull if who.kind() == Kind::Ingress => Truth::NotReady,
        Breakage::DiskFull => Truth::Open,
        Breakage::StreamFull => bad(appends),
        Breakage::DatabaseKilled | Breakage::DatabaseFrozen | Breakage::ReadOnly => bad(needs_rows),
        Breakage::Link(at, Side::Broker | Side::Database, Ill::Slow) if at == who => Truth::Open,
        Breakage::Link(at, Side::Broker | Side::Database, _) => bad(at == who),
        // The provider's troubles are not those of a receiver; those of a reconciler show once it asks.
        Breakage::Link(_, Side::Hook | Side::Provider, _)
        | Breakage::ApiAway
        | Breakage::ApiWrong(..)
        | Breakage::Killed(_)
        | Breakage::Stopped(_)
        | Breakage::Frozen(_)
        | Breakage::Rotation(_) => Truth::Ready,
    }
}

fn sides(kind: Kind) -> &'static [Side] {
    match kind {
        Kind::Ingress => &[Side::Broker, Side::Hook],
        Kind::Projector => &[Side::Broker, Side::Database],
        Kind::Reconciler => &[Side::Broker, Side::Database, Side::Provider],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sandbox::seed::Seed;

    use super::*;

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
            let operation = state.next(&mut Seed(seed).rng("operation", step));
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
                Choice::Burst | Choice::Lose | Choice::Stop | Choice::Freeze | Choice::Api | Choice::Look => {
                    continue;
                }
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

    #[test]
    fn an_ingress_must_stay_ready_through_what_does_not_concern_it() {
        let mut state = State::new(vec![Who::Ingress(0), Who::Ingress(1), Who::Projector(0)]);
        state.broke(Breakage::DatabaseKilled);
        state.broke(Breakage::Link(Who::Ingress(1), Side::Broker, Ill::Slow));
        state.mended(Breakage::DatabaseKilled);
        assert_eq!(
            state.must_have_been_ready().collect::<Vec<_>>(),
            [Who::Ingress(0)]
        );
        state.broke(Breakage::BrokerKilled);
        state.mended(Breakage::BrokerKilled);
        assert_eq!(state.must_have_been_ready().count(), 0);
        state.settled();
        assert_eq!(state.must_have_been_ready().count(), 1);
    }

    #[test]
    fn everything_is_mended_in_the_end_servers_first() {
        let mut state = State::new(vec![Who::Ingress(0)]);
        for breakage in [
            Breakage::Killed(Who::Ingress(0)),
            Breakage::StreamFull,
            Breakage::BrokerKilled,
        ] {
            state.broke(breakage);
        }
        let mut order = Vec::new();
        while let Some(breakage) = state.to_mend() {
            state.mended(breakage);
            order.push(breakage);
        }
        assert_eq!(
            order,
            [
                Breakage::BrokerKilled,
                Breakage::StreamFull,
                Breakage::Killed(Who::Ingress(0))
            ]
        );
    }

    #[test]
    fn what_is_broken_decides_what_programs_must_say() {
        let (ingress, projector, reconciler) = (Who::Ingress(0), Who::Projector(0), Who::Reconciler(0));
        let truths = |broken: &[Breakage]| {
            let mut state = State::new(vec![ingress, projector, reconciler]);
            broken.iter().for_each(|breakage| state.broke(*breakage));
            [ingress, projector, reconciler].map(|who| state.truth(who))
        };
        use Truth::{NotReady, Open, Ready, Silent};
        assert_eq!(truths(&[]), [Ready, Ready, Ready]);
        assert_eq!(truths(&[Breakage::BrokerFrozen]), [NotReady, NotReady, NotReady]);
        assert_eq!(truths(&[Breakage::ReadOnly]), [Ready, NotReady, NotReady]);
        assert_eq!(truths(&[Breakage::StreamFull]), [NotReady, Ready, NotReady]);
        assert_eq!(truths(&[Breakage::DiskFull]), [NotReady, Open, Open]);
        assert_eq!(truths(&[Breakage::Killed(projector)]), [Ready, Silent, Ready]);
        assert_eq!(truths(&[Breakage::ApiAway]), [Ready, Ready, Open]);
        let slow = Breakage::Link(ingress, Side::Broker, Ill::Slow);
        assert_eq!(truths(&[slow]), [Open, Ready, Ready]);
        let hook = Breakage::Link(ingress, Side::Hook, Ill::Mute);
        assert_eq!(truths(&[hook]), [Ready, Ready, Ready]);
    }
}
