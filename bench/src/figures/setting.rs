//! Circumstances.

use std::fmt;

/// Under which circumstances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// The next delivery as soon as the last is answered, over so many connections.
    Connections(usize),
    /// So many deliveries a second, whatever becomes of them.
    PerSecond(u32),
    /// 64 connections; so many of a hundred deliveries are copies of earlier ones.
    Copies(u32),
    /// 64 connections; everything was sent before, to the same process.
    AllAgain,
    /// 64 connections; everything was sent before, and the process was started anew since.
    AllAgainAnew,
    /// So many publishes under way.
    InFlight(usize),
    /// So many events or rows, in one go.
    Rows(usize),
    /// So many rows, of which at most so many are in one transaction.
    RowsInBatches(usize, usize),
    /// With so many events stored beforehand.
    Stored(usize),
    /// So many connections that do nothing, beside 64 that do.
    Idle(usize),
    /// So many connections of the sender, and so many of the receiver to the database.
    Pool(usize, usize),
    /// So many connections of the sender, and two workers with so many threads each.
    Threads(usize, usize),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connections(1) => f.write_str("1 connection"),
            Self::Connections(count) => write!(f, "{count} connections"),
            Self::PerSecond(rate) => write!(f, "{rate} a second"),
            Self::Copies(0) => f.write_str("no copies"),
            Self::Copies(percent) => write!(f, "{percent} % copies"),
            Self::AllAgain => f.write_str("all sent again"),
            Self::AllAgainAnew => f.write_str("all again, restarted"),
            Self::InFlight(count) => write!(f, "{count} in flight"),
            Self::Rows(count) => write!(f, "{count} rows"),
            Self::RowsInBatches(count, most) => write!(f, "{count} rows, at most {most} at a time"),
            Self::Stored(count) => write!(f, "{count} stored"),
            Self::Idle(count) => write!(f, "{count} idle, 64 busy"),
            Self::Pool(count, own) => write!(f, "{count} connections, {own} to the database"),
            Self::Threads(count, threads) => write!(f, "{count} connections, 2 x {threads} threads"),
        }
    }
}
