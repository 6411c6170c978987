//! The programs: stopped, killed, started again, and what they say of themselves.

use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::time::Duration;

use nix::sys::signal::Signal;
use sandbox::eventually;
use sandbox::program::{self, Readiness};
use tokio::time::Instant;

use crate::world::{SOON, Who, World};

/// How long a stop may take: more than the grace that any program of a world has.
const STOPPING: Duration = Duration::from_secs(30);

impl World {
    /// Starts a program that is not running and waits until it is ready.
    ///
    /// # Panics
    /// When it does not become ready.
    pub async fn start_program(&mut self, who: Who) {
        self.begin(who);
        let program = &mut self.member(who).program;
        program.wait_ready().await.unwrap_or_else(|e| panic!("{e}"));
    }

    /// Starts a program that is not running, and waits for nothing.
    pub fn begin(&mut self, who: Who) {
        self.member(who).start();
    }

    /// Kills a program as a crash would (SIGKILL); returns when it is gone.
    ///
    /// # Panics
    /// When it had ended before.
    pub fn kill(&mut self, who: Who) {
        self.is_alive(who);
        let member = self.member(who);
        member.program.kill();
        member.meant_to_run = false;
    }

    /// Sends a signal that does not end a program at once.
    pub fn signal(&mut self, who: Who, signal: Signal) {
        self.member(who).program.signal(signal);
    }

    /// Stops a program in order (SIGTERM) and waits for its end, which must be with exit code 0.
    ///
    /// # Panics
    /// When it ends otherwise, or not in time.
    pub async fn stop(&mut self, who: Who) {
        self.is_alive(who);
        self.signal(who, Signal::SIGTERM);
        self.stopped(who, STOPPING).await;
    }

    /// Waits for the end of a program that was told to stop, which must be with exit code 0.
    ///
    /// # Panics
    /// When it ends otherwise, or not within `limit`.
    pub async fn stopped(&mut self, who: Who, limit: Duration) {
        let member = self.member(who);
        member.meant_to_run = false;
        let Some(status) = member.program.wait_ended(limit).await else {
            panic!("{who} still runs {limit:?} after it was told to stop");
        };
        assert_eq!(
            (status.code(), status.signal()),
            (Some(0), None),
            "{who} did not stop in order"
        );
    }

    /// A setting of a program from its next start on.
    pub fn set(&mut self, who: Who, name: &'static str, value: impl ToString) {
        self.member(who).program.set(name, value);
    }

    /// Runs another command of a program, with its settings, to its end.
    ///
    /// # Panics
    /// When it cannot be run.
    pub async fn run(&mut self, who: Who, arguments: &[&str]) -> Output {
        let output = self.member(who).program.output(arguments).await;
        output.unwrap_or_else(|e| panic!("{e}"))
    }

    /// Fails when a program that should run has ended, saying how.
    ///
    /// # Panics
    /// When it has.
    pub fn is_alive(&mut self, who: Who) {
        let program = &mut self.member(who).program;
        let (ended, pid) = (program.ended(), program.pid());
        assert!(pid.is_some(), "{who} is not running");
        if let Some(status) = ended {
            panic!("{who} ended by itself: {status}");
        }
    }

    /// Waits until a program says that it is ready.
    pub async fn becomes_ready(&self, who: Who) {
        eventually(&format!("{who} is ready"), SOON, async || {
            match self.watch.last(who) {
                Some(Readiness::Ready) => Ok(()),
                other => Err(other),
            }
        })
        .await;
    }

    /// Waits until a program says that it is not ready, for a reason that holds `words`.
    pub async fn becomes_unready(&self, who: Who, words: &str) {
        let what = format!("{who} is not ready because of `{words}`");
        eventually(&what, SOON, async || match self.watch.last(who) {
            Some(Readiness::NotReady(why)) if why.contains(words) => Ok(()),
            other => Err(other),
        })
        .await;
    }

    /// Holds that a program said that it is ready, and nothing else, from `mark` on.
    ///
    /// # Panics
    /// When it said something else.
    pub fn stayed_ready(&self, who: Who, mark: Instant) {
        let said = self.watch.since(who, mark);
        let ready = said.iter().all(|seen| seen.said == Readiness::Ready);
        assert!(
            ready && !said.is_empty(),
            "{who} was not ready throughout: {said:?}"
        );
    }

    /// Holds that a program never said that it is ready from `mark` on.
    ///
    /// # Panics
    /// When it did.
    pub fn stayed_unready(&self, who: Who, mark: Instant) {
        let said = self.watch.since(who, mark);
        let unready = said.iter().all(|seen| seen.said != Readiness::Ready);
        assert!(unready && !said.is_empty(), "{who} called itself ready: {said:?}");
    }

    /// The sum of a metric of a program over all its labels; 0 while it does not answer.
    pub async fn metric(&self, who: Who, name: &str) -> f64 {
        let member = self.members.iter().find(|member| member.who == who);
        let program = &member
            .unwrap_or_else(|| panic!("this world has no {who}"))
            .program;
        let Ok((_, text)) = program.page("/metrics").await else {
            return 0.0;
        };
        program::samples(&text, name)
    }

    /// What a program printed so far, in all its processes.
    pub fn log(&mut self, who: Who) -> String {
        self.member(who).program.log()
    }
}
