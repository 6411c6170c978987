//! Real servers, private to their user: on free loopback ports, in a directory of their own that goes when they go.
//!
//! A server ends with the value that owns it. It also ends, directory and all, when the process that started it is
//! killed: see `janitor.rs`. Everything that acts on a server (kill, stop, pause, restart) keeps its port and its store.

mod backup;
mod database;
pub mod deployed;
mod disk;
mod error;
mod find;
mod janitor;
mod link;
mod nats;
pub(crate) mod port;
mod postgres;
pub(crate) mod process;
mod raw;
mod server;

pub use backup::Backup;
pub use database::Database;
pub use deployed::DeployedNats;
pub use disk::Disk;
pub use error::ServerError;
pub use find::{nats_server, postgres_bin};
pub use link::Link;
pub use nats::{Broker, NatsOptions, NatsServer};
pub use port::Port;
pub use postgres::{DatabaseServer, Postgres, PostgresOptions};
pub use raw::publish_bytes;
pub use server::{Kind, Server};
