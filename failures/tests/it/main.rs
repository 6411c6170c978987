//! The pipeline, broken in one way after the other. Each test ends with a judgement of everything that was sent.

#![cfg(test)] // for clippy: what is allowed in tests is allowed in their helpers too

mod broker;
mod database;
mod full;
mod ingress;
mod killed_between;
mod maintenance;
mod rebuild;
mod receiver_article;
mod redirect;
mod secrets;
mod undisturbed;
mod walk;
