//! Everything that is measured has a name here.

use std::fmt;

use clap::ValueEnum;

/// A part of the run: what is in one is measured in turns, so that its figures can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum Section {
    /// The sender by itself, against a server that does nothing.
    Sender,
    /// Deliveries of 2 KB over 1 to 256 connections: ingress in all its ways, and the receivers of the peers.
    Ingress,
    /// Deliveries of 20 KB.
    Large,
    /// Deliveries of which some, or all, are sent again.
    Repeats,
    /// Three brokers and three copies of the stream.
    Replicas,
    /// Deliveries at fixed rates, with latency from the time at which each was to be sent.
    Rates,
    /// The broker by itself: acknowledged publishes without HTTP.
    Broker,
    /// Events into rows: the projector, the workers of the peers, and the database by itself.
    Projector,
    /// From the sender's first byte to the row that others can see.
    Visible,
    /// Comparing the tables with the stream, and filling them from it.
    Rebuild,
    /// Memory of ingress with many connections that do nothing.
    Memory,
    /// The same again with few and with many events stored.
    Growth,
}

impl Section {
    /// All of them, in the order in which they run.
    pub const ALL: [Self; 12] = [
        Self::Sender,
        Self::Ingress,
        Self::Large,
        Self::Repeats,
        Self::Replicas,
        Self::Rates,
        Self::Broker,
        Self::Projector,
        Self::Visible,
        Self::Rebuild,
        Self::Memory,
        Self::Growth,
    ];
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no section is hidden");
        f.write_str(value.get_name())
    }
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The sender, against a server that does nothing.
    Sender,
    /// The receiver in Python: Flask under gunicorn.
    FlaskReceiver,
    /// The receiver of the inbox in Rust.
    RustInbox,
    /// Ingress as it is shipped, on a broker that syncs before it acknowledges.
    IngressSync,
    /// The same, held to one publish a delivery.
    IngressSyncPlain,
    /// The same, held to batches.
    IngressSyncBatch,
    /// Ingress as it is shipped, on a broker that acknowledges from the page cache.
    IngressCache,
    /// Publishes one by one, acknowledged from the page cache.
    PublishCache,
    /// Publishes one by one, each synced.
    PublishSync,
    /// Publishes in atomic batches, each batch synced.
    PublishBatches,
    /// One projector.
    Projector,
    /// Two projectors that share the work.
    TwoProjectors,
    /// The worker in Python: psycopg, a row at a time.
    PsycopgWorker,
    /// The worker of the inbox in Rust: a batch a statement, inside the database.
    RustWorker,
    /// The projector's rows, inserted through `unnest` and nothing else.
    Unnest,
    /// The projector's rows, by COPY.
    Copy,
    /// Ingress, stream and projector.
    Pipeline,
    /// `projector rebuild` on empty tables.
    FirstLoad,
    /// `projector verify`.
    Verify,
    /// `projector verify --deep`.
    VerifyDeep,
}

impl Subject {
    /// As tables and results call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender alone",
            Self::FlaskReceiver => "Flask receiver",
            Self::RustInbox => "Rust inbox",
            Self::IngressSync => "ingress, sync always",
            Self::IngressSyncPlain => "ingress, sync always, all plain",
            Self::IngressSyncBatch => "ingress, sync always, all batches",
            Self::IngressCache => "ingress, page cache",
            Self::PublishCache => "publishes, page cache",
            Self::PublishSync => "publishes, sync always",
            Self::PublishBatches => "publishes, sync always, in batches",
            Self::Projector => "projector",
            Self::TwoProjectors => "two projectors",
            Self::PsycopgWorker => "psycopg worker",
            Self::RustWorker => "Rust worker",
            Self::Unnest => "unnest inserts alone",
            Self::Copy => "COPY alone",
            Self::Pipeline => "ingress to row",
            Self::FirstLoad => "rebuild of empty tables",
            Self::Verify => "verify",
            Self::VerifyDeep => "verify --deep",
        }
    }
}

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
    /// With so many events stored beforehand.
    Stored(usize),
    /// So many connections that do nothing, beside 64 that do.
    Idle(usize),
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
            Self::Stored(count) => write!(f, "{count} stored"),
            Self::Idle(count) => write!(f, "{count} idle, 64 busy"),
        }
    }
}

/// Which number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Deliveries, events or rows a second.
    Rate,
    /// Half took less, in milliseconds.
    Median,
    /// 99 of 100 took less, in milliseconds.
    P99,
    /// 999 of 1,000 took less, in milliseconds.
    P999,
    /// CPU time of the receiver, or of what makes the rows, in seconds for a thousand.
    CpuOwn,
    /// CPU time of the broker, in seconds for a thousand.
    CpuBroker,
    /// CPU time of Postgres, in seconds for a thousand.
    CpuDatabase,
    /// CPU time of the sender, in seconds for a thousand.
    CpuSender,
    /// The most memory that the receiver, or what makes the rows, held, in MB.
    Memory,
    /// Rows in a transaction, on average.
    Batch,
    /// Bytes of write-ahead log for a row.
    Wal,
    /// Deliveries that got no 2xx.
    Refused,
}

impl Metric {
    /// The head of its column.
    pub fn head(self) -> &'static str {
        match self {
            Self::Rate => "a second",
            Self::Median => "p50 ms",
            Self::P99 => "p99 ms",
            Self::P999 => "p99.9 ms",
            Self::CpuOwn => "cpu s/1000",
            Self::CpuBroker => "broker",
            Self::CpuDatabase => "postgres",
            Self::CpuSender => "sender",
            Self::Memory => "MB",
            Self::Batch => "batch",
            Self::Wal => "WAL B",
            Self::Refused => "refused",
        }
    }

    /// The name in the results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate_per_second",
            Self::Median => "p50_milliseconds",
            Self::P99 => "p99_milliseconds",
            Self::P999 => "p999_milliseconds",
            Self::CpuOwn => "cpu_seconds_per_thousand",
            Self::CpuBroker => "broker_cpu_seconds_per_thousand",
            Self::CpuDatabase => "postgres_cpu_seconds_per_thousand",
            Self::CpuSender => "sender_cpu_seconds_per_thousand",
            Self::Memory => "peak_memory_megabytes",
            Self::Batch => "rows_per_transaction",
            Self::Wal => "wal_bytes_per_row",
            Self::Refused => "refused",
        }
    }
}

/// What, and under which circumstances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Case {
    /// In which part of the run.
    pub section: Section,
    /// What.
    pub subject: Subject,
    /// How.
    pub setting: Setting,
}

impl Case {
    /// A case.
    pub const fn new(section: Section, subject: Subject, setting: Setting) -> Self {
        Self {
            section,
            subject,
            setting,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.subject.name(), self.setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sections_are_all() {
        assert_eq!(Section::ALL, Section::value_variants());
    }
}
