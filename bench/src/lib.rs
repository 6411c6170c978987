//! How fast the pipeline is, beside what people would use instead of it, on the same servers and in the same run.
//!
//! A run is made of sections ([`figures::Section`]). What is compared is in one section and takes turns, round after round; the
//! ratio is taken within a round, so that what befalls a round befalls both. What must hold is in [`bars`], and nowhere else.
//!
//! - [`load`] is the sender: deliveries signed beforehand, in closed and open loops.
//! - [`stack`] starts what is measured: brokers, Postgres, ingress, projectors, and the peers (`bench/peers`).
//! - [`sections`] say what is measured, one file each.
//! - [`process`] reads what it costs out of `/proc`.
//! - [`report`] shows it, and writes `bench/results.json`.
//!
//! Nothing here is a test of speed: `cargo test` looks only at whether the bench itself is right.

pub mod bars;
pub mod bench;
pub mod config;
pub mod demand;
pub mod figures;
pub mod load;
pub mod machine;
pub mod measured;
pub mod process;
pub mod report;
pub mod results;
pub mod sections;
pub mod stack;
pub mod statistics;

use std::time::Instant;

use anyhow::{Context as _, Result};
use sandbox::clock::Clock;

use crate::bench::Bench;
use crate::config::BenchArgs;
use crate::machine::Machine;
use crate::report::Run;
use crate::stack::Installed;

/// Measures what `args` ask for, shows it, and writes it where it belongs.
///
/// # Errors
/// When something is not installed, cannot be started, or does not do what it should.
pub async fn run(args: &BenchArgs, clock: Clock) -> Result<()> {
    let installed = Installed::find(&Installed::own_directory()?)?;
    let machine = Machine::look(&installed).await?;
    if args.quick {
        println!("QUICK: these figures show that it works, and say nothing about how fast.");
    }
    if machine.is_busy() {
        println!(
            "BUSY: something else takes {:.0} % of the processors' time; do not believe the figures.",
            machine.busy_before * 100.0
        );
    }
    let effort = args.effort();
    let mut run = Run {
        began: clock.now(),
        machine,
        effort: effort.clone(),
        sections: Vec::new(),
    };
    let mut bench = Bench::new(effort, installed, clock);
    for section in args.sections() {
        let began = Instant::now();
        eprintln!("{section}");
        sections::run(section, &mut bench)
            .await
            .with_context(|| format!("section {section}"))?;
        let seconds = began.elapsed().as_secs_f64();
        run.sections.push((section.to_string(), seconds));
        println!("{}({seconds:.0} s)\n", report::section(&bench.results, section));
    }
    let bars = bars::all(&bench.effort);
    println!("{}", report::bars(&bench.results, &bars));
    if let Some(path) = args.results_file() {
        report::write(&path, &run, &bench.results, &bars)?;
        println!("written to {}", path.display());
    }
    Ok(())
}
