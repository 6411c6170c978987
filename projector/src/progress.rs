//! Showing how far a walk through the stream is: a bar on a terminal, a log line every few seconds elsewhere.

use std::fmt;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use tokio::time::Instant;
use tracing::info;

/// Between two log lines.
const PAUSE: Duration = Duration::from_secs(5);

/// How far a walk is. The bar goes when this does.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    first: u64,
    last: u64,
    bar: Option<ProgressBar>,
    begun: Instant,
    said: Instant,
}

impl Progress {
    /// A walk through the sequences from `first` to `last`, shown on standard error.
    pub fn new(what: &'static str, first: u64, last: u64) -> Self {
        Self::on(io::stderr().is_terminal(), what, first, last)
    }

    fn on(terminal: bool, what: &'static str, first: u64, last: u64) -> Self {
        let bar = terminal.then(|| {
            let bar = ProgressBar::new((last + 1).saturating_sub(first));
            let template = "{msg} {bar:40} {human_pos}/{human_len}, {rate} a second, {eta} left";
            let style = ProgressStyle::with_template(template).expect("a template that the test below draws");
            bar.set_style(
                style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
                    // A bar that cannot be drawn must not stop the work.
                    let _ = write!(out, "{:.0}", state.per_sec());
                }),
            );
            bar.set_message(what);
            bar
        });
        let now = Instant::now();
        Self {
            what,
            first,
            last,
            bar,
            begun: now,
            said: now,
        }
    }

    /// The walk has come to this sequence.
    pub fn at(&mut self, seq: u64) {
        let done = seq.saturating_sub(self.first);
        match &self.bar {
            Some(bar) => bar.set_position(done),
            None if self.said.elapsed() >= PAUSE => {
                self.said = Instant::now();
                let rate = done as f64 / self.begun.elapsed().as_secs_f64();
                let left = (self.last + 1).saturating_sub(seq) as f64 / rate.max(1.0);
                info!(
                    stream.seq = seq,
                    stream.last_seq = self.last,
                    rate = rate as u64,
                    seconds_left = left as u64,
                    "{}",
                    self.what
                );
            }
            None => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_bar_can_be_drawn_and_lines_come_at_intervals() {
        let mut drawn = Progress::on(true, "looking", 11, 110);
        drawn.at(61);
        assert_eq!(drawn.bar.as_ref().map(ProgressBar::position), Some(50));

        let mut told = Progress::on(false, "looking", 1, 100);
        let begun = told.said;
        told.at(10);
        assert_eq!(told.said, begun);
        tokio::time::advance(PAUSE).await;
        told.at(20);
        assert_eq!(told.said, begun + PAUSE);
    }
}
