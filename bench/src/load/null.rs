//! A server that does nothing: what the sender can do at most.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const ANSWER: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

/// Answers every request on `addr` with 204, until the process is stopped.
///
/// # Errors
/// When it cannot listen there.
pub async fn serve(addr: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(addr)
        .await
        .with_context(|| format!("listening on {addr}"))?;
    loop {
        let (stream, _) = listener.accept().await.context("accepting a connection")?;
        tokio::spawn(async move {
            // A connection that breaks is the sender's affair.
            let _ = answer(stream).await;
        });
    }
}

async fn answer(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut received = Vec::with_capacity(64 * 1024);
    while stream.read_buf(&mut received).await? > 0 {
        if let Some(length) = request_length(&received)? {
            ensure!(received.len() <= length, "more than one request at a time");
            if received.len() == length {
                received.clear();
                stream.write_all(ANSWER).await?;
            }
        }
    }
    Ok(())
}

/// Bytes of head and body together, once the head is there.
fn request_length(received: &[u8]) -> Result<Option<usize>> {
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut head = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = head.parse(received)? else {
        return Ok(None);
    };
    let body = head.headers.iter().find(|header| header.name == "content-length");
    let body: usize = match body {
        Some(header) => str::from_utf8(header.value)?.parse()?,
        None => 0,
    };
    Ok(Some(length + body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_request_is_known_with_its_head() {
        let request = b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello";
        assert_eq!(request_length(&request[..20]).unwrap(), None);
        assert_eq!(request_length(&request[..38]).unwrap(), Some(43));
        assert_eq!(request_length(request).unwrap(), Some(request.len()));
        assert_eq!(request_length(b"GET / HTTP/1.1\r\n\r\n").unwrap(), Some(18));
    }
}
