//! What is measured.

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
    /// Events that are made and put on the stream, in its batches.
    Filling,
    /// `projector rebuild` on empty tables.
    FirstLoad,
    /// `projector verify`.
    Verify,
    /// `projector verify --deep`.
    VerifyDeep,
    /// `projector rebuild` on tables of which some rows are lost, some changed and some made up.
    Repair,
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
            Self::Filling => "filling the stream",
            Self::FirstLoad => "rebuild of empty tables",
            Self::Verify => "verify",
            Self::VerifyDeep => "verify --deep",
            Self::Repair => "rebuild of damaged tables",
        }
    }
}
