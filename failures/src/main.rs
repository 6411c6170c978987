//! The program `failures`: walks for as long as asked.

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};
use failures::walk::{Chapter, Story, Totals};
use futures_util::FutureExt;
use sandbox::clock::Clock;
use sandbox::seed::Seed;
use tokio::time::Instant;

/// Break the whole pipeline in every way there is, and see whether anything is lost.
#[derive(Debug, Parser)]
#[command(name = "failures", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Walk through one world after the other, and do there what a seed says. Exit code 1 when anything was wrong.
    Walk(Walk),
}

#[derive(Debug, clap::Args)]
struct Walk {
    /// Begins new worlds for so long; the last one is walked to its end. Without it, one world.
    #[arg(long, default_value_t = 0)]
    minutes: u64,
    /// The first world's seed; each further world has the next. From the clock by default.
    #[arg(long)]
    seed: Option<u64>,
    /// How often in a world everything is mended and judged.
    #[arg(long, default_value_t = 4)]
    stretches: u64,
    /// Operations between two of these.
    #[arg(long, default_value_t = 30)]
    operations: u64,
    /// Goes on with the next world after one in which something was wrong.
    #[arg(long)]
    keep_going: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Walk(walk) = Cli::parse().command;
    let end = Instant::now() + Duration::from_secs(60 * walk.minutes);
    let mut seed = walk
        .seed
        .unwrap_or_else(|| Clock::system().now().unix_timestamp().unsigned_abs());
    let mut totals = Totals::default();
    loop {
        let ended_well = chapter(&walk, seed, &mut totals).await;
        if Instant::now() >= end || !(ended_well || walk.keep_going) {
            break;
        }
        seed += 1;
    }
    print!("{totals}");
    if totals.failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

async fn chapter(walk: &Walk, seed: u64, totals: &mut Totals) -> bool {
    let chapter = Chapter {
        seed: Seed(seed),
        stretches: walk.stretches,
        operations: walk.operations,
    };
    let story = Arc::new(Story::default());
    let begun = Instant::now();
    // What is wrong is a panic, which has been printed and must not end the program.
    let walked = AssertUnwindSafe(chapter.walk(&story)).catch_unwind().await;
    totals.add(&story, walked.is_ok());
    match walked {
        Ok(verdict) => {
            println!("seed {seed}: {verdict} ({:.0} s)", begun.elapsed().as_secs_f64());
            true
        }
        Err(_) => {
            println!(
                "seed {seed} FAILED; again: failures walk --seed {seed} --stretches {} --operations {}",
                walk.stretches, walk.operations
            );
            false
        }
    }
}
