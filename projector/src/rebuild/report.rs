//! What was found and what was done. It serializes as it is, for programs.

mod text;

use serde::Serialize;
use time::OffsetDateTime;

/// So many ranges of sequences that hold nothing are shown.
const RANGES: usize = 10;

/// What is not as the stream says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// There is no row, and there must be one.
    Missing,
    /// The row is not what the events of its key come to.
    Wrong,
    /// The stream holds no event that makes such a row.
    NotOnStream,
    /// The row names an event behind the end of the stream.
    Invented,
    /// The row may come from an event that the stream no longer holds; nothing says that it is wrong.
    Unproven,
    /// An event was not projected yet. The projectors will.
    Pending,
}

impl Finding {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 6] = [
        Self::Missing,
        Self::Wrong,
        Self::NotOnStream,
        Self::Invented,
        Self::Unproven,
        Self::Pending,
    ];

    /// The name in the side tables and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Wrong => "wrong",
            Self::NotOnStream => "not_on_stream",
            Self::Invented => "invented",
            Self::Unproven => "unproven",
            Self::Pending => "pending",
        }
    }

    /// By its name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|finding| finding.as_str() == name)
    }

    /// Whether it means that the tables are not what the stream says.
    pub fn is_fault(self) -> bool {
        match self {
            Self::Missing | Self::Wrong | Self::NotOnStream | Self::Invented => true,
            Self::Unproven | Self::Pending => false,
        }
    }
}

/// A number for each finding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// See [`Finding::Missing`].
    pub missing: u64,
    /// See [`Finding::Wrong`].
    pub wrong: u64,
    /// See [`Finding::NotOnStream`].
    pub not_on_stream: u64,
    /// See [`Finding::Invented`].
    pub invented: u64,
    /// See [`Finding::Unproven`].
    pub unproven: u64,
    /// See [`Finding::Pending`].
    pub pending: u64,
}

impl Counts {
    /// The number for a finding.
    pub fn of(&self, finding: Finding) -> u64 {
        match finding {
            Finding::Missing => self.missing,
            Finding::Wrong => self.wrong,
            Finding::NotOnStream => self.not_on_stream,
            Finding::Invented => self.invented,
            Finding::Unproven => self.unproven,
            Finding::Pending => self.pending,
        }
    }

    /// The number for a finding, to be changed.
    pub fn of_mut(&mut self, finding: Finding) -> &mut u64 {
        match finding {
            Finding::Missing => &mut self.missing,
            Finding::Wrong => &mut self.wrong,
            Finding::NotOnStream => &mut self.not_on_stream,
            Finding::Invented => &mut self.invented,
            Finding::Unproven => &mut self.unproven,
            Finding::Pending => &mut self.pending,
        }
    }

    /// Whether none of them is a fault.
    pub fn is_equal(&self) -> bool {
        Finding::ALL
            .into_iter()
            .all(|finding| !finding.is_fault() || self.of(finding) == 0)
    }
}

/// A row, or one that should be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Example {
    /// What is not right about it.
    pub finding: Finding,
    /// Its task, its job, or the sequence under which it is parked.
    pub key: String,
    /// The event that the row names.
    pub row_seq: Option<u64>,
    /// The event that should give the row.
    pub event_seq: Option<u64>,
}

/// What was found in a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TableReport {
    /// Its rows at the moment of comparison; after a first load, those that are there now.
    pub rows: u64,
    /// What was found.
    pub found: Counts,
    /// What was put right. Where it is less than what was found, somebody else did it meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repaired: Option<Counts>,
    /// A few of each finding.
    pub examples: Vec<Example>,
}

/// A range of sequences, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Range {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

/// Sequences that hold nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Gone {
    /// How many at the head: what was deleted by age, or purged.
    pub head: u64,
    /// How many behind it: what was deleted one by one.
    pub holes: u64,
    /// The first few ranges.
    pub ranges: Vec<Range>,
}

impl Gone {
    /// Adds a range.
    pub(super) fn add(&mut self, first: u64, last: u64) {
        let count = last - first + 1;
        if first == self.head + 1 && self.holes == 0 {
            self.head += count;
        } else {
            self.holes += count;
        }
        let room = self.ranges.len() < RANGES;
        match self.ranges.last_mut() {
            Some(range) if range.last + 1 == first => range.last = last,
            _ if room => self.ranges.push(Range { first, last }),
            _ => {}
        }
    }

    /// All of them.
    pub(super) fn total(&self) -> u64 {
        self.head + self.holes
    }
}

/// What was replayed.
#[derive(Debug, Clone, Serialize)]
pub struct Replayed {
    /// Name of the stream.
    pub stream: String,
    /// When it was created.
    #[serde(with = "time::serde::rfc3339")]
    pub created: OffsetDateTime,
    /// The last sequence.
    pub end: u64,
    /// Messages.
    pub events: u64,
    /// Messages that hold a result.
    pub results: u64,
    /// Messages to be parked.
    pub to_park: u64,
    /// Messages of tasks that have not ended.
    pub nonfinal: u64,
    /// Sequences up to the end that hold nothing.
    pub gone: Gone,
}

/// What a command found and did.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `verify` or `rebuild`.
    pub command: &'static str,
    /// What the stream holds.
    pub replayed: Replayed,
    /// Everything up to this sequence must be in the tables; what is behind it may be pending.
    pub floor: u64,
    /// Whether responses were compared as well.
    pub deep: bool,
    /// Results that the database refused, and that are listed in `parked`.
    pub refused: u64,
    /// Rows that were given another job key before anything was compared, because the rules have changed.
    pub rekeyed: u64,
    /// The tables were empty or nearly so, and every event was brought in. Nothing was compared when they were empty; else what was
    /// found is what was still not right after it.
    pub loaded: bool,
    /// Why the stream is not the one that the rows came from, when it was replayed all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forced: Option<String>,
    /// The table `answers`.
    pub answers: TableReport,
    /// The table `winners`.
    pub winners: TableReport,
    /// The table `parked`.
    pub parked: TableReport,
    /// Rows that should go and that another table holds on to.
    pub referenced: u64,
    /// Whether the tables are what the stream says; after a rebuild: are now.
    pub equal: bool,
    /// How long it took.
    pub seconds: f64,
    /// Messages replayed in a second, over all of it.
    pub events_per_second: f64,
}
