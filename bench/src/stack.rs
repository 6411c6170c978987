//! What is measured, as it runs: servers, receivers, projectors, each a process of its own.

mod broker;
mod database;
mod installed;
mod projectors;
mod receiver;
mod tool;

pub use broker::{Broker, Durability};
pub use database::{database_processes, peer_url, postgres, session, wal};
pub use installed::Installed;
pub use projectors::{Projected, Projectors};
pub use receiver::{FLASK_THREADS, INBOX_CONNECTIONS, Receiver};
pub use tool::{Ended, drained, to_end};
