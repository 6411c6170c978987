//! The program as a process of its own.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandbox::eventually;

/// Longer than anything takes that goes well.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A running ingress; killed when dropped.
pub(crate) struct Process {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    /// The public port.
    pub(crate) listen: SocketAddr,
    /// The admin port.
    pub(crate) admin: SocketAddr,
}

/// The program with a clean environment.
pub(crate) fn command() -> Command {
    clean(Command::new(env!("CARGO_BIN_EXE_ingress")))
}

fn clean(mut command: Command) -> Command {
    command.env_clear().stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn output(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    command()
        .args(arguments)
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

impl Process {
    /// Starts it on free ports; returns when both are open.
    pub(crate) async fn start<V: AsRef<OsStr>>(variables: &[(String, V)]) -> Self {
        Self::run(command(), variables).await
    }

    /// Starts it with at most so many open descriptors.
    pub(crate) async fn start_with_descriptors<V: AsRef<OsStr>>(
        limit: &str,
        variables: &[(String, V)],
    ) -> Self {
        let mut shell = clean(Command::new("/bin/sh"));
        let script = format!("ulimit {limit} && exec {}", env!("CARGO_BIN_EXE_ingress"));
        shell.args(["-c", &script]);
        Self::run(shell, variables).await
    }

    async fn run<V: AsRef<OsStr>>(mut command: Command, variables: &[(String, V)]) -> Self {
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command
            .env("LISTEN", "127.0.0.1:0")
            .env("ADMIN_LISTEN", "127.0.0.1:0");
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let (stderr, kept) = (child.stderr.take().unwrap(), Arc::clone(&lines));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                kept.lock().unwrap().push(line);
            }
        });
        let ports = eventually("both ports are open", SOON, async || {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("ended at once with {status}: {:?}", lines.lock().unwrap());
            }
            ports(&lines.lock().unwrap())
        });
        let (listen, admin) = ports.await;
        Self {
            child,
            lines,
            listen,
            admin,
        }
    }

    /// What it logged so far, as JSON lines.
    pub(crate) fn log(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// The whole answer to whether it is ready.
    pub(crate) fn readiness(&self) -> String {
        get(self.admin, "/readyz")
    }

    /// `None` while it is ready, else the reasons.
    pub(crate) fn unready(&self) -> Option<String> {
        let answer = self.readiness();
        (!answer.starts_with("HTTP/1.1 200 ")).then(|| answer.rsplit("\r\n\r\n").next().unwrap().to_owned())
    }

    pub(crate) async fn ready(&self) {
        eventually("ingress is ready", SOON, async || {
            self.unready().map_or(Ok(()), Err)
        })
        .await;
    }

    pub(crate) fn is_live(&self) -> bool {
        get(self.admin, "/livez").starts_with("HTTP/1.1 200 ")
    }

    /// The value of a metric, named with its labels; 0 where it is not there yet.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = get(self.admin, "/metrics");
        let mut lines = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        lines.next().map_or(0.0, |value| value.parse().unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&mut self, within: Duration) -> ExitStatus {
        eventually("ingress has ended", within, async || {
            self.child.try_wait().unwrap()
        })
        .await
    }

    pub(crate) fn kill_hard(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The most memory that it ever had resident, in bytes.
    pub(crate) fn peak_memory(&self) -> usize {
        self.memory("VmHWM:")
    }

    /// The memory that it has resident, in bytes.
    pub(crate) fn resident_memory(&self) -> usize {
        self.memory("VmRSS:")
    }

    fn memory(&self, field: &str) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
    }

    /// How many descriptors it has open.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id()))
            .unwrap()
            .count()
    }

    /// Processor time used so far, in clock ticks (hundredths of a second).
    pub(crate) fn processor_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("ingress logged:\n{}", self.log().join("\n"));
        }
    }
}

fn ports(lines: &[String]) -> Option<(SocketAddr, SocketAddr)> {
    let line: serde_json::Value = lines.iter().find_map(|line| {
        serde_json::from_str(line)
            .ok()
            .filter(|line: &serde_json::Value| line["message"] == "listening")
    })?;
    let port = |name: &str| line[name].as_str().unwrap().parse().unwrap();
    Some((port("listen"), port("admin")))
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    write!(
        socket,
        "GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}
