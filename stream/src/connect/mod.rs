//! The connection to the broker.
//!
//! Once made it is kept for ever: the client reconnects by itself, and [`Connection::connects`] tells those who
//! remember something about the broker that it may no longer be true.

mod events;
mod password;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectErrorKind, ConnectOptions, ServerInfo, jetstream};
use service::Chain;
use service::secret::SecretError;
use thiserror::Error;
use tokio::sync::watch;
use tracing::{info, warn};

use events::{EventLog, Link};
pub use password::Password;
pub use settings::Settings;

/// The oldest server on which the promises hold: `allow_atomic` is understood, unknown fields are refused instead
/// of ignored, and an overloaded stream says so.
pub const OLDEST_SERVER: ServerVersion = (2, 12, 0);

/// Major, minor and patch number of a server.
pub type ServerVersion = (u64, u64, u64);

/// How long the first attempts and every reconnect wait at most between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A connection that heals itself. Clones share it.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The client, for what needs no JetStream.
    pub client: Client,
    /// JetStream requests, each bounded by the request timeout of the settings.
    pub jetstream: jetstream::Context,
    api_prefix: Arc<str>,
    state: watch::Receiver<Link>,
}

impl Connection {
    /// The subject of a request to JetStream, e.g. `STREAM.MSG.GET.ANSWERS`, for what is published by hand.
    pub(crate) fn api(&self, request: &str) -> String {
        format!("{}.{request}", self.api_prefix)
    }

    /// Whether there is a connection right now, as far as the client knows: a peer that went mute is noticed after
    /// at most three ping intervals.
    pub fn is_connected(&self) -> bool {
        self.state.borrow().connected
    }

    /// How often a connection was made. Grows by one at each reconnect; whatever was remembered about the broker
    /// before is then forgotten.
    pub fn connects(&self) -> u64 {
        self.state.borrow().connects
    }

    /// Waits until the connection is lost or made anew. Pends for ever once the client is gone.
    pub async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Waits until a connection was made after the one with this number.
    pub(crate) async fn made_after(&self, connects: u64) {
        let mut connection = self.clone();
        while connection.connects() <= connects {
            connection.changed().await;
        }
    }

    /// The version of the server that this connection leads to now.
    pub fn server_version(&self) -> ServerVersion {
        version(&self.client.server_info()).unwrap_or_default()
    }

    /// The largest message, headers and body together, in bytes, that the server takes.
    pub fn max_payload(&self) -> usize {
        self.client.max_payload()
    }
}

/// Why there is no connection, and none is to be expected while the settings stay as they are.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// A file named in the settings cannot be read or understood.
    #[error("reading {what} from {path}")]
    File {
        /// What it should hold.
        what: &'static str,
        /// Where it was looked for.
        path: String,
        /// Why it could not be had.
        source: std::io::Error,
    },
    /// The password cannot be had.
    #[error(transparent)]
    Password(#[from] SecretError),
    /// A server's URL cannot be read.
    #[error("reading the NATS URL `{url}`")]
    Url {
        /// The URL, without credentials.
        url: String,
        /// What is wrong with it.
        source: std::io::Error,
    },
    /// The settings contradict each other.
    #[error("{0}")]
    Settings(&'static str),
    /// The server refuses these credentials, or the TLS settings do not fit it.
    #[error("connecting to {servers}")]
    Refused {
        /// The servers tried, without credentials.
        servers: String,
        /// What the client says.
        source: async_nats::ConnectError,
    },
    /// The server is too old for the promises made on top of it.
    #[error(
        "the server is nats-server {found}, and {}.{}.{} is the oldest that can be used",
        OLDEST_SERVER.0, OLDEST_SERVER.1, OLDEST_SERVER.2
    )]
    TooOld {
        /// What the server says it is.
        found: String,
    },
    /// The server has no JetStream.
    #[error("the server {server} does not have JetStream enabled")]
    NoJetStream {
        /// The server's name.
        server: String,
    },
}

