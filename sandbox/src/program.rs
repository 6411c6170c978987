//! The built programs as processes: the same program again and again, on ports that stay its own.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::servers::process::Process;
use crate::servers::{Port, ServerError};

/// The time between two looks at a process that is to end.
const LOOK: Duration = Duration::from_millis(10);
/// How long an admin port may take to answer.
const ADMIN_LIMIT: Duration = Duration::from_secs(2);
/// How long a command may take that is no service.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// The program `name` among those of `directory`.
///
/// # Errors
/// When it was not built.
pub fn find(directory: &Path, name: &'static str) -> Result<PathBuf, ServerError> {
    let path = directory.join(name);
    if path.is_file() {
        Ok(path)
    } else {
        Err(ServerError::NotBuilt {
            name,
            directory: directory.to_owned(),
        })
    }
}

/// A program with its settings, and its process when it runs. Its ports and its log last from one process to the next;
/// all of it ends when this is dropped.
#[derive(Debug)]
pub struct Program {
    binary: PathBuf,
    arguments: Vec<String>,
    variables: Vec<(&'static str, String)>,
    process: Process,
    admin: Port,
    /// Nobody else takes these while the program is down.
    leased: Vec<Port>,
}

impl Program {
    /// A program that does not run yet. `name` is what errors call it.
    ///
    /// # Errors
    /// When there is no free port, or no directory for its log.
    pub fn new(name: &'static str, binary: PathBuf) -> Result<Self, ServerError> {
        let admin = Port::lease()?;
        let mut program = Self {
            binary,
            arguments: Vec::new(),
            variables: Vec::new(),
            process: Process::new(name)?,
            admin,
            leased: Vec::new(),
        };
        program.set("ADMIN_LISTEN", program.admin.addr());
        Ok(program)
    }

    /// Arguments of every process from the next on.
    pub fn arguments(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(ToString::to_string).collect();
    }

    /// An environment variable of every process from the next on. They have these variables and no others: one of the
    /// caller's must not change what is shown.
    pub fn set(&mut self, name: &'static str, value: impl ToString) {
        self.variables.retain(|(set, _)| *set != name);
        self.variables.push((name, value.to_string()));
    }

    /// Sets `name` to an address that stays the program's own, and gives it.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn lease(&mut self, name: &'static str) -> Result<SocketAddr, ServerError> {
        let port = Port::lease()?;
        let addr = port.addr();
        self.set(name, addr);
        self.leased.push(port);
        Ok(addr)
    }

    /// What errors call it.
    pub fn name(&self) -> &'static str {
        self.process.name()
    }

    /// Where its admin port is.
    pub fn admin(&self) -> SocketAddr {
        self.admin.addr()
    }

    /// The pid, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// Starts it, and does not wait for anything.
    ///
    /// # Errors
    /// When its binary cannot be started, or its log not be written.
    ///
    /// # Panics
    /// When it runs already.
    pub fn start(&mut self) -> Result<(), ServerError> {
        if self.process.ended().is_some() {
            self.process.reap();
        }
        self.process.spawn(self.command(&self.arguments))
    }

    /// Waits until it says that it is ready.
    ///
    /// # Errors
    /// With the end of its log, when it ends instead or takes too long; it is gone then.
    pub async fn wait_ready(&mut self) -> Result<(), ServerError> {
        let admin = self.admin();
        self.process
            .wait_ready(async || match readiness(admin).await {
                Readiness::Ready => Ok(()),
                Readiness::NotReady(why) | Readiness::Silent(why) => Err(format!("asking {admin}: {why}")),
            })
            .await
    }

    /// Sends `signal` to it.
    ///
    /// # Panics
    /// When it does not run.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Freezes it until it gets SIGCONT; returns once it stands still.
    ///
    /// # Panics
    /// When it does not run.
    pub fn freeze(&self) {
        self.process.freeze();
    }

    /// Kills it as a crash would (SIGKILL); returns when it is gone.
    pub fn kill(&mut self) {
        self.process.reap();
    }

    /// How it ended, when it ended by itself or by a signal.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// Waits for its end; `None` when it still runs after `within`.
    pub async fn wait_ended(&mut self, within: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + within;
        loop {
            match self.ended() {
                Some(status) => {
                    self.process.reap();
                    return Some(status);
                }
                None if Instant::now() >= end => return None,
                None => sleep(LOOK).await,
            }
        }
    }

    /// Runs the program with other arguments and the same settings to its end.
    ///
    /// # Errors
    /// When it cannot be started, or takes longer than a minute.
    pub async fn output(&self, arguments: &[&str]) -> Result<Output, ServerError> {
        self.output_with(arguments, "").await
    }

    /// The same, with `input` to read from standard input.
    ///
    /// # Errors
    /// As above.
    pub async fn output_with(&self, arguments: &[&str], input: &str) -> Result<Output, ServerError> {
        let arguments: Vec<_> = arguments.iter().map(ToString::to_string).collect();
        let attempt = || format!("running {} {}", self.name(), arguments.join(" "));
        let run = async {
            let mut child = tokio::process::Command::from(self.command(&arguments))
                .kill_on_drop(true)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            let mut stdin = child.stdin.take().expect("it is piped");
            let feed = async move {
                // A program that does not read to the end says why in its output.
                let _ = stdin.write_all(input.as_bytes()).await;
            };
            let (output, ()) = tokio::join!(child.wait_with_output(), feed);
            output
        };
        tokio::time::timeout(COMMAND_LIMIT, run)
            .await
            .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)))
            .map_err(ServerError::io(attempt()))
    }

    /// What all its processes printed.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.process.log()).unwrap_or_default()
    }

    /// The last lines of that.
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }

    /// Status and body of a page of its admin port.
    ///
    /// # Errors
    /// When the port does not answer.
    pub async fn page(&self, path: &str) -> io::Result<(u16, String)> {
        page(self.admin(), path).await
    }

    fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// The sum of all samples of a metric on a page of metrics; 0 when there is none.
pub fn samples(page: &str, metric: &str) -> f64 {
    let samples = page.lines().filter_map(|line| {
        let (sample, value) = line.rsplit_once(' ')?;
        let named = sample.split('{').next() == Some(metric);
        named.then(|| value.parse::<f64>().unwrap_or_default())
    });
    samples.sum()
}

/// What a program says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It can do its work.
    Ready,
    /// It cannot, for these reasons.
    NotReady(String),
    /// It does not answer; the words say what was met instead.
    Silent(String),
}

/// Asks the admin port at `admin` whether its program is ready.
pub async fn readiness(admin: SocketAddr) -> Readiness {
    match page(admin, "/readyz").await {
        Ok((200, _)) => Readiness::Ready,
        Ok((_, why)) => Readiness::NotReady(why.trim().to_owned()),
        Err(error) => Readiness::Silent(error.to_string()),
    }
}

/// Status and body of a page of the admin port at `admin`.
///
/// # Errors
/// When the port does not answer within two seconds, or not in HTTP.
pub async fn page(admin: SocketAddr, path: &str) -> io::Result<(u16, String)> {
    let ask = async {
        let mut connection = TcpStream::connect(admin).await?;
        let question = format!("GET {path} HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n");
        connection.write_all(question.as_bytes()).await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head
            .split_whitespace()
            .nth(1)
            .and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("no answer in HTTP"))?;
        Ok((status, body.to_owned()))
    };
    tokio::time::timeout(ADMIN_LIMIT, ask)
        .await
        .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)))
}
