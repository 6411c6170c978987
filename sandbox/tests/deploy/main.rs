//! What deploy/, compose.yaml and the Dockerfile say is true of the programs of this build, on real servers.

#![cfg(test)] // for clippy: what is allowed in tests is allowed in their helpers too

mod backup;
mod broker;
mod compose;
mod compose_file;
mod delivery;
mod deployment;
mod images;
mod readme;
mod retention;
mod rights;
mod second_subscriber;
mod services;
mod snapshot;
mod trespass;
mod walk;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
    time::Duration,
};

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// How long a fact may take to become true.
pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap()
}

/// A program of this build, beside the directory of this test.
pub(crate) fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join(name);
    assert!(
        path.is_file(),
        "{} is not built: cargo build --workspace --bins",
        path.display()
    );
    path
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}
