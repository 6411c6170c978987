//! The admin port over real sockets, and the health check command against it.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test fails the test when it panics"
)]
use std::net::SocketAddr;
use std::process::ExitCode;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use service::Stop;
use service::admin::{self, AdminArgs};
use service::health::{Check, Health, Warning};
use service::healthcheck::{HealthcheckArgs, healthcheck};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

struct Process {
    address: SocketAddr,
    check: Check,
    warning: Warning,
    stop: Stop,
}

impl Process {
    async fn start() -> Self {
        let listener = admin::bind(&AdminArgs {
            admin_listen: ([127, 0, 0, 1], 0).into(),
        })
        .await
        .unwrap();
        let address = listener.local_addr().unwrap();
        let health = Health::new();
        let check = health.register("stream");
        let warning = health.warning("stream");
        let mut registry = Registry::default();
        let events = Counter::<u64>::default();
        registry.register("events", "Events seen", events.clone());
        events.inc();
        let stop = Stop::new();
        tokio::spawn(admin::serve(listener, registry, health, stop.clone()));
        Self {
            address,
            check,
            warning,
            stop,
        }
    }

    async fn get(&self, path: &str) -> String {
        self.ask("GET", path).await
    }

    async fn ask(&self, method: &str, path: &str) -> String {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn healthcheck(&self, live: bool) -> ExitCode {
        let args = HealthcheckArgs {
            live,
            admin: AdminArgs {
                admin_listen: self.address,
            },
        };
        tokio::task::spawn_blocking(move || healthcheck(&args))
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn readiness_gives_the_reasons_and_liveness_does_not_follow_it() {
    let process = Process::start().await;
    let answer = process.get("/readyz").await;
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("\r\n\r\nstream: starting\n"),
        "{answer}"
    );
    assert!(process.get("/livez").await.starts_with("HTTP/1.1 200 "));
    process.check.ok();
    assert!(process.get("/readyz").await.starts_with("HTTP/1.1 200 "));
    process.stop.request();
    let answer = process.get("/readyz").await;
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("\r\n\r\nprocess: stopping\n"),
        "{answer}"
    );
    assert!(process.get("/livez").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_warning_is_told_whether_ready_or_not_and_leaves_the_status_alone() {
    let process = Process::start().await;
    process.check.ok();
    process.warning.raise("83 % full");
    let answer = process.get("/readyz").await;
    assert!(
        answer.starts_with("HTTP/1.1 200 ")
            && answer.ends_with("\r\n\r\nready\nwarning: stream: 83 % full\n"),
        "{answer}"
    );
    process.check.failing("refused");
    let answer = process.get("/readyz").await;
    assert!(
        answer.starts_with("HTTP/1.1 503 ")
            && answer.ends_with("\r\n\r\nstream: refused\nwarning: stream: 83 % full\n"),
        "{answer}"
    );
    process.warning.clear();
    process.check.ok();
    assert!(process.get("/readyz").await.ends_with("\r\n\r\nready\n"));
}

#[tokio::test]
async fn metrics_are_open_metrics_text() {
    let answer = Process::start().await.get("/metrics").await;
    assert!(
        answer.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{answer}"
    );
    assert!(
        answer.contains("\nevents_total 1\n") && answer.ends_with("# EOF\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn other_paths_and_methods_are_refused() {
    let process = Process::start().await;
    assert!(process.get("/").await.starts_with("HTTP/1.1 404 "));
    let answer = process.ask("POST", "/livez").await;
    assert!(
        answer.starts_with("HTTP/1.1 405 ") && answer.contains("allow: GET, HEAD"),
        "{answer}"
    );
}

#[tokio::test]
async fn the_health_check_command_tells_by_its_exit_code() {
    let process = Process::start().await;
    assert_eq!(process.healthcheck(false).await, ExitCode::FAILURE);
    assert_eq!(process.healthcheck(true).await, ExitCode::SUCCESS);
    process.check.ok();
    assert_eq!(process.healthcheck(false).await, ExitCode::SUCCESS);
    let nobody = Process {
        address: ([127, 0, 0, 1], 1).into(),
        ..process
    };
    assert_eq!(nobody.healthcheck(true).await, ExitCode::FAILURE);
}
