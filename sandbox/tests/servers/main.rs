//! The private servers do what their names say, with real clients.

#![cfg(test)] // for clippy: what is allowed in tests is allowed in their helpers too

mod disk;
mod link;
mod nats;
mod ownership;
mod postgres;
mod script;

use std::time::Duration;

/// How long a fact may take to become true.
pub(crate) const SOON: Duration = Duration::from_secs(10);
