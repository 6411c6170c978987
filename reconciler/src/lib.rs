//! Provider to event: finds the results that no webhook brought.
//!
//! Data flows one way: [`submissions`] gives what is due, [`provider`] is asked for it, [`judge`] reads the answer, the stream
//! takes the result, and the projectors make it a row; a submission is settled by that row and by nothing else.
//!
//! Around that: [`check`] does it for one submission and [`sweep`] for all that are due. [`standing`] is how we stand with the
//! provider: [`gate`] says whether it may be asked, [`doubt`] whether it knows our tasks at all. [`schedule`] says when to ask again. [`log`] is the stream. [`run`], [`once`],
//! [`report`] and [`record`] are the commands.

pub mod check;
pub mod config;
pub mod doubt;
pub mod gate;
pub mod judge;
pub mod log;
pub mod metrics;
pub mod once;
pub mod open;
pub mod provider;
pub mod record;
pub mod report;
pub mod run;
pub mod schedule;
pub mod standing;
pub mod submissions;
pub mod sweep;
