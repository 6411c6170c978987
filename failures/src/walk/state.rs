//! What is broken at the moment, as far as the walk knows, and what follows from that. No I/O.

use std::collections::BTreeSet;

use super::operation::{Breakage, Deed, Ill, Side};
use crate::world::{Kind, Who};

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

    pub(super) fn can_be_done(&self, deed: Deed) -> bool {
        match deed {
            Deed::DeleteConsumer | Deed::ChangeConsumer(_) => self.broker_runs(),
            Deed::BackUp | Deed::EndSessions => self.database_writes(),
            Deed::Corrupt => self.database_writes() && !self.is(Breakage::RowsLocked),
            Deed::PutBack => self.backed_up && !self.is(Breakage::DatabaseFrozen),
            _ => true,
        }
    }

    pub(super) fn can_break(&self, breakage: Breakage) -> bool {
        match breakage {
            Breakage::Killed(who) | Breakage::Stopped(who) | Breakage::Frozen(who) => self.runs(who),
            Breakage::Link(who, side, _) => self.link(who, side).is_none(),
            Breakage::BrokerKilled | Breakage::BrokerFrozen | Breakage::DiskFull => self.broker_runs(),
            Breakage::StreamFull => self.broker_runs() && !self.is(breakage),
            Breakage::DatabaseKilled | Breakage::DatabaseFrozen | Breakage::ReadOnly => {
                self.database_writes()
            }
            Breakage::RowsLocked => self.database_writes() && !self.is(breakage),
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

    /// What can be mended now.
    pub(super) fn mendable(&self) -> Vec<Breakage> {
        let broken = self.broken.iter().copied();
        broken.filter(|it| self.can_be_mended(*it)).collect()
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
            Breakage::StreamFull | Breakage::ReadOnly | Breakage::RowsLocked => 2,
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
        // It shows once there is something to write, and then it is known for as long as that.
        Breakage::RowsLocked if needs_rows => Truth::Open,
        // The provider's troubles are not those of a receiver; those of a reconciler show once it asks.
        Breakage::Link(_, Side::Hook | Side::Provider, _)
        | Breakage::ApiAway
        | Breakage::ApiWrong(..)
        | Breakage::RowsLocked
        | Breakage::Killed(_)
        | Breakage::Stopped(_)
        | Breakage::Frozen(_)
        | Breakage::Rotation(_) => Truth::Ready,
    }
}

/// What the links of a program lead to.
pub(super) fn sides(kind: Kind) -> &'static [Side] {
    match kind {
        Kind::Ingress => &[Side::Broker, Side::Hook],
        Kind::Projector => &[Side::Broker, Side::Database],
        Kind::Reconciler => &[Side::Broker, Side::Database, Side::Provider],
    }
}

#[cfg(test)]
mod tests;
