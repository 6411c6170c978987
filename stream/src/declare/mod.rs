//! The stream's configuration: made when absent, compared when present, never changed behind the operator's back.

mod compare;
mod spec;

use std::time::Duration;

use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, GetStreamError, GetStreamErrorKind, UpdateStreamError,
};
use async_nats::jetstream::stream::{Config, Info};
use async_nats::jetstream::{self, ErrorCode};
use schemas::event::Subjects;
use service::Chain;
use thiserror::Error;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::connect::Connection;
pub use compare::Difference;
pub use spec::{InvalidSize, StreamPlace, StreamSpec, parse_size};

/// What the headers of one event may take, in bytes: the largest body is this much smaller than the largest message.
pub const HEADER_ALLOWANCE: usize = 64 * 1024;

/// How long [`declare`] waits for JetStream to answer, a broker that restarts being busy with its own recovery.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long [`declare`] waits for a stream that others may be creating. While several processes do it at once, the broker
/// counts its size once for each of them, and may say to one that it has no room, or fails in another way, although the stream
/// is about to be there. On a slow disk that takes seconds.
const PATIENCE_WITH_OTHERS: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(250);

/// The stream as it is, fit for use.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Configuration and state at the time of the declaration.
    pub info: Info,
    /// Its subjects.
    pub subjects: Subjects,
    /// What it should be.
    pub(crate) spec: StreamSpec,
    /// In which ways it is not as the settings say, without harm to the promise.
    pub warnings: Vec<String>,
    /// The largest message that goes onto the stream, headers and body together, in bytes: the lesser of what
    /// the server and the stream take.
    pub max_message: usize,
}

impl Declared {
    /// The largest body that fits with any headers, in bytes.
    pub fn max_body(&self) -> usize {
        self.max_message.saturating_sub(HEADER_ALLOWANCE)
    }

    /// The stream's name.
    pub fn name(&self) -> &str {
        &self.info.config.name
    }
}

/// Why the stream cannot be used.
#[derive(Debug, Error)]
pub enum DeclareError {
    /// The stream exists and is such that acknowledged events could be lost.
    #[error("the stream {stream} cannot be used: {}", joined(.differences))]
    Unfit {
        /// The stream's name.
        stream: String,
        /// What is wrong, field by field.
        differences: Vec<Difference>,
    },
    /// The stream does not exist, and was only to be looked at.
    #[error("there is no stream {stream}")]
    Absent {
        /// The stream's name.
        stream: String,
    },
    /// The broker does not answer or refuses to.
    #[error("asking for the stream {stream}")]
    Get {
        /// The stream's name.
        stream: String,
        /// What the client says.
        source: GetStreamError,
    },
    /// The broker refuses to create the stream.
    #[error("creating the stream {stream}")]
    Create {
        /// The stream's name.
        stream: String,
        /// What the client says.
        source: CreateStreamError,
    },
    /// The broker refuses to change the stream.
    #[error("updating the stream {stream}")]
    Update {
        /// The stream's name.
        stream: String,
        /// What the client says.
        source: UpdateStreamError,
    },
}

/// The ways in which the stream has become such that acknowledged events could be lost.
pub(crate) fn unfit(found: &Config, spec: &StreamSpec, max_payload: usize) -> Vec<Difference> {
    let mut differences = compare::differences(found, spec, max_payload);
    differences.retain(|difference| difference.unfit);
    differences
}

