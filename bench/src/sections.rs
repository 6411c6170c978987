//! The parts of a run, one file each.

mod broker;
mod growth;
mod memory;
mod projector;
mod rates;
mod rebuild;
mod receiving;
mod repeats;
mod sender;
mod tuning;
mod visible;

use anyhow::Result;

use crate::bench::Bench;
use crate::figures::Section;

/// Measures one part.
///
/// # Errors
/// When something cannot be started, fails under load, or has not stored what it acknowledged.
pub async fn run(section: Section, bench: &mut Bench) -> Result<()> {
    match section {
        Section::Sender => sender::run(bench).await,
        Section::Ingress => receiving::ingress(bench).await,
        Section::Large => receiving::large(bench).await,
        Section::Repeats => repeats::run(bench).await,
        Section::Replicas => receiving::replicas(bench).await,
        Section::Rates => rates::run(bench).await,
        Section::Broker => broker::run(bench).await,
        Section::Projector => projector::run(bench).await,
        Section::Visible => visible::run(bench).await,
        Section::Rebuild => rebuild::run(bench).await,
        Section::Memory => memory::run(bench).await,
        Section::Growth => growth::run(bench).await,
        Section::Tuning => tuning::run(bench).await,
    }
}
