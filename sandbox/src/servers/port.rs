//! Ports that stay ours while the server behind them is down.

use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr, TcpStream},
};

use super::ServerError;

/// Below the range from which Linux takes the ports of outgoing connections (32768 and up), so that no client's socket
/// can sit on the port of a server that is down for a moment.
const RANGE: std::ops::Range<u16> = 15_000..32_000;

/// A loopback port that no other sandbox on this machine takes for as long as this value lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// The lease is the lock on this file: the system lets go of it when the process ends, however it ends.
    _lease: File,
}

impl Port {
    /// Takes one.
    ///
    /// # Errors
    /// When the directory of leases cannot be written to.
    pub fn lease() -> Result<Self, ServerError> {
        // The user is part of the name: one user's directory is closed to the next.
        let dir = std::env::temp_dir().join(format!("answerlog-ports-{}", nix::unistd::getuid()));
        fs::create_dir_all(&dir).map_err(ServerError::io(format!("creating {}", dir.display())))?;
        loop {
            let number = rand::random_range(RANGE);
            let path = dir.join(number.to_string());
            let lease =
                File::create(&path).map_err(ServerError::io(format!("creating {}", path.display())))?;
            if lease.try_lock().is_ok() && is_free(number) {
                return Ok(Self {
                    number,
                    _lease: lease,
                });
            }
        }
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// `127.0.0.1` and its number.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

/// Whether nobody listens there. Found out by knocking: a trial listener could be inherited by a process that is being
/// started at this moment, and hold the port for a while yet.
fn is_free(number: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, number))
        .is_err_and(|refused| refused.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ports_held_at_once_differ_and_lie_below_the_ephemeral_range() {
        let ports: Vec<Port> = (0..200).map(|_| Port::lease().unwrap()).collect();
        let numbers: HashSet<u16> = ports.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), ports.len());
        assert!(numbers.iter().all(|number| *number < 32_768));
    }
}
