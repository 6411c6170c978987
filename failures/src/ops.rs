//! What can be done to a [`World`](crate::World), and the judgement at the end.

mod database;
mod judging;
mod network;
mod processes;
mod replaying;
mod sending;
mod servers;
mod submitting;
