//! The built binary against real brokers, asked over raw sockets.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test fails the test when it panics"
)]

mod bodies;
mod callers;
mod client;
mod documents;
mod events;
mod limits;
mod logs;
mod outage;
mod process;
mod refusals;
mod rights;
mod settings;
mod signatures;
mod stopping;
mod tls;
mod world;
