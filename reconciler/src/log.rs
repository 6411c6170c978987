//! The stream: where results go, and how far the projectors have come with it.

use schemas::event::Kind;
use stream::append::{self, AppendSettings, Appender, ProbeError, StartError, Worker};
use stream::connect::{ConnectError, Settings, connect};
use stream::consume::{ApiError, Steward};
use stream::declare::{DeclareError, declare};
use stream::{Connection, ConsumerSpec, StreamSpec};
use thiserror::Error;

/// Why the stream cannot be used.
#[derive(Debug, Error)]
pub enum LogError {
    /// The broker refuses the connection.
    #[error("connecting to the broker")]
    Connect(#[from] ConnectError),
    /// The stream is missing and cannot be made, or its configuration could lose events.
    #[error("finding the stream")]
    Declare(#[from] DeclareError),
    /// The broker's answers to appends cannot be received.
    #[error("preparing to append")]
    Start(#[from] StartError),
    /// The configured limit is more than the broker takes.
    #[error(
        "--body-limit is {wanted} bytes, but the stream takes bodies of at most {most} bytes (max_payload less 64 KiB)"
    )]
    BodyLimit {
        /// The setting.
        wanted: usize,
        /// What fits.
        most: usize,
    },
}

/// Why nothing is known about the stream at the moment.
#[derive(Debug, Error)]
pub enum LookError {
    /// An append would fail.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The broker does not say how far the projectors are.
    #[error("asking how far the projectors are")]
    Progress(#[source] ApiError),
    /// The stream is gone.
    #[error("there is no stream {0}")]
    NoStream(String),
}

/// The stream, and the consumer of the projectors.
#[derive(Debug)]
pub struct Log {
    /// Takes events.
    pub appender: Appender,
    /// The largest body, in bytes.
    pub body_limit: usize,
    /// The stream's name.
    pub stream: String,
    steward: Steward,
    /// Kept so that what is under way can be flushed at the end.
    pub connection: Connection,
}

/// How far the projectors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Everything up to this sequence is projected.
    pub floor: u64,
    /// Where the stream ends.
    pub last_seq: u64,
    /// How many messages are not projected yet.
    pub lag: u64,
    /// Whether the consumer of the projectors is there.
    pub consumer: bool,
}

impl Progress {
    /// When nothing is known: what was appended waits.
    pub const UNKNOWN: Self = Self {
        floor: 0,
        last_seq: u64::MAX,
        lag: u64::MAX,
        consumer: true,
    };
}

/// What it takes to find the stream.
#[derive(Debug)]
pub struct LogSettings<'a> {
    /// The broker.
    pub nats: &'a Settings,
    /// The stream on it.
    pub stream: &'a StreamSpec,
    /// How to append.
    pub append: &'a AppendSettings,
    /// The durable consumer of the projectors.
    pub consumer: &'a str,
    /// The largest body; what fits when `None`.
    pub body_limit: Option<usize>,
    /// What the appender counts.
    pub metrics: append::Metrics,
}

impl Log {
    /// Finds broker and stream, however long that takes. The worker has to run for anything to be appended.
    ///
    /// # Errors
    /// When waiting does not help.
    pub async fn open(settings: LogSettings<'_>) -> Result<(Self, Worker), LogError> {
        let connection = connect(settings.nats, "reconciler").await?;
        let declared = declare(&connection, settings.stream).await?;
        let most = declared.max_body();
        let body_limit = settings.body_limit.unwrap_or(most);
        if body_limit > most {
            return Err(LogError::BodyLimit {
                wanted: body_limit,
                most,
            });
        }
        let consumer = ConsumerSpec {
            durable: settings.consumer.to_owned(),
            ..ConsumerSpec::default()
        };
        let steward = Steward::new(&connection, &declared, &consumer);
        let (appender, worker) =
            Appender::start(&connection, &declared, settings.append, settings.metrics).await?;
        let log = Self {
            appender,
            body_limit,
            stream: declared.name().to_owned(),
            steward,
            connection,
        };
        Ok((log, worker))
    }

    /// Whether an append would succeed, and how far the projectors are.
    ///
    /// # Errors
    /// When it would not, or that is not known.
    pub async fn look(&self) -> Result<Progress, LookError> {
        self.appender.probe(&[Kind::Completed, Kind::Failed]).await?;
        let state = self.steward.stream_state().await.map_err(LookError::Progress)?;
        let state = state.ok_or_else(|| LookError::NoStream(self.stream.clone()))?;
        let consumer = self.steward.find().await.map_err(LookError::Progress)?;
        Ok(match consumer.map(|found| found.progress) {
            Some(progress) => Progress {
                floor: progress.ack_floor,
                last_seq: state.last_seq,
                lag: progress.pending + progress.unacknowledged as u64,
                consumer: true,
            },
            // Nobody projects yet: all of it is still to be done.
            None => Progress {
                floor: 0,
                last_seq: state.last_seq,
                lag: state.events,
                consumer: false,
            },
        })
    }
}
