//! The crate against a real broker.

mod append;
mod connect;
mod consume;
mod declare;
mod read;
mod unreadable;
mod world;
