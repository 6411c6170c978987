//! Event to rows: takes the events of one stream and keeps the tables that follow from them.
//!
//! Data flows one way: [`pull`] takes messages, [`decode`] reads them, [`rows`] reduces a batch to what can change
//! the tables, [`statements`] writes it, [`outcome`] says what the broker is told.
//!
//! Around that: [`pull`], [`commit`] and [`acknowledge`] run one batch apart;
//! [`claim`] ties the consumer's acknowledgments to one life of one database, [`floor`] notes how far that
//! database has come, [`remembered`] is the row where it stands. [`run`] puts it together.
//!
//! For people: [`explain`] tells the story of a task, [`parked`] lists what could not become a row and tries again, [`erase`]
//! forgets a task for good. They go through the stream with [`find`].
//!
//! [`rebuild`] compares the tables with the stream and puts right what differs.
//!
//! The tables are maxima over the set of events (`schemas::winner`), so nothing here depends on the order in which events
//! come, how often, in what batches, or how many projectors there are.

pub mod acknowledge;
pub mod batch;
pub mod claim;
pub mod commit;
pub mod condition;
pub mod config;
mod copy_rows;
pub mod decode;
pub mod erase;
pub mod explain;
pub mod find;
pub mod fit;
pub mod floor;
pub mod jsonb;
pub mod keep;
mod lock;
pub mod metrics;
pub mod migration;
pub mod mismatch;
pub mod outcome;
pub mod park;
pub mod parked;
pub mod print;
pub mod progress;
pub mod pull;
pub mod reach;
pub mod rebuild;
pub mod remembered;
pub mod removals;
pub mod rows;
pub mod run;
pub mod session;
pub mod statements;
