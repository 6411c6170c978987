//! The examples at work: on a broker that runs `deploy/nats.conf`, as its user `subscriber`.

#![cfg(test)] // for clippy: what is allowed in tests is allowed in their helpers too

mod command_line;
mod document;
mod python;
mod scenarios;
mod subscriber;
mod world;

use std::time::Duration;

/// How long a fact may take to become true: far more than it does, on a busy machine too.
pub(crate) const SOON: Duration = Duration::from_secs(60);
