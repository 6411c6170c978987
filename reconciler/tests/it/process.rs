//! The binary, as a process.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbox::eventually;
use sandbox::program::page;
use sandbox::servers::Port;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use crate::world::SOON;

const BINARY: &str = env!("CARGO_BIN_EXE_reconciler");

/// Settings of a reconciler to start.
#[derive(Debug, Clone)]
pub(crate) struct Builder {
    environment: Vec<(&'static str, String)>,
}

/// What a command printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Builder {
    pub(crate) fn new(environment: Vec<(&'static str, String)>) -> Self {
        Self { environment }
    }

    pub(crate) fn set(mut self, name: &'static str, value: impl ToString) -> Self {
        self.environment.retain(|(set, _)| *set != name);
        self.environment.push((name, value.to_string()));
        self
    }

    pub(crate) fn without(mut self, name: &'static str) -> Self {
        self.environment.retain(|(set, _)| *set != name);
        self
    }

    /// A command of the binary with this environment and no other.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command
            .args(arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (*name, value)))
            .kill_on_drop(true)
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) async fn output(&self, arguments: &[&str]) -> Output {
        self.output_with(arguments, b"").await
    }

    /// As [`Builder::output`], with something on standard input.
    pub(crate) async fn output_with(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        tokio::spawn(async move {
            // A command that does not read its input closes it.
            let _ = stdin.write_all(&input).await;
        });
        let output = tokio::time::timeout(SOON, child.wait_with_output());
        let output = output.await.expect("the command ends").unwrap();
        Output {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn start(&self) -> Process {
        let dir = tempfile::tempdir().unwrap();
        let log = File::create(dir.path().join("log")).unwrap();
        let admin = Port::lease().unwrap();
        let child = self
            .command(&["run"])
            .env("ADMIN_LISTEN", admin.addr().to_string())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Process { child, admin, dir }
    }

    pub(crate) async fn start_ready(&self) -> Process {
        let process = self.start();
        process.ready().await;
        process
    }
}

/// A reconciler that runs. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    admin: Port,
    dir: TempDir,
}

impl Process {
    /// What it logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    pub(crate) async fn ready(&self) {
        eventually("the reconciler is ready", SOON, async || {
            assert!(!self.log().contains("panicked"), "{}", self.log());
            match page(self.admin.addr(), "/readyz").await {
                Ok((200, _)) => Ok(()),
                other => Err(format!("{other:?}\n{}", self.log())),
            }
        })
        .await;
    }

    /// Waits until it is not ready for a reason that holds `words`.
    pub(crate) async fn unready(&self, words: &str) {
        let what = format!("it is not ready because of `{words}`");
        eventually(&what, SOON, async || {
            match page(self.admin.addr(), "/readyz").await {
                Ok((503, reasons)) if reasons.contains(words) => Ok(()),
                other => Err(format!("{other:?}\n{}", self.log())),
            }
        })
        .await;
    }

    pub(crate) async fn lives(&self) -> bool {
        matches!(page(self.admin.addr(), "/livez").await, Ok((200, _)))
    }

    /// The value of a metric, named with its labels; 0 where it is not there yet.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        self.try_metric(name).await.unwrap_or_default()
    }

    /// The value of a metric; none while the admin port is not open yet.
    pub(crate) async fn try_metric(&self, name: &str) -> Option<f64> {
        let (_, text) = page(self.admin.addr(), "/metrics").await.ok()?;
        text.lines().find_map(|line| {
            let (sample, value) = line.rsplit_once(' ')?;
            (sample == name).then(|| value.parse().unwrap())
        })
    }

    pub(crate) async fn metric_is(&self, name: &str, expected: f64) {
        eventually(&format!("{name} is {expected}"), SOON, async || {
            let found = self.metric(name).await;
            if found == expected { Ok(()) } else { Err(found) }
        })
        .await;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().expect("it runs")).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self, within: Duration) -> ExitStatus {
        match tokio::time::timeout(within, self.child.wait()).await {
            Ok(status) => status.unwrap(),
            Err(_) => panic!("it still runs after {within:?}:\n{}", self.log()),
        }
    }

    /// Stops it in order; what it logged.
    pub(crate) async fn stop(mut self) -> String {
        self.signal(Signal::SIGTERM);
        let status = self.ended(SOON).await;
        assert_eq!(status.code(), Some(0), "{}", self.log());
        self.log()
    }

    /// Kills it as a crash would.
    pub(crate) async fn crash(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Where its admin port is.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.admin.addr()
    }
}
