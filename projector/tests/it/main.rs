//! The projector against a real broker and a real database, as the process that an operator runs.

mod agreement;
mod answer;
mod broker;
mod database;
mod projector;
mod rows;
mod running;
mod settings;
mod world;