pub(crate) fn joined(differences: &[Difference]) -> String {
    differences
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

/// Makes sure that the stream exists and keeps the promise: creates it when it is absent; when it is present,
/// compares it and changes nothing. Safe when several processes do it at once.
pub async fn declare(connection: &Connection, spec: &StreamSpec) -> Result<Declared, DeclareError> {
    let began = Instant::now();
    let info = loop {
        let error = match get_or_create(connection, spec).await {
            Ok(info) => break info,
            Err(error) => error,
        };
        if began.elapsed() >= error.patience() {
            return Err(error);
        }
        warn!(error = %Chain(&error), "the stream is not to be had yet; trying on");
        sleep(PAUSE).await;
    };
    let declared = accept(connection, spec, info)?;
    for warning in &declared.warnings {
        warn!(stream.name = spec.name, "stream configuration: {warning}");
    }
    Ok(declared)
}

/// Compares the stream with the settings and changes nothing. All differences, those that make it unfit first.
pub async fn check(connection: &Connection, spec: &StreamSpec) -> Result<Vec<Difference>, DeclareError> {
    let info = get(connection, spec).await?.ok_or_else(|| DeclareError::Absent {
        stream: spec.name.clone(),
    })?;
    Ok(compare::differences(&info.config, spec, connection.max_payload()))
}

/// Changes the stream, or creates it, so that it is as the settings say. Returns what was changed. What the broker
/// cannot change (the storage, the removal of `sealed`) is an error, and nothing is changed then.
pub async fn update(connection: &Connection, spec: &StreamSpec) -> Result<Vec<Difference>, DeclareError> {
    let Some(info) = get(connection, spec).await? else {
        get_or_create(connection, spec).await?;
        return Ok(Vec::new());
    };
    let differences = compare::differences(&info.config, spec, connection.max_payload());
    if !differences.is_empty() {
        let config = spec.applied_to(info.config, connection.max_payload());
        connection
            .jetstream
            .update_stream(&config)
            .await
            .map_err(|source| DeclareError::Update {
                stream: spec.name.clone(),
                source,
            })?;
    }
    Ok(differences)
}

fn accept(connection: &Connection, spec: &StreamSpec, info: Info) -> Result<Declared, DeclareError> {
    let (unfit, harmless): (Vec<_>, Vec<_>) =
        compare::differences(&info.config, spec, connection.max_payload())
            .into_iter()
            .partition(|difference| difference.unfit);
    if !unfit.is_empty() {
        return Err(DeclareError::Unfit {
            stream: spec.name.clone(),
            differences: unfit,
        });
    }
    Ok(Declared {
        max_message: compare::max_message(&info.config, connection.max_payload()),
        subjects: spec.subjects.clone(),
        spec: spec.clone(),
        warnings: harmless.iter().map(ToString::to_string).collect(),
        info,
    })
}

async fn get_or_create(connection: &Connection, spec: &StreamSpec) -> Result<Info, DeclareError> {
    if let Some(info) = get(connection, spec).await? {
        return Ok(info);
    }
    let config = spec.applied_to(
        Config {
            name: spec.name.clone(),
            ..Config::default()
        },
        connection.max_payload(),
    );
    match connection.jetstream.create_stream(config).await {
        Ok(stream) => {
            info!(stream.name = spec.name, "created the stream {}", spec.name);
            Ok(stream.cached_info().clone())
        }
        // Another process was faster, and with other settings: what counts is what is there.
        Err(error) if is_in_use(&error) => get(connection, spec).await?.ok_or_else(|| DeclareError::Absent {
            stream: spec.name.clone(),
        }),
        Err(source) => Err(DeclareError::Create {
            stream: spec.name.clone(),
            source,
        }),
    }
}

async fn get(connection: &Connection, spec: &StreamSpec) -> Result<Option<Info>, DeclareError> {
    match connection.jetstream.get_stream(&spec.name).await {
        Ok(stream) => Ok(Some(stream.cached_info().clone())),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(source) => Err(DeclareError::Get {
            stream: spec.name.clone(),
            source,
        }),
    }
}

fn is_not_found(error: &GetStreamError) -> bool {
    matches!(error.kind(), GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

fn is_in_use(error: &CreateStreamError) -> bool {
    matches!(error.kind(), CreateStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NAME_EXIST)
}

impl DeclareError {
    /// For how long waiting may help: while the broker is not there or busy, or others create the stream.
    fn patience(&self) -> Duration {
        let is_busy = |error: &jetstream::Error| error.code() == 503 || error.code() == 408;
        match self {
            Self::Get { source, .. } => match source.kind() {
                GetStreamErrorKind::Request => PATIENCE,
                GetStreamErrorKind::JetStream(error) if is_busy(&error) => PATIENCE,
                GetStreamErrorKind::JetStream(_)
                | GetStreamErrorKind::EmptyName
                | GetStreamErrorKind::InvalidStreamName => Duration::ZERO,
            },
            Self::Create { source, .. } => match source.kind() {
                CreateStreamErrorKind::TimedOut
                | CreateStreamErrorKind::Response
                | CreateStreamErrorKind::JetStreamUnavailable => PATIENCE,
                CreateStreamErrorKind::JetStream(error) if error.code() >= 500 => PATIENCE_WITH_OTHERS,
                _ => Duration::ZERO,
            },
            // Its name was in use a moment ago: it is about to be there, or was just deleted.
            Self::Absent { .. } => PATIENCE_WITH_OTHERS,
            Self::Unfit { .. } | Self::Update { .. } => Duration::ZERO,
        }
    }
}
