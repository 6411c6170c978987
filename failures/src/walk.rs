//! A random walk: operations of every kind, chosen by a seed, against the oracle.
//!
//! A walk is made of chapters, each in a world of its own with a seed of its own, so that one that fails can be walked again
//! without those before it. In a chapter, stretches of operations under load alternate with mending everything, waiting
//! until all is quiet, and judging.

mod application;
mod choice;
mod judging;
mod operation;
mod perform;
mod report;
mod rotation;
mod sending;
mod state;
mod walker;

pub use operation::{Breakage, Change, Deed, Ill, Operation, Order, Side, Wrong};
pub use report::{Story, Totals};
pub use walker::Chapter;
