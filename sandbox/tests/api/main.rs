//! The provider's API, asked over real sockets.

#![cfg(test)] // for clippy: what is allowed in tests is allowed in their helpers too

mod client;
mod faults;
mod truth;
mod world;
