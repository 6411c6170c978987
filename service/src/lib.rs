//! What every program of answerlog does the same way: start, log, report its health, and stop.
//!
//! A program's `main` reads its configuration with [`cli`] (all faults at once, exit code 64) and hands an
//! async function to [`run()`], which brings the runtime, the logs and a [`Stop`] that the operating system's
//! signals request. Inside, [`Tasks`] holds the long-lived tasks together: one that dies takes the process
//! with it. [`admin`] answers what an operator asks on a port of its own, out of [`health`] and a metrics registry.

pub mod admin;
mod backoff;
pub mod cli;
mod condition;
mod error;
pub mod health;
pub mod healthcheck;
pub mod logging;
mod run;
pub mod secret;
mod stop;
mod tasks;
pub mod tls;

pub use backoff::Backoff;
pub use cli::ConfigFaults;
pub use condition::Condition;
pub use error::Chain;
pub use logging::LogArgs;
pub use run::{command, run};
pub use secret::Secret;
pub use stop::Stop;
pub use tasks::{TaskFailed, Tasks};
