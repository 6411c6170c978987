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
use stream::StreamSpec;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::world::SOON;

const BINARY: &str = env!("CARGO_BIN_EXE_projector");

/// Settings of a projector to start.
#[derive(Debug, Clone)]
pub(crate) struct Builder {
    environment: Vec<(&'static str, String)>,
}

impl Builder {
    pub(crate) fn new(nats_url: &str, database_url: &str, spec: &StreamSpec) -> Self {
        let prefix = spec.subjects.all().trim_end_matches(".>").to_owned();
        Self {
            environment: vec![
                ("NATS_URL", nats_url.to_owned()),
                ("NATS_PING_INTERVAL", "500ms".to_owned()),
                ("NATS_REQUEST_TIMEOUT", "1s".to_owned()),
                ("DATABASE_URL", database_url.to_owned()),
                ("DATABASE_CONNECT_TIMEOUT", "1s".to_owned()),
                ("STREAM", spec.name.clone()),
                ("SUBJECT_PREFIX", prefix),
                ("STREAM_MAX_BYTES", "64MiB".to_owned()),
                ("FLOOR_INTERVAL", "100ms".to_owned()),
                ("ADMIN_LISTEN", "127.0.0.1:0".to_owned()),
                ("LOG_FORMAT", "text".to_owned()),
            ],
        }
    }

    pub(crate) fn set(mut self, name: &'static str, value: impl ToString) -> Self {
        self.environment.retain(|(set, _)| *set != name);
        self.environment.push((name, value.to_string()));
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

    /// Runs a command to its end: its exit code and what it printed.
    pub(crate) async fn output(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = tokio::time::timeout(SOON, self.command(arguments).output());
        let output = output.await.expect("the command ends").unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    }

    /// As [`Builder::output`], but standard output alone.
    pub(crate) async fn stdout(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = tokio::time::timeout(SOON, self.command(arguments).output());
        let output = output.await.expect("the command ends").unwrap();
        let (code, out) = (output.status.code(), String::from_utf8(output.stdout).unwrap());
        if !output.stderr.is_empty() {
            eprintln!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        (code, out)
    }

    pub(crate) fn start(&self) -> Projector {
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
        Projector { child, admin, dir }
    }

    pub(crate) async fn start_ready(&self) -> Projector {
        let projector = self.start();
        projector.ready().await;
        projector
    }
}

/// A projector process. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Projector {
    child: Child,
    admin: Port,
    dir: TempDir,
}

impl Projector {
    /// What it logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// Status code and body of a page of the admin port; `None` when it does not answer.
    pub(crate) async fn get(&self, path: &str) -> Option<(u16, String)> {
        page(self.admin.addr(), path).await.ok()
    }

    pub(crate) async fn ready(&self) {
        eventually("the projector is ready", SOON, async || {
            match self.get("/readyz").await {
                Some((200, _)) => Ok(()),
                other => Err(format!("{other:?}\n{}", self.log())),
            }
        })
        .await;
    }

    /// Waits until it is not ready for a reason that holds `words`.
    pub(crate) async fn unready(&self, words: &str) {
        let what = format!("it is not ready because of `{words}`");
        eventually(&what, SOON, async || match self.get("/readyz").await {
            Some((503, reasons)) if reasons.contains(words) => Ok(()),
            other => Err(format!("{other:?}\n{}", self.log())),
        })
        .await;
    }

    /// The sum of the samples of a metric, over all its labels.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let (_, text) = self.get("/metrics").await.expect("the admin port answers");
        let samples = text.lines().filter_map(|line| {
            let (sample, value) = line.rsplit_once(' ')?;
            let bare = sample.split('{').next()?;
            (bare == name).then(|| value.parse::<f64>().unwrap())
        });
        samples.sum()
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

    /// Stops it in order.
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

    /// The most memory it has used so far.
    pub(crate) fn peak_memory_mib(&self) -> u64 {
        let pid = self.child.id().expect("it runs");
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    }

    /// Processor time it has used so far, in seconds.
    pub(crate) fn processor_seconds(&self) -> f64 {
        let pid = self.child.id().expect("it runs");
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        ticks / 100.0
    }
}
