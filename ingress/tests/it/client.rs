//! A sender over a raw socket: it can send what no HTTP library would.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use schemas::signature::{KeyEncoding, Scheme, SigningKey, sign};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The secret that the processes under test are given first.
pub(crate) const SECRET: &str = "whsec_the_current_secret";
pub(crate) const PATH: &str = "/hooks/answers";
/// Nobody is made to wait longer than this for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

#[expect(
    clippy::disallowed_methods,
    reason = "deliveries are signed for the clock of the process under test"
)]
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

pub(crate) fn list_scheme() -> Scheme {
    Scheme::StripeList {
        header: http::HeaderName::from_static("webhook-signature"),
    }
}

pub(crate) fn key(secret: &str) -> SigningKey {
    SigningKey::new(secret, KeyEncoding::Literal).unwrap()
}

/// The value of the signature header.
pub(crate) fn signature(secret: &str, timestamp: i64, body: &[u8]) -> String {
    sign(&list_scheme(), &[key(secret)], "", timestamp, body)[0]
        .1
        .to_str()
        .unwrap()
        .to_owned()
}

/// The hex digits of the signature alone.
pub(crate) fn mac(secret: &str, timestamp: i64, body: &[u8]) -> String {
    signature(secret, timestamp, body)
        .rsplit('=')
        .next()
        .unwrap()
        .to_owned()
}

/// A final result of the task `id`.
pub(crate) fn completed(id: &str) -> Vec<u8> {
    let id = serde_json::Value::from(id);
    format!(
        r#"{{"task":{{"id":{id},"status":"COMPLETED","createdAt":"2026-11-30T12:00:00.000Z","idempotencyKey":null}},"response":{{"result":{{"text":"kettles"}}}}}}"#
    )
    .into_bytes()
}

/// A request, put together by hand.
#[derive(Clone)]
pub(crate) struct Post {
    line: String,
    headers: Vec<u8>,
    body: Vec<u8>,
}

impl Post {
    /// To the hook, without a signature.
    pub(crate) fn unsigned(body: impl Into<Vec<u8>>) -> Self {
        Self {
            line: format!("POST {PATH} HTTP/1.1"),
            headers: b"Host: hook\r\n".to_vec(),
            body: body.into(),
        }
    }

    /// To the hook, signed now with the current secret.
    pub(crate) fn signed(body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let value = signature(SECRET, now(), &body);
        Self::unsigned(body).header("Webhook-Signature", value)
    }

    /// To the hook, with a signature that is well formed and wrong.
    pub(crate) fn forged(body: impl Into<Vec<u8>>) -> Self {
        Self::unsigned(body).header("Webhook-Signature", format!("t={},v1={}", now(), "0".repeat(64)))
    }

    pub(crate) fn line(mut self, line: &str) -> Self {
        line.clone_into(&mut self.line);
        self
    }

    pub(crate) fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        for part in [name.as_bytes(), b": ", value.as_ref(), b"\r\n"] {
            self.headers.extend_from_slice(part);
        }
        self
    }

    /// Everything before the body, which is declared to have `length` bytes.
    pub(crate) fn head_declaring(&self, length: usize) -> Vec<u8> {
        self.head(&format!("Content-Length: {length}\r\n"))
    }

    /// Everything before a body in chunks.
    pub(crate) fn head_chunked(&self) -> Vec<u8> {
        self.head("Transfer-Encoding: chunked\r\n")
    }

    fn head(&self, framing: &str) -> Vec<u8> {
        [
            self.line.as_bytes(),
            b"\r\n",
            &self.headers,
            framing.as_bytes(),
            b"\r\n",
        ]
        .concat()
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The whole request.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        [&self.head_declaring(self.body.len())[..], &self.body].concat()
    }

    /// The whole request, its body in chunks of `size`.
    pub(crate) fn bytes_chunked(&self, size: usize) -> Vec<u8> {
        let mut bytes = self.head_chunked();
        for part in self.body.chunks(size) {
            bytes.extend(chunk(part));
        }
        bytes.extend(b"0\r\n\r\n");
        bytes
    }
}

/// One chunk of a chunked body.
pub(crate) fn chunk(part: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat()
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Every header, as name and value.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.head.lines().filter_map(|line| line.split_once(": "))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    pub(crate) fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }

    /// The `type` of a problem.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        assert_eq!(self.header("cache-control"), Some("no-store"), "{self:?}");
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(body["status"], self.status, "{self:?}");
        let urn = body["type"].as_str().unwrap();
        urn.strip_prefix("urn:answerlog:problem:").unwrap().to_owned()
    }
}

/// One connection.
pub(crate) struct Client<S = TcpStream> {
    socket: S,
    unread: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap())
    }

    /// Closes it with a reset, as a process that dies does.
    pub(crate) fn reset(self) {
        self.socket.set_zero_linger().unwrap();
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn over(socket: S) -> Self {
        Self {
            socket,
            unread: Vec::new(),
        }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).await.unwrap();
    }

    pub(crate) async fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        timeout(PATIENCE, self.socket.write_all(bytes))
            .await
            .expect("nobody took the bytes")
    }

    pub(crate) async fn close_sending(&mut self) {
        self.socket.shutdown().await.unwrap();
    }

    pub(crate) async fn post(&mut self, post: &Post) -> Answer {
        self.send(&post.bytes()).await;
        self.answer().await
    }

    pub(crate) async fn answer(&mut self) -> Answer {
        self.try_answer().await.unwrap()
    }

    /// The next answer, an interim one too.
    pub(crate) async fn try_answer(&mut self) -> io::Result<Answer> {
        let head_end = loop {
            if let Some(at) = self.unread.windows(4).position(|part| part == b"\r\n\r\n") {
                break at + 4;
            }
            self.read_more().await?;
        };
        let head = String::from_utf8(self.unread.drain(..head_end).collect()).unwrap();
        let mut answer = Answer {
            status: head[9..12].parse().unwrap(),
            head,
            body: String::new(),
        };
        let length = answer
            .header("content-length")
            .map_or(0, |length| length.parse().unwrap());
        while self.unread.len() < length {
            self.read_more().await?;
        }
        answer.body = String::from_utf8(self.unread.drain(..length).collect()).unwrap();
        Ok(answer)
    }

    async fn read_more(&mut self) -> io::Result<()> {
        let read = timeout(PATIENCE, self.socket.read_buf(&mut self.unread))
            .await
            .expect("no answer came")?;
        if read == 0 {
            Err(io::ErrorKind::UnexpectedEof.into())
        } else {
            Ok(())
        }
    }

    /// Waits for the other side to close, in order and with nothing more to say.
    pub(crate) async fn closed(&mut self) {
        let end = self.try_answer().await.unwrap_err();
        assert_eq!(
            (end.kind(), &self.unread[..]),
            (io::ErrorKind::UnexpectedEof, &b""[..])
        );
    }

    /// Waits for the other side to close in whatever way.
    pub(crate) async fn gone(&mut self) {
        while self.read_more().await.is_ok() {}
    }
}

/// Sends one request over a connection of its own.
pub(crate) async fn post(address: SocketAddr, post: &Post) -> Answer {
    Client::connect(address).await.post(post).await
}
