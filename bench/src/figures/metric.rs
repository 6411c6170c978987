//! Numbers.

/// Which number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Deliveries, events or rows a second.
    Rate,
    /// How long all of it took, in seconds.
    Seconds,
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
            Self::Seconds => "seconds",
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
            Self::Seconds => "seconds",
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
