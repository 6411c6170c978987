//! The crate against a real broker.

mod append;
mod consume;
mod declare;
mod read;
mod unreadable;
mod world;
