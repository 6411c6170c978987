//! The program, started and stopped.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

pub(crate) const SANDBOX: &str = env!("CARGO_BIN_EXE_sandbox");

/// A provider that runs. It is killed when this is dropped.
pub(crate) struct Serve {
    child: Child,
    /// What it printed at the start.
    pub(crate) url: String,
    pub(crate) key: String,
    pub(crate) secret: String,
}

impl Serve {
    /// Starts one on a free port and waits until it says that it runs.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(SANDBOX)
            .args(["serve", "--json", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let text = |name: &str| said[name].as_str().unwrap().to_owned();
        Self {
            child,
            url: text("url"),
            key: text("apiKey"),
            secret: text("webhookSecret"),
        }
    }

    /// Asks for `path` with the key.
    pub(crate) fn get(&self, path: &str) -> Value {
        self.curl(path, &[])
    }

    /// Posts to `path` with the key.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        self.curl(path, &["-d", &body.to_string()])
    }

    fn curl(&self, path: &str, arguments: &[&str]) -> Value {
        let asked = Command::new("curl")
            .args(["-s", "-H", &format!("Authorization: Bearer {}", self.key)])
            .args(arguments)
            .arg(format!("{}{path}", self.url))
            .output()
            .unwrap();
        serde_json::from_slice(&asked.stdout).unwrap_or_else(|error| panic!("{path}: {error}: {asked:?}"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    pub(crate) fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
