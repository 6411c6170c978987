//! One server process after another in the same directory.

use std::{
    fs::{self, File},
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::{Instant, sleep};

use super::{ServerError, janitor::Janitor};

/// How long a server may take to become ready or to stop. Generous: test machines are busy.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);
/// How much of a server's log goes into an error.
const LOG_LINES: usize = 20;

/// A server's directory and the process that runs in it, if one does.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    child: Option<Child>,
    janitor: Janitor,
}

impl Process {
    /// A directory, and nothing running in it yet.
    pub(crate) fn new(name: &'static str) -> Result<Self, ServerError> {
        Ok(Self {
            name,
            child: None,
            janitor: Janitor::new(&format!("answerlog-{name}-"))?,
        })
    }

    pub(crate) fn dir(&self) -> &Path {
        self.janitor.dir()
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.dir().join("log")
    }

    /// The pid while a process runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// How the process ended, when it ended by itself.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child
            .as_mut()
            .and_then(|child| child.try_wait().ok().flatten())
    }

    /// Starts `command` with its output appended to the log.
    pub(crate) fn spawn(&mut self, mut command: Command) -> Result<(), ServerError> {
        assert!(self.child.is_none(), "{} is running already", self.name);
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log())
            .and_then(|out| Ok((out.try_clone()?, out)))
            .map_err(ServerError::io(format!("opening {}", self.log().display())))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.0)
            .stderr(log.1)
            // Ctrl-C is for the program that owns the server, which then stops it in order.
            .process_group(0)
            .spawn()
            .map_err(ServerError::io(format!("starting {}", self.name)))?;
        self.janitor.watch(Some(child.id()));
        self.child = Some(child);
        Ok(())
    }

    /// Asks `ready` again and again until it says yes; fails at once when the process ends by itself.
    pub(crate) async fn wait_ready(
        &mut self,
        mut ready: impl AsyncFnMut() -> Result<(), String>,
    ) -> Result<(), ServerError> {
        let end = Instant::now() + PATIENCE;
        loop {
            let last = match tokio::time::timeout_at(end, ready()).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(last)) => last,
                Err(_) => "no answer".to_owned(),
            };
            let ended = match self.child.as_mut().map(Child::try_wait) {
                Some(Ok(None)) => None,
                Some(Ok(Some(status))) => Some(format!("it ended by itself: {status}")),
                Some(Err(error)) => Some(format!("it cannot be waited for: {error}")),
                None => Some("it was stopped".to_owned()),
            };
            if ended.is_some() || Instant::now() >= end {
                self.reap();
                let last = ended.unwrap_or(last);
                return Err(ServerError::NotReady {
                    name: self.name,
                    last,
                    log: self.log_tail(),
                });
            }
            sleep(PAUSE).await;
        }
    }

    /// Sends `signal` to the process.
    ///
    /// # Panics
    /// When none runs: the test that asks for it has lost track.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self
            .pid()
            .unwrap_or_else(|| panic!("{} is not running", self.name));
        send(pid, signal).unwrap_or_else(|e| panic!("sending {signal} to {}: {e}", self.name));
    }

    /// Stops the process and those it has started until [`thaw`](Self::thaw); returns once they stand still.
    ///
    /// # Panics
    /// When none runs.
    pub(crate) fn freeze(&self) {
        // The parent first, so that no child is born between the look and the signal.
        self.signal(Signal::SIGSTOP);
        self.pid().into_iter().chain(self.children()).for_each(freeze);
    }

    /// Lets a frozen process go on, and those it has started.
    pub(crate) fn thaw(&self) {
        for child in self.children() {
            let _ = send(child, Signal::SIGCONT);
        }
        self.signal(Signal::SIGCONT);
    }

    /// The pids of the processes that the main thread of this one has started.
    fn children(&self) -> Vec<u32> {
        let Some(pid) = self.pid() else { return Vec::new() };
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect()
    }

    /// Waits for the process to end after a signal that asks it to, and kills it when it takes too long.
    pub(crate) async fn wait_stopped(&mut self) {
        let end = Instant::now() + PATIENCE;
        while let Some(child) = &mut self.child {
            if !matches!(child.try_wait(), Ok(None)) || Instant::now() >= end {
                self.reap();
                return;
            }
            sleep(PAUSE).await;
        }
    }

    /// Kills the process if one runs, and those it has started, and waits until it is gone.
    pub(crate) fn reap(&mut self) {
        if let Some(pid) = self.pid() {
            freeze(pid); // so that no child is born between the look and the kill
            for child in self.children() {
                let _ = send(child, Signal::SIGKILL);
            }
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
            self.janitor.watch(None);
        }
    }

    /// The last lines of the log.
    pub(crate) fn log_tail(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.reap();
    }
}

/// Sends a signal to a process by its pid; one that is gone already is an error of the caller's to judge.
pub(crate) fn send(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    kill(Pid::from_raw(pid), signal).map_err(io::Error::from)
}

/// Stops a process (SIGSTOP) and waits until none of its threads runs any more: the signal alone takes a moment.
pub(crate) fn freeze(pid: u32) {
    let end = std::time::Instant::now() + PATIENCE;
    // A process that is gone has nothing to stop.
    while send(pid, Signal::SIGSTOP).is_ok() && any_thread_runs(pid) && std::time::Instant::now() < end {
        std::thread::yield_now();
    }
}

fn any_thread_runs(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok())
        .any(|stat| {
            // The state follows the name, which is in parentheses and may hold any character: T stopped, Z and X ended.
            let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
            !matches!(state, Some('T' | 'Z' | 'X'))
        })
}
