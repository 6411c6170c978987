//! A caller that sees every byte of an answer.

use std::net::SocketAddr;
use std::time::Duration;

use http::HeaderMap;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a call may take that is answered.
const SOON: Duration = Duration::from_secs(20);

/// Everything that came back on a connection until its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The length that the head promises.
    pub(crate) fn promised(&self) -> usize {
        self.header("content-length").unwrap().parse().unwrap()
    }

    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap().to_owned()
    }
}

/// Sends a request; the connection on which its answer will come.
pub(crate) async fn send(to: SocketAddr, request: &str, authorization: &str, body: &str) -> TcpStream {
    let mut connection = TcpStream::connect(to).await.unwrap();
    let length = body.len();
    let head = format!(
        "{request} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\ncontent-length: {length}\r\n{authorization}\r\n"
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    connection.write_all(body.as_bytes()).await.unwrap();
    connection
}

/// Reads all that comes until the connection ends; `None` when it ends before a whole head came.
pub(crate) async fn receive(mut connection: TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    tokio::time::timeout(SOON, async {
        let mut piece = [0; 65_536];
        // A reset ends an answer just as an orderly end does.
        while let Ok(read @ 1..) = connection.read(&mut piece).await {
            bytes.extend_from_slice(&piece[..read]);
        }
    })
    .await
    .expect("the connection ends in time");
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.parse().unwrap(), value.parse().unwrap())
    });
    Some(Answer {
        status: status.parse().unwrap(),
        headers: headers.collect(),
        body: bytes[end + 4..].to_vec(),
    })
}
