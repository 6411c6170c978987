//! The judge: what was sent, what is on the stream and what is in the tables, held against each other.
//!
//! Reading ([`stream`], [`tables`]) is apart from judging ([`judge`](fn@judge)), which is a pure function of the [`Evidence`].

mod judge;
pub mod stream;
pub mod tables;

use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;
use time::OffsetDateTime;

use self::stream::Stored;
use self::tables::Tables;

pub use self::judge::judge;

/// How many faults a verdict shows; more say nothing new.
const MOST_SHOWN: usize = 30;

/// A body that the provider, or a test in its name, has sent or is about to send.
#[derive(Debug, Clone)]
pub struct Sent {
    /// What it is called in a verdict, e.g. its `Webhook-Id`.
    pub name: String,
    /// What was signed.
    pub body: Bytes,
    /// Whether a request with this body got a 2xx.
    pub acknowledged: bool,
    /// When it had one at the latest, by the clock of this machine, where that is known. What comes onto the stream only
    /// later was lost at that moment, whoever brought it then.
    pub acknowledged_by: Option<OffsetDateTime>,
    /// Whether a row must come of it in the end, 2xx or not: the result of a task.
    pub owed: bool,
    /// Where it stands, in words: attempts, last status, last error.
    pub standing: String,
}

/// Everything that is known at the end.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// What was sent.
    pub sent: Vec<Sent>,
    /// The whole stream.
    pub events: Vec<Stored>,
    /// The tables.
    pub tables: Tables,
}

/// What a test did on purpose that the evidence alone would condemn.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// Tasks whose rows the database was made to refuse: they are parked and have no row.
    pub refused: BTreeSet<String>,
    /// Tasks that may end without a row: their deliveries are dead and nobody fetched them. Whether they have one or
    /// not, it must be the right one.
    pub unanswered: BTreeSet<String>,
    /// Whether one result may be on the stream more than once: the stream no longer knew the id.
    pub repeats: bool,
}

/// What the judge found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What is wrong, one fault a line, each with the id and where it is. Empty: nothing was lost.
    pub faults: Vec<String>,
    /// Bodies that were sent.
    pub sent: usize,
    /// Of those, bodies that got a 2xx.
    pub acknowledged: usize,
    /// Events on the stream.
    pub events: usize,
    /// Rows of `answers`.
    pub answers: usize,
    /// Rows of `winners`.
    pub winners: usize,
    /// Rows of `parked`.
    pub parked: usize,
    /// Rows of `answers` whose result a reconciler fetched.
    pub recovered: usize,
    /// Deliveries that got a 2xx and are not on the stream, and tasks that ended and have no row.
    pub lost: usize,
    /// Events that say what another one says.
    pub duplicated: usize,
}

impl Verdict {
    /// Adds the counts of another world.
    pub fn add(&mut self, other: &Self) {
        self.faults.extend(other.faults.iter().cloned());
        self.sent += other.sent;
        self.acknowledged += other.acknowledged;
        self.events += other.events;
        self.answers += other.answers;
        self.winners += other.winners;
        self.parked += other.parked;
        self.recovered += other.recovered;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sent,
            acknowledged,
            events,
            answers,
            winners,
            parked,
            recovered,
            faults,
            ..
        } = self;
        write!(
            f,
            "{sent} sent, {acknowledged} acknowledged; {events} events; {answers} answers, {recovered} of them recovered, {winners} winners, {parked} parked; {} faults",
            faults.len()
        )?;
        for fault in faults.iter().take(MOST_SHOWN) {
            write!(f, "\n- {fault}")?;
        }
        if faults.len() > MOST_SHOWN {
            write!(f, "\n- and {} more", faults.len() - MOST_SHOWN)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
