//! What was sent and what came back, by kind.

use std::collections::BTreeMap;
use std::time::Duration;

use time::OffsetDateTime;

use super::http::PostError;

/// What a request was to the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An attempt that goes well if the receiver does.
    Attempt,
    /// An attempt whose answer the provider never saw.
    AnswerLost,
    /// An attempt that was lost or broken off: no answer was waited for.
    BrokenOff,
    /// A copy by the provider, at once or later.
    Copy,
    /// A captured request sent again inside the tolerance.
    FreshReplay,
    /// A captured request sent again beyond the tolerance.
    StaleReplay,
    /// An attempt signed with a wrong secret, or changed on its way.
    Corrupted,
    /// A stranger's post.
    Forged,
}

impl Kind {
    /// Whether the receiver must refuse it.
    pub fn must_be_refused(self) -> bool {
        match self {
            Self::Corrupted | Self::Forged | Self::StaleReplay => true,
            Self::Attempt | Self::AnswerLost | Self::BrokenOff | Self::Copy | Self::FreshReplay => false,
        }
    }
}

/// Answers to requests of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answers {
    /// How many were sent.
    pub sent: u64,
    /// How many answers there were, by status.
    pub by_status: BTreeMap<u16, u64>,
}

impl Answers {
    /// Answers with a 2xx.
    pub fn accepted(&self) -> u64 {
        self.by_status.range(200..300).map(|(_, count)| count).sum()
    }

    /// Answers with a 4xx.
    pub fn refused(&self) -> u64 {
        self.by_status.range(400..500).map(|(_, count)| count).sum()
    }
}

/// Counts of a sender.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    by_kind: BTreeMap<Kind, Answers>,
    /// Attempts after the first of their delivery.
    pub retried: u64,
    /// Deliveries accepted.
    pub delivered: u64,
    /// Deliveries whose attempts were used up.
    pub dead: u64,
    first_sent: Option<OffsetDateTime>,
    last_answered: Option<OffsetDateTime>,
}

impl Tally {
    /// What is known of one kind.
    pub fn of(&self, kind: Kind) -> Answers {
        self.by_kind.get(&kind).cloned().unwrap_or_default()
    }

    /// Requests that were answered, of every kind.
    pub fn answered(&self) -> u64 {
        self.by_kind
            .values()
            .flat_map(|answers| answers.by_status.values())
            .sum()
    }

    /// Copies of something the receiver had, acknowledged: those that the provider sent on purpose, and retries of
    /// attempts whose 2xx was lost. Replays are counted apart.
    pub fn duplicates(&self) -> u64 {
        self.of(Kind::Copy).accepted() + self.of(Kind::AnswerLost).accepted()
    }

    /// Requests that had to be refused and were accepted.
    pub fn wrongly_accepted(&self) -> u64 {
        self.by_kind
            .iter()
            .filter(|(kind, _)| kind.must_be_refused())
            .map(|(_, answers)| answers.accepted())
            .sum()
    }

    /// Requests that were right and fresh and were refused with a 4xx.
    pub fn wrongly_refused(&self) -> u64 {
        self.by_kind
            .iter()
            .filter(|(kind, _)| !kind.must_be_refused())
            .map(|(_, answers)| answers.refused())
            .sum()
    }

    /// From the first request to the last answer.
    pub fn duration(&self) -> Duration {
        self.first_sent
            .zip(self.last_answered)
            .map_or(Duration::ZERO, |(first, last)| {
                (last - first).try_into().unwrap_or(Duration::ZERO)
            })
    }

    pub(super) fn sent(&mut self, kind: Kind, now: OffsetDateTime) {
        self.by_kind.entry(kind).or_default().sent += 1;
        self.first_sent.get_or_insert(now);
    }

    pub(super) fn answer(&mut self, kind: Kind, answer: &Result<u16, PostError>, now: OffsetDateTime) {
        if let Ok(status) = answer {
            *self
                .by_kind
                .entry(kind)
                .or_default()
                .by_status
                .entry(*status)
                .or_default() += 1;
            self.last_answered = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn answers_are_judged_by_what_was_sent() {
        let mut tally = Tally::default();
        let start = datetime!(2026-11-30 12:00 UTC);
        for (kind, status) in [
            (Kind::Attempt, 204),
            (Kind::Attempt, 503),
            (Kind::AnswerLost, 204),
            (Kind::Copy, 204),
            (Kind::Copy, 400),
            (Kind::Corrupted, 400),
            (Kind::Forged, 204),
            (Kind::StaleReplay, 400),
            (Kind::FreshReplay, 204),
        ] {
            tally.sent(kind, start);
            tally.answer(kind, &Ok(status), start + Duration::from_secs(3));
        }
        assert_eq!(tally.duplicates(), 2);
        assert_eq!(tally.wrongly_accepted(), 1);
        assert_eq!(tally.wrongly_refused(), 1);
        assert_eq!(tally.answered(), 9);
        assert_eq!(tally.duration(), Duration::from_secs(3));
    }
}
