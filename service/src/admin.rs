//! The admin port: `/livez`, `/readyz` and `/metrics`, apart from whatever port strangers can reach.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing::debug;

use crate::Stop;
use crate::health::Health;

const TEXT: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Enough for a few scrapers and probes; more wait until one of these is closed.
const CONNECTIONS: usize = 32;
/// How long a request may take to arrive, and so how long a kept connection may be idle.
const HEADER_DEADLINE: Duration = Duration::from_secs(60);
/// A failing accept (no descriptor left) is tried again after this.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Where the admin port listens.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Admin port")]
pub struct AdminArgs {
    /// Address of the admin port (/livez, /readyz, /metrics); keep it from strangers
    #[arg(
        long,
        env = "ADMIN_LISTEN",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9464"
    )]
    pub admin_listen: SocketAddr,
}

/// Binds the admin port.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn bind(args: &AdminArgs) -> Result<TcpListener, BindError> {
    let address = args.admin_listen;
    TcpListener::bind(address)
        .await
        .map_err(|source| BindError { address, source })
}

/// The admin port cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("listening on {address} for the admin port")]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

/// Serves the admin port, also while the process stops: run it with [`crate::Tasks::spawn_background`].
///
/// - `/livez` is 200 as long as the process can answer at all, whatever happens outside it.
/// - `/readyz` is 200 when every check of `health` is right and nobody requested `stop`; else 503 with one line a
///   reason. Either way each warning is a line behind that, `warning: ` before it.
/// - `/metrics` is `registry` in the OpenMetrics text format.
///
/// # Errors
/// Never; the type is what [`crate::Tasks`] takes.
pub async fn serve(
    listener: TcpListener,
    registry: Registry,
    health: Health,
    stop: Stop,
) -> Result<(), Infallible> {
    let admin = Arc::new(Admin {
        registry,
        health,
        stop,
    });
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let slot = Arc::clone(&slots)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                debug!(%error, "the admin port failed to accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let admin = Arc::clone(&admin);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = admin.answer(&request);
                async move { Ok::<_, Infallible>(answer) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_DEADLINE)
                .serve_connection(TokioIo::new(socket), service)
                .await;
            if let Err(error) = served {
                debug!(%error, "a connection to the admin port broke off");
            }
            drop(slot);
        });
    }
}

struct Admin {
    registry: Registry,
    health: Health,
    stop: Stop,
}

impl Admin {
    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        if !matches!(path, "/livez" | "/readyz" | "/metrics") {
            return plain(
                StatusCode::NOT_FOUND,
                TEXT,
                "/livez, /readyz or /metrics\n".to_owned(),
            );
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET or HEAD\n".to_owned());
            answer
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        match path {
            "/livez" => plain(StatusCode::OK, TEXT, "alive\n".to_owned()),
            "/readyz" => self.readiness(),
            _ => self.metrics(),
        }
    }

    fn readiness(&self) -> Response<Full<Bytes>> {
        let mut lines = Vec::new();
        if self.stop.is_requested() {
            lines.push("process: stopping".to_owned());
        }
        let failing = self.health.readiness().err().unwrap_or_default();
        lines.extend(failing.iter().map(ToString::to_string));
        let status = if lines.is_empty() {
            lines.push("ready".to_owned());
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let warnings = self.health.warnings();
        lines.extend(warnings.iter().map(|warning| format!("warning: {warning}")));
        plain(status, TEXT, lines.join("\n") + "\n")
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        let mut text = String::new();
        match prometheus_client::encoding::text::encode(&mut text, &self.registry) {
            Ok(()) => plain(StatusCode::OK, OPEN_METRICS, text),
            Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
        }
    }
}

fn plain(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
