//! How an event ends: with an answer, once.

use std::time::Instant;

use tokio::sync::oneshot;

use super::entry::Phase;
use super::{Answer, Engine, Token};
use crate::append::outcome::{AppendError, Appended};
use crate::append::recent::Known;

impl Engine {
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((at, token)) = self.deadlines.first().copied()
            && at <= now
        {
            self.deadlines.pop_first();
            if self.batches.remove(&token).is_some() {
                continue;
            }
            let Some(entry) = self.entries.get_mut(&token) else {
                continue;
            };
            let (phase, size, refusal) = (entry.phase, entry.size, entry.refusal.take());
            if phase == Phase::Waiting {
                // Those that came first expire first.
                match self.waiting.front() {
                    Some(first) if *first == token => drop(self.waiting.pop_front()),
                    Some(_) | None => self.waiting.retain(|waiting| *waiting != token),
                }
                self.waiting_bytes -= size;
            }
            let error = self.too_late(refusal);
            self.finish(token, Err(error), now);
        }
    }

    pub(super) fn too_late(&self, refusal: Option<String>) -> AppendError {
        match refusal {
            _ if self.disconnected.is_some() => AppendError::Disconnected,
            Some(reason) => AppendError::Unavailable(reason),
            None => AppendError::TimedOut,
        }
    }

    /// The broker said something about an event that the pace counts as outstanding.
    pub(super) fn settle(&mut self, token: Token, measured: bool, now: Instant) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        if let Some((way, sent)) = entry.paced.take() {
            self.pace.settled(measured, self.waiting.len(), now);
            if measured {
                self.metrics
                    .acknowledged(way, now.saturating_duration_since(sent).as_secs_f64());
            }
        }
    }

    pub(super) fn finish(&mut self, token: Token, answer: Answer, now: Instant) {
        self.settle(token, false, now);
        let Some(entry) = self.entries.remove(&token) else {
            return;
        };
        self.metrics.outstanding.set(self.entries.len() as i64);
        self.bytes -= entry.size;
        self.deadlines.remove(&(entry.deadline, token));
        self.by_id.remove(&entry.key);
        self.standing.note(&answer, entry.since, now);
        if let Ok(Appended::Stored { seq } | Appended::Duplicate { seq }) = answer
            && entry.divergent.is_none()
        {
            self.recent.insert(
                entry.key,
                Known {
                    seq,
                    fingerprint: entry.fingerprint,
                },
                now,
            );
        }
        for caller in entry.callers.others {
            let shared = answer
                .clone()
                .map(|appended| Appended::Duplicate { seq: appended.seq() });
            self.answer(caller, shared);
        }
        self.answer(entry.callers.first, answer);
        for follower in entry.followers {
            self.submit(follower, now);
        }
    }

    pub(super) fn refuse(&self, caller: oneshot::Sender<Answer>, error: AppendError) {
        self.answer(caller, Err(error));
    }

    pub(super) fn answer(&self, caller: oneshot::Sender<Answer>, answer: Answer) {
        self.metrics.answered(&answer);
        // A caller that is gone has given up; the event is none the worse for it.
        let _ = caller.send(answer);
    }
}
