//! The reconciler between a provider, a broker and a database, as the process that an operator runs.

#![expect(
    clippy::unwrap_used,
    reason = "what fails here is a failed test, and the line is what to know of it"
)]

mod answers;
mod commands;
mod denied;
mod documents;
mod limits;
mod odd_rows;
mod outages;
mod process;
mod recovery;
mod sharing;
mod states;
mod surroundings;
mod unknown_ids;
mod world;
