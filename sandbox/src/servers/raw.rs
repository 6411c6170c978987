//! Publishing what no client library would.

use std::{io, net::SocketAddr, time::Duration};

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

/// How long the broker may take to acknowledge.
const PATIENCE: Duration = Duration::from_secs(20);

/// Publishes a message whose subject and headers are any bytes, and gives its sequence. `headers` is the whole block: first
/// line, lines, empty line. `login` is user and password, where the broker asks for them.
///
/// # Errors
/// When no stream takes it, or the broker at `addr` does not do as a broker does.
pub async fn publish_bytes(
    addr: SocketAddr,
    login: Option<(&str, &str)>,
    subject: &[u8],
    headers: &[u8],
    body: &[u8],
) -> io::Result<u64> {
    tokio::time::timeout(PATIENCE, publish(addr, login, subject, headers, body)).await?
}

async fn publish(
    addr: SocketAddr,
    login: Option<(&str, &str)>,
    subject: &[u8],
    headers: &[u8],
    body: &[u8],
) -> io::Result<u64> {
    let mut connection = BufReader::new(TcpStream::connect(addr).await?);
    let sizes = format!(" here {} {}\r\n", headers.len(), headers.len() + body.len());
    let connect = json!({
        "verbose": false, "headers": true, "no_responders": true,
        "user": login.map(|(user, _)| user), "pass": login.map(|(_, password)| password),
    });
    let start = format!("CONNECT {connect}\r\nSUB here 1\r\nHPUB ");
    let message = [
        start.as_bytes(),
        subject,
        sizes.as_bytes(),
        headers,
        body,
        b"\r\n",
    ]
    .concat();
    connection.write_all(&message).await?;
    let mut line = String::new();
    while connection.read_line(&mut line).await? > 0 {
        // `MSG <subject> <subscription> <size>`
        if let Some(size) = line
            .strip_prefix("MSG ")
            .and_then(|rest| rest.trim_end().rsplit(' ').next())
        {
            let mut answer = vec![0; size.parse().map_err(io::Error::other)?];
            connection.read_exact(&mut answer).await?;
            let answer: serde_json::Value = serde_json::from_slice(&answer)?;
            let refusal = || io::Error::other(format!("the broker says {answer}"));
            return answer["seq"].as_u64().ok_or_else(refusal);
        }
        if line.starts_with("HMSG") || line.starts_with("-ERR") {
            return Err(io::Error::other(format!("the broker says {line:?}")));
        }
        line.clear();
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}
