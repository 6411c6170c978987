//! What was found, for people and for programs.

mod json;
mod table;

pub use json::{Run, write};
pub use table::{bars, number, section};
