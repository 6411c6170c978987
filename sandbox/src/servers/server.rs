//! What all private servers have in common: one process after another on one port and one directory.

use std::{
    future::Future,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use nix::sys::signal::Signal;

use super::{ServerError, port::Port, process::Process};

/// What is particular about a kind of server.
pub trait Kind {
    /// The signal that asks it to stop in order.
    const STOP: Signal;

    /// What starts it in this directory, listening on this address.
    ///
    /// # Errors
    /// When the program is not found, or its configuration cannot be written.
    fn command(&self, dir: &Path, addr: SocketAddr) -> Result<Command, ServerError>;

    /// Uses it as a client would; an error means that it is not ready yet.
    fn probe(&self, addr: SocketAddr) -> impl Future<Output = Result<(), String>>;
}

/// A server on a free loopback port, with data of its own. Ends when dropped, and its data go with it.
#[derive(Debug)]
pub struct Server<K> {
    pub(super) kind: K,
    pub(super) process: Process,
    port: Port,
}

impl<K: Kind> Server<K> {
    /// A server that does not run yet, with a directory and a port.
    pub(super) fn new(name: &'static str, kind: K) -> Result<Self, ServerError> {
        Ok(Self {
            kind,
            process: Process::new(name)?,
            port: Port::lease()?,
        })
    }

    /// Starts it; returns when it is ready for clients.
    pub(super) async fn run(&mut self) -> Result<(), ServerError> {
        let addr = self.addr();
        let command = self.kind.command(self.process.dir(), addr)?;
        self.process.spawn(command)?;
        let probe = async || {
            self.kind
                .probe(addr)
                .await
                .map_err(|e| format!("asking {addr}: {e}"))
        };
        self.process.wait_ready(probe).await
    }

    /// `host:port` for clients, the same for the life of this value.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// What the server printed, of all its runs.
    pub fn log(&self) -> PathBuf {
        self.process.log()
    }

    /// The pid, while it runs; of its first process, when it has several.
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// Kills it as a crash would (SIGKILL); returns when it is gone. Its data stay.
    pub fn kill(&mut self) {
        self.process.reap();
    }

    /// Stops it in order, ending open sessions; returns when it is gone. Its data stay.
    pub async fn stop(&mut self) {
        self.process.signal(K::STOP);
        self.process.wait_stopped().await;
    }

    /// Starts it again on the same port and data, killing it first when it runs; returns when it is ready.
    ///
    /// # Panics
    /// When it does not come back.
    pub async fn restart(&mut self) {
        self.kill();
        self.run().await.unwrap_or_else(|e| panic!("{e}"));
    }

    /// Freezes it: connections stay open and nothing answers, until [`resume`](Self::resume).
    pub fn pause(&self) {
        self.process.freeze();
    }

    /// Lets a frozen server go on.
    pub fn resume(&self) {
        self.process.thaw();
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}
