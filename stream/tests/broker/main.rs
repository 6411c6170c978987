//! The crate against a real broker.

mod append;
mod world;