/// Connects, waiting as long as it takes for a server to appear. `name` is what the server lists this client as.
///
/// Credentials that are refused, files that cannot be read and servers that are too old are errors: waiting does
/// not mend them. After the first connection nothing is an error any more; see [`Connection::is_connected`].
pub async fn connect(settings: &Settings, name: &str) -> Result<Connection, ConnectError> {
    let servers = settings.servers()?;
    let mut attempt = 0;
    let (client, state) = loop {
        let (options, state) = options(settings, name).await?;
        match options.connect(servers.as_slice()).await {
            Ok(client) => break (client, state),
            Err(source) if is_final(source.kind()) => {
                return Err(ConnectError::Refused {
                    servers: settings.shown_servers(),
                    source,
                });
            }
            Err(error) => {
                if attempt == 0 {
                    warn!(error = %Chain(&error), servers = settings.shown_servers(), "no NATS server yet; trying on");
                }
                attempt += 1;
                tokio::time::sleep(pause(attempt)).await;
            }
        }
    };

    let server = client.server_info();
    if version(&server).is_none_or(|found| found < OLDEST_SERVER) {
        return Err(ConnectError::TooOld {
            found: server.version,
        });
    }
    if !server.jetstream {
        return Err(ConnectError::NoJetStream {
            server: server.server_name,
        });
    }
    info!(
        server.version,
        server.name = server.server_name,
        max_payload = server.max_payload,
        "connected to NATS"
    );
    let jetstream = jetstream::ContextBuilder::new()
        .timeout(settings.request_timeout)
        .api_prefix(&settings.api_prefix)
        .build(client.clone());
    let connection = Connection {
        client,
        jetstream,
        api_prefix: settings.api_prefix.as_str().into(),
        state,
    };
    // The client says so a moment later; until then there would seem to be no connection.
    connection.made_after(0).await;
    Ok(connection)
}

/// Whether trying again with the same settings is of no use.
fn is_final(kind: ConnectErrorKind) -> bool {
    match kind {
        ConnectErrorKind::ServerParse
        | ConnectErrorKind::Authentication
        | ConnectErrorKind::AuthorizationViolation
        | ConnectErrorKind::Tls
        | ConnectErrorKind::MaxReconnects => true,
        ConnectErrorKind::Dns | ConnectErrorKind::TimedOut | ConnectErrorKind::Io => false,
    }
}

/// 2, 4, 8, … milliseconds, up to [`LONGEST_PAUSE`].
fn pause(attempt: usize) -> Duration {
    let exponent = u32::try_from(attempt).unwrap_or(u32::MAX).min(10);
    Duration::from_millis(2_u64.pow(exponent)).min(LONGEST_PAUSE)
}

async fn options(
    settings: &Settings,
    name: &str,
) -> Result<(ConnectOptions, watch::Receiver<Link>), ConnectError> {
    let (sender, receiver) = watch::channel(Link::default());
    let log = Arc::new(EventLog::new(sender));
    let options = settings
        .apply(ConnectOptions::new().name(name))
        .await?
        .max_reconnects(None)
        .reconnect_delay_callback(|attempt| {
            if attempt <= 1 {
                Duration::ZERO
            } else {
                pause(attempt - 1)
            }
        })
        .event_callback(move |event| {
            let log = Arc::clone(&log);
            async move { log.on(event) }
        });
    Ok((options, receiver))
}

fn version(server: &ServerInfo) -> Option<ServerVersion> {
    let text = server.version.trim_start_matches('v');
    // `2.15.0-dev` and `2.12.1-RC.1` count as what they lead up to.
    let mut numbers = text.split(['-', '+']).next()?.split('.').map(str::parse);
    let mut next = || numbers.next().unwrap_or(Ok(0)).ok();
    Some((next()?, next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(version: &str) -> Option<ServerVersion> {
        super::version(&ServerInfo {
            version: version.to_owned(),
            ..ServerInfo::default()
        })
    }

    #[test]
    fn versions_are_read_with_and_without_suffix() {
        assert_eq!(found("2.15.1"), Some((2, 15, 1)));
        assert_eq!(found("v2.12.0-RC.4"), Some((2, 12, 0)));
        assert_eq!(found("2.15"), Some((2, 15, 0)));
        assert_eq!(found(""), None);
        assert_eq!(found("beta"), None);
    }

    #[test]
    fn a_server_below_the_oldest_is_told_apart() {
        assert!(found("2.11.11").is_some_and(|version| version < OLDEST_SERVER));
        assert!(found("2.12.0").is_some_and(|version| version >= OLDEST_SERVER));
    }

    #[test]
    fn pauses_grow_and_stay_below_a_second() {
        assert_eq!(pause(1), Duration::from_millis(2));
        assert_eq!(pause(4), Duration::from_millis(16));
        assert_eq!(pause(usize::MAX), LONGEST_PAUSE);
    }
}
