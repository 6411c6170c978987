//! The projector against a real broker and a real database, as the process that an operator runs.

#![expect(
    clippy::unwrap_used,
    reason = "what fails here is a failed test, and the line is what to know of it"
)]

mod agreement;
mod answer;
mod broker;
mod database;
mod erase;
mod explain;
mod parked;
mod pooler;
mod projector;
mod rebuild;
mod rows;
mod running;
mod settings;
mod tls;
mod unreadable;
mod world;
