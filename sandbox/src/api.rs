//! The provider's API over HTTP: create a task, look at it, look at the queue, clear it.
//!
//! The model decides what is true; [`Faults`] decide what becomes of the answer on its way; [`Api::calls`] tells what was
//! asked. Every answer carries a `Date` of the clock that was passed in.

pub(crate) mod answer;
mod calls;
mod create;
mod fault;
mod faults;
mod retry_after;
pub(crate) mod routes;
mod server;
mod spoil;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use rand::Rng;
use rand::distr::Alphanumeric;
use service::Secret;

use crate::account::Account;
use crate::clock::Clock;
use crate::seed::Seed;
use crate::servers::ServerError;
use crate::servers::port::Port;
use routes::Parts;
use server::Server;

pub use calls::{Call, Operation};
pub use fault::Fault;
pub use faults::{Faults, Plan, Rule};
pub use retry_after::RetryAfter;

/// How the API is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The key that callers show as `Authorization: Bearer …`.
    pub key: Secret,
    /// Where it listens; on a free loopback port of its own when `None`.
    pub listen: Option<SocketAddr>,
    /// The most calls of a kind in a second; no limit when `None`.
    pub rate_limit: Option<u32>,
}

impl Settings {
    /// The key of a run, a free loopback port, and no limit.
    pub fn new(seed: Seed) -> Self {
        let letters = seed.rng("api key", 0).sample_iter(Alphanumeric).take(32);
        Self {
            key: Secret::new(format!("ak_{}", letters.map(char::from).collect::<String>())),
            listen: None,
            rate_limit: None,
        }
    }
}

/// The API of an account. It ends when this is dropped.
#[derive(Debug)]
pub struct Api {
    parts: Parts,
    server: Server,
    /// Keeps the port ours while the API is stopped.
    _port: Option<Port>,
}

impl Api {
    /// Serves the API of `account`.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn start(account: Account, settings: Settings, clock: Clock) -> Result<Self, ServerError> {
        Self::start_with(account, settings, clock, |_| Router::new()).await
    }

    /// Serves the API of `account`, and `more` routes for those who hold its key.
    pub(crate) async fn start_with(
        account: Account,
        settings: Settings,
        clock: Clock,
        more: impl FnOnce(&Parts) -> Router<Parts>,
    ) -> Result<Self, ServerError> {
        let port = settings.listen.is_none().then(Port::lease).transpose()?;
        let own = port.as_ref().map(Port::addr);
        let address = settings.listen.or(own).unwrap_or((Ipv4Addr::LOCALHOST, 0).into());
        let parts = Parts {
            account,
            clock,
            key: settings.key,
            rate_limit: settings.rate_limit,
            faults: Faults::default(),
            calls: calls::Calls::default(),
        };
        let more = more(&parts);
        let server = Server::start(address, routes::router(parts.clone(), more))
            .await
            .map_err(ServerError::io(format!("listening on {address}")))?;
        Ok(Self {
            parts,
            server,
            _port: port,
        })
    }

    /// Its base URL, without a final slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The key that callers show.
    pub fn key(&self) -> &str {
        self.parts.key.expose()
    }

    /// What goes wrong; changes count from the next call on.
    pub fn faults(&self) -> &Faults {
        &self.parts.faults
    }

    /// What was asked so far, in the order of arrival.
    pub fn calls(&self) -> Vec<Call> {
        self.parts.calls.all()
    }

    /// The most calls that were under way at the same time.
    pub fn most_calls_at_once(&self) -> usize {
        self.parts.calls.most_at_once()
    }

    /// Stops at once: calls under way get no answer, and later ones no connection.
    pub async fn stop(&mut self) {
        self.server.stop(Duration::ZERO).await;
    }

    /// Takes no more calls, and stops once those under way are answered or `grace` is over.
    pub async fn close(&mut self, grace: Duration) {
        self.server.stop(grace).await;
    }

    /// Serves again, on the same port and with the same faults and calls.
    ///
    /// # Errors
    /// When somebody else listens there by now.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.server.restart().await
    }
}
