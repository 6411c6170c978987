//! The pipeline as it is deployed, made to fail from outside, and an oracle that says whether anything was lost.
//!
//! A [`World`] holds a broker and a database of its own, the provider, and the built programs as processes. A test lets
//! the provider send, breaks something ([`ops`]), repairs it or not, and ends with [`World::end`], which judges.
//!
//! A [`walk`] does all of that at random, from a seed: the program `failures` for as long as asked, a test for half a minute.
//!
//! # What is a failure
//! - A delivery that got a 2xx and is not on the stream; a task that ended and has no row; a result that is on the stream
//!   twice, or that the provider never sent.
//! - `answers` or `winners` in any column other than the fold of the stream
//!   ([`schemas::projection::fold`]); a message parked that could have become a row, or one that could not and is not parked.
//! - A process that is gone and was not told to go, one that ends with another exit code than it should, one that does
//!   not become ready once what it needs is there.
//!
//! # What is none
//! - Answers other than 2xx while something is broken: the provider sends again.
//! - An event on the stream whose delivery got no 2xx: its acknowledgment was lost on the way.
//! - Redelivered messages, retried transactions: they cost time.
//!
//! # What stays open
//! A seed fixes what the tasks are, what befalls deliveries and which operations a walk does. How far a program got when
//! a signal or a cut met it is up to the machine.

pub mod ops;
pub mod oracle;
mod traffic;
pub mod walk;
mod watch;
pub mod world;

pub use traffic::Load;
pub use watch::{Seen, Watch};
pub use world::{Setup, Who, World};
