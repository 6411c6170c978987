//! The command `once`: sweeps until nothing is due, and says by its exit code whether that was all.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use service::Stop;
use service::health::Health;
use thiserror::Error;
use tokio::time::Instant;
use tracing::info;

use crate::config::WorkConfig;
use crate::gate::Why;
use crate::open::{OpenError, Watched, open};
use crate::sweep::{Held, Swept};

/// Results that are on the stream become rows within moments, where a projector runs. This long without one of them is enough.
const PATIENCE: Duration = Duration::from_secs(30);
/// So many pauses in a row that end without an answer are enough too: who ran this may try again later.
const PAUSES: u32 = 5;
/// Between two looks for rows.
const LOOK: Duration = Duration::from_millis(250);

/// Why it ended other than with everything done.
#[derive(Debug, Error)]
pub enum OnceError {
    /// It cannot begin.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] database::DatabaseError),
    /// The provider does not answer, does not accept the key, or knows none of our tasks.
    #[error("the provider cannot be asked: {}", .0.as_str())]
    Refused(Why),
    /// Nothing can be appended.
    #[error("nothing can be appended to the stream at the moment")]
    Stream,
    /// Something is left.
    #[error("{outstanding} submissions are outstanding, {appended} of them with their result on the stream")]
    Outstanding {
        /// Past their first check.
        outstanding: u64,
        /// Of these, those whose result is on the stream and no row yet.
        appended: u64,
    },
    /// The provider has something left to do.
    #[error(
        "nothing is outstanding here, but the provider has {queued} tasks queued and {processing} running"
    )]
    Queue {
        /// Waiting.
        queued: u64,
        /// Running.
        processing: u64,
    },
    /// The provider did not say what it has left to do.
    #[error("nothing is outstanding here, but the provider does not say what its queue holds")]
    Silent,
    /// Told to stop.
    #[error("stopped before it was done")]
    Stopped,
}

/// Sweeps until nothing is due.
///
/// # Errors
/// When something is left.
pub async fn run(config: WorkConfig, stop: Stop) -> Result<(), OnceError> {
    // Nobody asks how it is: it ends.
    let watched = Watched::register(&mut Registry::default(), &Health::new(), Duration::MAX);
    let opening = open(config, watched, true, stop.clone());
    let (checker, worker) = stop.unless_requested(opening).await.ok_or(OnceError::Stopped)??;
    let checker = Arc::new(checker);
    let _working = tokio::spawn(worker.run());

    let mut waiting = Waiting::default();
    let swept = loop {
        let swept = checker.sweep().await?.ok_or(OnceError::Stopped)?;
        match swept.held {
            Some(Held::Closed(closed)) if matches!(closed.why, Why::Denied | Why::Unknown) => {
                return Err(OnceError::Refused(closed.why));
            }
            Some(Held::Stream) => return Err(OnceError::Stream),
            Some(Held::Closed(closed)) if checker.standing.gate.closings() >= PAUSES => {
                return Err(OnceError::Refused(closed.why));
            }
            Some(Held::Closed(_)) => {}
            _ if swept.more => {}
            // What can be done has been done; the rest is up to the projectors.
            _ if swept.counts.appended == 0 && swept.held.is_none() => break swept,
            _ if waiting.is_over(&swept) => break swept,
            _ => {
                let look = tokio::time::sleep(LOOK);
                stop.unless_requested(look).await.ok_or(OnceError::Stopped)?;
                continue;
            }
        }
        if !checker.pause(Some(&swept)).await {
            return Err(OnceError::Stopped);
        }
    };
    if swept.counts.outstanding > 0 {
        return Err(OnceError::Outstanding {
            outstanding: swept.counts.outstanding,
            appended: swept.counts.appended,
        });
    }
    let queue = checker.standing.queue().await.ok_or(OnceError::Silent)?;
    if !queue.is_empty() {
        return Err(OnceError::Queue {
            queued: queue.queued_tasks,
            processing: queue.processing_tasks,
        });
    }
    info!("nothing is outstanding, and the provider has nothing left to do");
    Ok(())
}

/// Waiting for the projectors, for as long as they get on.
#[derive(Debug, Default)]
struct Waiting {
    best: Option<(u64, u64, Instant)>,
}

impl Waiting {
    fn is_over(&mut self, swept: &Swept) -> bool {
        let now = Instant::now();
        let lag = swept.progress.map_or(u64::MAX, |progress| progress.lag);
        let appended = swept.counts.appended;
        match self.best {
            Some((least_lag, least_appended, since)) if lag >= least_lag && appended >= least_appended => {
                now - since > PATIENCE
            }
            _ => {
                self.best = Some((lag, appended, now));
                false
            }
        }
    }
}
