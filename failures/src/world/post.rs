//! Requests of a test's own: bodies that it makes up, signed as the provider signs, and calls of the provider's API.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::HOOK;

/// Longer than any answer takes.
const LIMIT: Duration = Duration::from_secs(15);

/// A post that a test made.
#[derive(Debug, Clone)]
pub struct Posted {
    /// What was signed and sent.
    pub body: Bytes,
    /// The answer's status; `None` when none came.
    pub status: Option<u16>,
    /// Whether no second ended on the clock between signing and the answer.
    pub within_a_second: bool,
}

/// Posts `body` over a connection of its own; the status.
pub(crate) async fn post(
    to: SocketAddr,
    headers: &[(HeaderName, HeaderValue)],
    body: &[u8],
) -> io::Result<u16> {
    let (status, _) = ask(to, &format!("POST {HOOK}"), headers, body).await?;
    Ok(status)
}

/// Sends a request over a connection of its own; status and body of the answer. `what` is method and path.
pub(crate) async fn ask(
    to: SocketAddr,
    what: &str,
    headers: &[(HeaderName, HeaderValue)],
    body: &[u8],
) -> io::Result<(u16, String)> {
    let mut request = format!(
        "{what} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    )
    .into_bytes();
    for (name, value) in headers {
        request.extend_from_slice(format!("{name}: ").as_bytes());
        request.extend_from_slice(value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request.extend_from_slice(body);
    let talk = async {
        let mut connection = TcpStream::connect(to).await?;
        connection.write_all(&request).await?;
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).await?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head
            .split_whitespace()
            .nth(1)
            .and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("no answer in HTTP"))?;
        Ok((status, body.to_owned()))
    };
    tokio::time::timeout(LIMIT, talk)
        .await
        .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)))
}
