//! The way to the stream: found at the start, watched from then on.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use schemas::event::Kind;
use service::Chain;
use service::health::Check;
use stream::append::{self, AppendSettings, Appender, StartError, Worker};
use stream::connect::{ConnectError, Settings, connect};
use stream::declare::{DeclareError, StreamSpec, declare};
use tokio::task::JoinError;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::receive::{Hook, Log};
use crate::room::Room;

/// Time between two looks at the stream.
const LOOK: Duration = Duration::from_secs(2);
/// What a production broker takes, so that no usual body is too large.
const USUAL_BODY_LIMIT: usize = (8 << 20) - (64 << 10);

/// Why the stream cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The broker refuses the connection.
    #[error("connecting to the broker")]
    Connect(#[source] ConnectError),
    /// The stream is missing and cannot be made, or its configuration could lose events.
    #[error("finding the stream")]
    Declare(#[source] DeclareError),
    /// The broker's answers to appends cannot be received.
    #[error("preparing to append")]
    Append(#[source] StartError),
    /// Appending has ended, and nothing can be taken any more.
    #[error("appending to the stream has ended")]
    AppendEnded(#[source] Option<JoinError>),
    /// The configured limit is more than the broker takes.
    #[error(
        "--body-limit is {wanted} bytes, but the stream takes bodies of at most {most} bytes (max_payload less 64 KiB): raise max_payload on the \
         broker, or lower the limit"
    )]
    BodyLimit {
        /// The setting.
        wanted: usize,
        /// What fits.
        most: usize,
    },
}

/// How long the watch can be silent and still be well: a look, which takes at most the publish limit, the pause before it, and as
/// much again.
pub(crate) fn sign_of_life(publish_timeout: Duration) -> Duration {
    2 * (LOOK + publish_timeout)
}

/// Finds the stream, gives it to the hook, and then tells `check` every [`LOOK`] whether a publish would succeed, until
/// stopping is requested.
///
/// The broker need not be there at the start: until it is, the hook answers 503.
pub(crate) async fn watch(
    hook: Arc<Hook>,
    settings: BrokerSettings,
    check: Check,
    room: Room,
) -> Result<(), BrokerError> {
    let stop = hook.stop.clone();
    check.failing("looking for the broker and its stream");
    let Some(found) = stop
        .unless_requested(beating(&check, find(&settings, hook.limits.body)))
        .await
    else {
        return Ok(());
    };
    let (log, worker) = found?;
    info!(
        stream.name = settings.stream.name,
        body_limit = log.body_limit,
        "found the stream"
    );
    let appender = log.appender.clone();
    hook.log.set(log).expect("only this task sets it, once");
    // It works for the requests that are finished while the process stops, so it ends with the runtime.
    let worker = tokio::spawn(worker.run());
    tokio::select! {
        () = stop.requested() => Ok(()),
        never = look_on(&appender, &check, &room) => match never {},
        ended = worker => Err(BrokerError::AppendEnded(ended.err())),
    }
}

/// What it takes to find the stream.
#[derive(Debug)]
pub(crate) struct BrokerSettings {
    pub(crate) nats: Settings,
    pub(crate) stream: StreamSpec,
    pub(crate) append: AppendSettings,
    pub(crate) metrics: append::Metrics,
}

async fn find(settings: &BrokerSettings, wanted: Option<usize>) -> Result<(Log, Worker), BrokerError> {
    let connection = connect(&settings.nats, "ingress")
        .await
        .map_err(BrokerError::Connect)?;
    let declared = declare(&connection, &settings.stream)
        .await
        .map_err(BrokerError::Declare)?;
    let body_limit = body_limit(wanted, declared.max_body())?;
    let started = Appender::start(&connection, &declared, &settings.append, settings.metrics.clone()).await;
    let (appender, worker) = started.map_err(BrokerError::Append)?;
    Ok((Log { appender, body_limit }, worker))
}

fn body_limit(wanted: Option<usize>, most: usize) -> Result<usize, BrokerError> {
    match wanted {
        Some(wanted) if wanted > most => Err(BrokerError::BodyLimit { wanted, most }),
        Some(wanted) => Ok(wanted),
        None => {
            if most < USUAL_BODY_LIMIT {
                warn!(
                    body_limit = most,
                    "the broker's max_payload allows small bodies only; 8MB is advised"
                );
            }
            Ok(most)
        }
    }
}

/// Awaits `work`, which may take as long as it likes, with signs of life meanwhile.
async fn beating<T>(check: &Check, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        match timeout(LOOK, &mut work).await {
            Ok(done) => return done,
            Err(_) => check.beat(),
        }
    }
}

async fn look_on(appender: &Appender, check: &Check, room: &Room) -> Infallible {
    let mut ready = true;
    loop {
        let probed = appender.probe(&Kind::ALL).await;
        room.looked(&probed);
        match probed {
            Ok(_) => {
                check.ok();
                if !std::mem::replace(&mut ready, true) {
                    info!("events can be appended again");
                }
            }
            Err(error) => {
                check.failing(Chain(&error).to_string());
                if std::mem::replace(&mut ready, false) {
                    warn!(error = %Chain(&error), "events cannot be appended for the moment");
                }
            }
        }
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_what_was_set_or_what_fits() {
        assert_eq!(body_limit(None, 100).unwrap(), 100);
        assert_eq!(body_limit(Some(100), 100).unwrap(), 100);
        assert!(matches!(
            body_limit(Some(101), 100),
            Err(BrokerError::BodyLimit {
                wanted: 101,
                most: 100
            })
        ));
    }
}
