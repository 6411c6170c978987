//! The ids acknowledged lately, so that a repeated delivery is answered at once and spoils no batch.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use schemas::event::MsgId;

/// SHA-256 of a body. Equal bodies are the same event: everything else in an event follows from its body.
pub(super) type Fingerprint = [u8; 32];

/// An id as it is remembered: eight bytes under a key of this process. Two ids that fall together are taken for one
/// with two bodies, which the broker is then asked about; so this costs time once in an age, and never an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct IdKey(u64);

/// An acknowledged event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// Where it is on the stream.
    pub(super) seq: u64,
    pub(super) fingerprint: Fingerprint,
}

/// Ids with their sequence and fingerprint; bounded in number and age.
#[derive(Debug)]
pub(super) struct RecentIds {
    known: HashMap<IdKey, (Known, Instant)>,
    order: VecDeque<(IdKey, Instant)>,
    hasher: RandomState,
    most: usize,
    age: Duration,
}

impl RecentIds {
    pub(super) fn new(most: usize, age: Duration) -> Self {
        Self {
            known: HashMap::new(),
            order: VecDeque::new(),
            hasher: RandomState::new(),
            most,
            age,
        }
    }

    pub(super) fn key(&self, id: &MsgId) -> IdKey {
        IdKey(self.hasher.hash_one(id.as_str()))
    }

    pub(super) fn get(&self, key: IdKey, now: Instant) -> Option<Known> {
        let (known, at) = self.known.get(&key)?;
        (now.saturating_duration_since(*at) <= self.age).then_some(*known)
    }

    /// Remembers an acknowledged event, in place of what was known under this id.
    pub(super) fn insert(&mut self, key: IdKey, known: Known, now: Instant) {
        if self.most == 0 {
            return;
        }
        self.known.insert(key, (known, now));
        self.order.push_back((key, now));
        while let Some(&(oldest, at)) = self.order.front() {
            // Entries of `order` that were overtaken by a later insert of the same id go without the id.
            let overtaken = self.known.get(&oldest).is_none_or(|(_, latest)| *latest != at);
            let expired = now.saturating_duration_since(at) > self.age;
            if !(overtaken || expired || self.known.len() > self.most) {
                break;
            }
            self.order.pop_front();
            if !overtaken {
                self.known.remove(&oldest);
            }
        }
    }

    /// Forgets all: behind a new connection there may be a broker that lost or never had them.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.order.clear();
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(seq: u64) -> Known {
        Known {
            seq,
            fingerprint: [0; 32],
        }
    }

    fn id(number: usize) -> MsgId {
        MsgId::of_nonfinal(&number.to_be_bytes())
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let now = Instant::now();
        let mut recent = RecentIds::new(2, Duration::from_secs(60));
        for number in 0..3 {
            let key = recent.key(&id(number));
            recent.insert(
                key,
                known(number as u64),
                now + Duration::from_secs(number as u64),
            );
        }
        let seq = |number| recent.get(recent.key(&id(number)), now).map(|known| known.seq);
        assert_eq!([seq(0), seq(1), seq(2)], [None, Some(1), Some(2)]);
    }

    #[test]
    fn an_id_is_forgotten_when_it_is_too_old() {
        let now = Instant::now();
        let mut recent = RecentIds::new(10, Duration::from_secs(60));
        let key = recent.key(&id(1));
        recent.insert(key, known(1), now);
        assert!(recent.get(key, now + Duration::from_secs(60)).is_some());
        assert!(recent.get(key, now + Duration::from_secs(61)).is_none());
        recent.insert(recent.key(&id(2)), known(2), now + Duration::from_secs(61));
        assert_eq!(recent.len(), 1);
    }

    #[test]
    fn an_id_remembered_again_lives_on_from_then() {
        let now = Instant::now();
        let mut recent = RecentIds::new(10, Duration::from_secs(60));
        let (key, other) = (recent.key(&id(1)), recent.key(&id(2)));
        recent.insert(key, known(1), now);
        recent.insert(key, known(7), now + Duration::from_secs(50));
        recent.insert(other, known(8), now + Duration::from_secs(70));
        assert_eq!(recent.get(key, now + Duration::from_secs(70)), Some(known(7)));
        assert_eq!(recent.order.len(), 2);
    }

    #[test]
    fn clearing_forgets_all() {
        let now = Instant::now();
        let mut recent = RecentIds::new(10, Duration::from_secs(60));
        let key = recent.key(&id(1));
        recent.insert(key, known(1), now);
        recent.clear();
        assert_eq!(recent.get(key, now), None);
    }
}
