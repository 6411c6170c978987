//! Posting a request over HTTP/1.1.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::provider::delivery::Request;

/// An answer's body is read up to here, so that its connection can be used again; nobody looks at it.
const ANSWER_LIMIT: usize = 64 * 1024;

/// Why a post got no answer.
#[derive(Debug, Error)]
pub enum PostError {
    /// The URL is https, or no URL.
    #[error("the sandbox posts to plain http URLs only")]
    NotHttp,
    /// Connecting, sending or waiting for the answer took too long.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The connection failed before there was an answer.
    #[error("the connection failed: {}", root(.0.as_ref()))]
    Connection(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The innermost cause: the outer ones of an HTTP client only say that something failed.
fn root<'e>(error: &'e (dyn std::error::Error + 'static)) -> &'e (dyn std::error::Error + 'static) {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause
}

/// How much of a request is sent before the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Upto {
    /// The head and half of the body.
    HalfTheBody,
    /// Everything.
    TheEnd,
}

/// A client that keeps connections open between posts.
pub(super) struct Poster {
    client: Client<HttpConnector, Full<Bytes>>,
    addresses: Vec<SocketAddr>,
    limit: Duration,
}

impl Poster {
    /// Posts to `addresses` in turn whatever the URL's host is, as a load balancer would; to the URL's host where there
    /// are none. Every post takes at most `limit`.
    pub(super) fn new(addresses: Vec<SocketAddr>, limit: Duration, connections: usize) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(connections)
            .build(connector);
        Self {
            client,
            addresses,
            limit,
        }
    }

    /// Posts and reads the answer; gives its status. `turn` chooses the address.
    pub(super) async fn post(&self, request: &Request, turn: u64) -> Result<u16, PostError> {
        let mut post = http::Request::builder()
            .method(Method::POST)
            .uri(self.target(request, turn)?);
        if let Some(headers) = post.headers_mut() {
            headers.extend(request.headers.iter().cloned());
            headers.insert(header::HOST, host(&request.url)?);
        }
        let post = post
            .body(Full::new(request.body.clone()))
            .map_err(|e| PostError::Connection(e.into()))?;
        let answer = async {
            let answer = self
                .client
                .request(post)
                .await
                .map_err(|e| PostError::Connection(e.into()))?;
            let status = answer.status().as_u16();
            // The status is the answer; a body that breaks off afterwards changes nothing.
            let _ = Limited::new(answer.into_body(), ANSWER_LIMIT).collect().await;
            Ok(status)
        };
        tokio::time::timeout(self.limit, answer)
            .await
            .map_err(|_| PostError::TimedOut(self.limit))?
    }

    /// Sends a part of a request on a connection of its own and closes it without waiting for an answer.
    pub(super) async fn hang_up(&self, request: &Request, turn: u64, upto: Upto) -> Result<(), PostError> {
        let target = self.target(request, turn)?;
        let authority = target.authority().ok_or(PostError::NotHttp)?;
        let mut bytes = head(request, &target)?;
        bytes.extend_from_slice(match upto {
            Upto::HalfTheBody => &request.body[..request.body.len() / 2],
            Upto::TheEnd => &request.body,
        });
        let send = async {
            let mut connection =
                TcpStream::connect((authority.host(), authority.port_u16().unwrap_or(80))).await?;
            connection.write_all(&bytes).await?;
            connection.shutdown().await
        };
        let sent: io::Result<()> = tokio::time::timeout(self.limit, send)
            .await
            .map_err(|_| PostError::TimedOut(self.limit))?;
        sent.map_err(|e| PostError::Connection(e.into()))
    }

    /// The URL to connect to.
    fn target(&self, request: &Request, turn: u64) -> Result<Uri, PostError> {
        let mut parts = request.url.clone().into_parts();
        if !self.addresses.is_empty() {
            let chosen = turn % self.addresses.len() as u64;
            let address = self.addresses[usize::try_from(chosen).expect("less than the length of a list")];
            parts.authority = Some(
                address
                    .to_string()
                    .parse::<Authority>()
                    .map_err(|_| PostError::NotHttp)?,
            );
            parts.scheme = Some(Scheme::HTTP);
        }
        parts.path_and_query.get_or_insert(PathAndQuery::from_static("/"));
        let target = Uri::from_parts(parts).map_err(|_| PostError::NotHttp)?;
        if target.scheme() == Some(&Scheme::HTTP) {
            Ok(target)
        } else {
            Err(PostError::NotHttp)
        }
    }
}

fn host(url: &Uri) -> Result<HeaderValue, PostError> {
    let authority = url.authority().ok_or(PostError::NotHttp)?;
    HeaderValue::from_str(authority.as_str()).map_err(|_| PostError::NotHttp)
}

/// The head of a request as it goes over the wire.
fn head(request: &Request, target: &Uri) -> Result<Vec<u8>, PostError> {
    let path = target.path_and_query().map_or("/", PathAndQuery::as_str);
    let mut bytes = format!(
        "POST {path} HTTP/1.1\r\ncontent-length: {}\r\nhost: ",
        request.body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(host(&request.url)?.as_bytes());
    for (name, value) in &request.headers {
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(name.as_ref());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
    }
    bytes.extend_from_slice(b"\r\n\r\n");
    Ok(bytes)
}
