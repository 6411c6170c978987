//! Calls to the provider: bounded in time and in size, without redirects.

use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, HeaderMap};
use http::{HeaderValue, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{Client, Proxy, Response};
use rustls::{ClientConfig, RootCertStore};
use schemas::event::percent::encode_id;
use serde::{Deserialize, Serialize};
use service::tls::{AuthoritiesError, add_authorities, client_config};
use thiserror::Error;
use tokio::time::timeout;

use super::{Askable, Failure, Reply, Target, Throttled, Unexpected, retry_after};

/// Longest time for a connection, TLS included; a whole call has its own limit.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection is kept without a call.
const IDLE: Duration = Duration::from_secs(30);
/// The body of an answer that is not read is taken off its connection up to here, so that the connection can be kept.
const DRAIN: usize = 16 << 10;
/// More than the state of a queue can take.
const QUEUE_LIMIT: usize = 64 << 10;

/// The provider's API. Clones share the connections.
#[derive(Debug, Clone)]
pub struct Provider {
    client: Client,
    target: Target,
}

/// What the whole account has left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all(deserialize = "camelCase"))]
pub struct Queue {
    /// Tasks that wait for their start.
    pub queued_tasks: u64,
    /// Tasks that run.
    pub processing_tasks: u64,
}

impl Queue {
    /// Whether no task is waited for.
    pub fn is_empty(&self) -> bool {
        self.queued_tasks == 0 && self.processing_tasks == 0
    }
}

/// Why the provider cannot be asked at all.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The authorities of `--provider-ca` cannot be used.
    #[error(transparent)]
    Authorities(#[from] AuthoritiesError),
    /// There is nobody to trust.
    #[error("no certificate authority is trusted: this system has none; name some with --provider-ca")]
    NoAuthorities,
    /// The client refuses its settings.
    #[error("preparing to call the provider")]
    Client(#[source] reqwest::Error),
}

impl Provider {
    /// Connects when it is needed; at most `calls` connections are kept.
    ///
    /// # Errors
    /// When the certificate authorities cannot be used.
    pub fn new(target: Target, calls: usize) -> Result<Self, ClientError> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, target.authorization.clone());
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let mut client = Client::builder()
            .user_agent(concat!("answerlog-reconciler/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .connect_timeout(CONNECT.min(target.request_timeout))
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .pool_max_idle_per_host(calls)
            // Sooner than most servers close them, so that no call meets a connection that is just being closed.
            .pool_idle_timeout(IDLE)
            .tcp_keepalive(Duration::from_secs(15))
            .tls_backend_preconfigured(tls(
                target.authorities.as_deref(),
                target.base.starts_with("https:"),
            )?)
            // Proxies of the environment are for whoever set them; a named one is for this program.
            .no_proxy();
        if let Some(proxy) = &target.proxy {
            client = client.proxy(Proxy::all(proxy.clone()).map_err(ClientError::Client)?);
        }
        Ok(Self {
            client: client.build().map_err(ClientError::Client)?,
            target,
        })
    }

    /// The base URL.
    pub fn base(&self) -> &str {
        &self.target.base
    }

    /// Asks for one task; a body over `limit` bytes is not taken.
    pub async fn task(&self, task: &Askable, limit: usize) -> Reply {
        let path = format!("/v1/async/task/{}", encode_id(task.task_id().as_str()));
        self.get(&path, limit).await
    }

    /// Asks what the whole account has left to do.
    ///
    /// # Errors
    /// The reply, when it is not that.
    pub async fn queue(&self) -> Result<Queue, Reply> {
        match self.get("/v1/async/status", QUEUE_LIMIT).await {
            Reply::Answer(body) => match serde_json::from_slice(&body) {
                Ok(queue) => Ok(queue),
                Err(_) => Err(Reply::Answer(body)),
            },
            other => Err(other),
        }
    }

    async fn get(&self, path: &str, limit: usize) -> Reply {
        let most = self.target.request_timeout;
        let call = async {
            let sent = self.client.get(format!("{}{path}", self.target.base)).send();
            match sent.await {
                Ok(response) => self.read(response, limit).await,
                Err(error) => broken(error),
            }
        };
        timeout(most, call)
            .await
            .unwrap_or(Reply::Failed(Failure::TimedOut(most)))
    }

    async fn read(&self, mut response: Response, limit: usize) -> Reply {
        let reply = match self.by_head(response.status(), response.headers()) {
            Some(reply) => reply,
            None => return body(&mut response, limit).await,
        };
        let _ = body(&mut response, DRAIN).await;
        reply
    }

    /// What status and headers tell; None when the body tells.
    fn by_head(&self, status: StatusCode, headers: &HeaderMap) -> Option<Reply> {
        let retry_after = || retry_after::read(headers, self.target.max_retry_after);
        Some(match status {
            StatusCode::OK if is_encoded(headers) => Reply::Unexpected(Unexpected::Encoded),
            StatusCode::OK => return None,
            StatusCode::NOT_FOUND => Reply::NotFound,
            StatusCode::GONE => Reply::Gone,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Reply::Denied(status),
            StatusCode::TOO_MANY_REQUESTS => Reply::Throttled(Throttled {
                status,
                retry_after: retry_after(),
            }),
            StatusCode::SERVICE_UNAVAILABLE if headers.contains_key(http::header::RETRY_AFTER) => {
                Reply::Throttled(Throttled {
                    status,
                    retry_after: retry_after(),
                })
            }
            StatusCode::REQUEST_TIMEOUT => Reply::Failed(Failure::Server(status)),
            _ if status.is_server_error() => Reply::Failed(Failure::Server(status)),
            _ if status.is_redirection() => Reply::Redirected(status),
            _ => Reply::Unexpected(Unexpected::Status(status)),
        })
    }
}

async fn body(response: &mut Response, limit: usize) -> Reply {
    let declared = response.content_length().unwrap_or_default();
    if declared > limit as u64 {
        return Reply::TooLarge;
    }
    let mut whole = BytesMut::new();
    loop {
        match response.chunk().await {
            Ok(None) => return Reply::Answer(whole.freeze()),
            Ok(Some(more)) if whole.len() + more.len() > limit => return Reply::TooLarge,
            Ok(Some(more)) => whole.extend_from_slice(&more),
            Err(error) => return broken(error),
        }
    }
}

/// The URL is left out of the error: it is known, and long.
fn broken(error: reqwest::Error) -> Reply {
    Reply::Failed(Failure::Broken(error.without_url()))
}

fn is_encoded(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// Trusts the authorities of the system and those of a file.
fn tls(file: Option<&Path>, needed: bool) -> Result<ClientConfig, ClientError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = file {
        add_authorities(&mut roots, path)?;
    }
    if needed && roots.is_empty() {
        return Err(ClientError::NoAuthorities);
    }
    Ok(client_config(roots))
}
