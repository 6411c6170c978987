//! The crate against a real broker.

mod append;
mod consume;
mod declare;
mod unreadable;
mod world;
