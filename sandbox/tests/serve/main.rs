//! `sandbox serve` as a person runs it: the built program, and the commands that docs/sandbox.md gives for it.

#![cfg(test)] // for clippy: what is allowed in tests is allowed in their helpers too

mod manual;
mod program;
mod receiver;
mod running;
