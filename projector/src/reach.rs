//! The way to stream and rows for the commands that look at single tasks and events. They make nothing: no stream, no
//! consumer, no row of `projection`.

use std::time::Duration;

use database::{Database, DatabaseError, FitError, Target};
use schemas::event::Subjects;
use stream::Reader;
use stream::connect::{ConnectError, Settings, connect};
use stream::consume::{ApiError, StreamState};
use thiserror::Error;

use crate::config::{Reach, Rows};

/// How long to look for a broker before saying that there is none: somebody waits for the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a command cannot begin.
#[derive(Debug, Error)]
pub enum ReachError {
    /// The broker refuses the connection.
    #[error("connecting to the broker")]
    Connect(#[from] ConnectError),
    /// There is no broker.
    #[error("no NATS server answers within {} s", PATIENCE.as_secs())]
    NoBroker,
    /// There is no stream.
    #[error("there is no stream {0}")]
    NoStream(String),
    /// The stream takes other subjects, so that none of its events would be known.
    #[error(
        "the stream {stream} takes {found:?}, not {wanted:?}: --subject-prefix must be that of its subjects"
    )]
    OtherSubjects {
        /// Its name.
        stream: String,
        /// What it takes.
        found: Vec<String>,
        /// What it would have to take.
        wanted: String,
    },
    /// The broker does not do what it should.
    #[error(transparent)]
    Broker(#[from] ApiError),
    /// The database cannot be used.
    #[error("the database cannot be used")]
    Unfit(#[source] database::Unfit),
    /// The database does not do what it should.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl From<FitError> for ReachError {
    fn from(error: FitError) -> Self {
        match error {
            FitError::Unfit(unfit) => Self::Unfit(unfit),
            FitError::Database(error) => Self::Database(error),
        }
    }
}

/// The stream, as it was when it was reached.
#[derive(Debug, Clone)]
pub struct Log {
    /// Reads it.
    pub reader: Reader,
    /// What it holds.
    pub state: StreamState,
    /// Its subjects.
    pub subjects: Subjects,
    /// How its broker is reached.
    pub nats: Settings,
}

/// Finds the stream.
///
/// # Errors
/// When there is no broker, no stream on it, or one of other subjects.
pub async fn stream(reach: &Reach) -> Result<Log, ReachError> {
    let connecting = connect(&reach.nats, "projector");
    let connection = tokio::time::timeout(PATIENCE, connecting)
        .await
        .map_err(|_| ReachError::NoBroker)??;
    let reader = Reader::new(&connection, &reach.stream.name);
    let state = reader
        .state()
        .await?
        .ok_or_else(|| ReachError::NoStream(reach.stream.name.clone()))?;
    let (found, wanted) = (reader.subjects().await?, reach.stream.subjects.all());
    // A mirror has none of its own.
    if !found.is_empty() && found != [wanted] {
        return Err(ReachError::OtherSubjects {
            stream: reach.stream.name.clone(),
            found,
            wanted: wanted.to_owned(),
        });
    }
    Ok(Log {
        reader,
        state,
        subjects: reach.stream.subjects.clone(),
        nats: reach.nats.clone(),
    })
}

/// The database, looked at whether it has our tables.
///
/// # Errors
/// When it cannot be reached, or has another schema.
pub async fn database(rows: &Rows) -> Result<Database, ReachError> {
    let Target {
        config, connector, ..
    } = rows.database.clone();
    let database = Database::new(config, connector, "projector", 1, rows.limits);
    database
        .snapshot(async |client| Ok::<_, ReachError>(database::check(client).await?))
        .await?;
    Ok(database)
}
