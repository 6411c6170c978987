//! The peers with more and with fewer connections to the database: what they are compared with is the best that they can be.

use anyhow::Result;
use sandbox::servers::Postgres;

use crate::bench::Bench;
use crate::figures::{Case, Section, Setting, Subject};
use crate::load::Size;
use crate::stack::{Receiver, postgres};

/// Connections of the sender: those at which the peers are judged.
const CONNECTIONS: [usize; 2] = [64, 256];
/// More than a peer in Rust can take in a second, and one in Python.
const PACES: (usize, usize) = (12_000, 2_000);
const CHOICES: [Choice; 7] = [
    Choice::Pool(16),
    Choice::Pool(32),
    Choice::Pool(64),
    Choice::Pool(128),
    Choice::Threads(4),
    Choice::Threads(16),
    Choice::Threads(32),
];

/// A peer, and how it is set up.
#[derive(Clone, Copy)]
enum Choice {
    /// The Rust inbox with so many connections to the database.
    Pool(usize),
    /// The Flask receiver with so many threads in each worker, each with a connection.
    Threads(usize),
}

pub(super) async fn run(bench: &mut Bench) -> Result<()> {
    let postgres = postgres().await?;
    for connections in CONNECTIONS {
        for round in bench.rounds() {
            for choice in CHOICES {
                one(bench, &postgres, connections, choice, round).await?;
            }
        }
    }
    Ok(())
}

/// Starts it for this round alone: what others hold open in the database is no part of this.
async fn one(
    bench: &mut Bench,
    postgres: &Postgres,
    connections: usize,
    choice: Choice,
    round: u32,
) -> Result<()> {
    let (installed, secret) = (&bench.installed, &bench.secret);
    let (subject, setting, pace, mut receiver) = match choice {
        Choice::Pool(own) => (
            Subject::RustInbox,
            Setting::Pool(connections, own),
            PACES.0,
            Receiver::inbox(installed, secret, postgres, own).await?,
        ),
        Choice::Threads(threads) => (
            Subject::FlaskReceiver,
            Setting::Threads(connections, threads),
            PACES.1,
            Receiver::flask(installed, secret, postgres, threads).await?,
        ),
    };
    let batch = bench.batch(Size::Usual, pace, connections);
    let measured = receiver.closed(&batch, bench.load(connections), true).await?;
    receiver.check().await?;
    bench.record(Case::new(Section::Tuning, subject, setting), round, &measured);
    Ok(())
}
