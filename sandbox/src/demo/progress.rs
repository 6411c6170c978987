//! Showing how far the demo is: a bar on a terminal, plain lines elsewhere.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// Tells a person what is going on, and remembers it for the message of a timeout.
pub(super) struct Narrator {
    terminal: bool,
    stage: Cell<&'static str>,
}

impl Narrator {
    /// One that draws bars if `terminal`.
    pub(super) fn new(terminal: bool) -> Self {
        Self {
            terminal,
            stage: Cell::new("starting"),
        }
    }

    /// What the demo is doing.
    pub(super) fn stage(&self) -> &'static str {
        self.stage.get()
    }

    /// Begins a stage without printing it.
    pub(super) fn stage_is(&self, stage: &'static str) {
        self.stage.set(stage);
    }

    /// Begins a stage and prints it.
    pub(super) fn begin(&self, stage: &'static str) {
        self.stage.set(stage);
        println!("demo: {stage}");
    }

    /// Begins a stage of `total` steps.
    pub(super) fn count(&self, stage: &'static str, total: u64) -> Steps {
        self.stage.set(stage);
        let bar = self.terminal.then(|| {
            let bar = ProgressBar::new(total);
            let template = "demo: {msg:<11} {bar:40} {human_pos}/{human_len}, {rate} a second, {eta} left";
            let style = ProgressStyle::with_template(template).expect("a template that the test below draws");
            bar.set_style(
                style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
                    // A bar that cannot be drawn must not stop the demo.
                    let _ = write!(out, "{:.0}", state.per_sec());
                }),
            );
            bar.set_message(stage);
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Steps {
            stage,
            total,
            bar,
            said: 0,
        }
    }
}

/// How far something is.
pub(super) struct Steps {
    stage: &'static str,
    total: u64,
    bar: Option<ProgressBar>,
    /// The fifths of the way that were printed.
    said: u64,
}

impl Steps {
    /// Shows that `steps` steps are done.
    pub(super) fn done(&mut self, steps: u64) {
        match &self.bar {
            Some(bar) => bar.set_position(steps),
            None => {
                let fifths = (steps * 5).checked_div(self.total).unwrap_or(5);
                if fifths > self.said {
                    self.said = fifths;
                    println!("demo: {} {steps} of {}", self.stage, self.total);
                }
            }
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.abandon();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_can_be_drawn_and_the_stage_is_remembered() {
        let narrator = Narrator::new(true);
        let mut steps = narrator.count("delivering", 10);
        steps.done(10);
        assert_eq!(steps.bar.as_ref().map(ProgressBar::position), Some(10));
        assert_eq!(narrator.stage(), "delivering");
    }

    #[test]
    fn plain_lines_come_at_each_fifth() {
        let mut steps = Narrator::new(false).count("delivering", 100);
        for (done, said) in [(10, 0), (20, 1), (39, 1), (100, 5)] {
            steps.done(done);
            assert_eq!(steps.said, said);
        }
    }
}
