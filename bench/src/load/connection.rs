//! One kept connection.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::reply;

/// Room for an answer: the longest is a refusal with its reason.
const ANSWER: usize = 4096;

/// A connection to a receiver, with one request at a time.
#[derive(Debug)]
pub struct Connection {
    addr: SocketAddr,
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens there.
    pub async fn open(addr: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            addr,
            stream: connect(addr).await?,
            answer: Vec::with_capacity(ANSWER),
        })
    }

    /// Sends a request and gives the status of its answer. Connects anew when the receiver closed after it.
    ///
    /// # Errors
    /// When the connection breaks, or the answer is none in HTTP.
    pub async fn exchange(&mut self, request: &[u8]) -> io::Result<u16> {
        self.stream.write_all(request).await?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(reply) = reply::read(&self.answer)? {
                if reply.closes {
                    self.stream = connect(self.addr).await?;
                }
                return Ok(reply.status);
            }
        }
    }
}

async fn connect(addr: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
