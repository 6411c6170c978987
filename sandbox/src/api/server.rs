//! An HTTP/1.1 server on one address that can be stopped and started again.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

/// A failing accept (no descriptor left) is tried again after this.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server, running or not.
#[derive(Debug)]
pub(super) struct Server {
    address: SocketAddr,
    router: Router,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    closing: CancellationToken,
    /// Owns every connection: dropped, it closes them.
    accepting: JoinHandle<()>,
}

/// Marks a response that is not sent: the connection is closed instead.
#[derive(Debug, Clone, Copy)]
struct HangUp;

/// A response in whose place the connection is closed.
pub(super) fn hang_up() -> Response {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(HangUp);
    response
}

/// Whether the connection is closed in place of this response.
pub(super) fn is_hung_up(response: &Response) -> bool {
    response.extensions().get::<HangUp>().is_some()
}

impl Server {
    /// Serves `router` on `address`; port 0 takes a free one and keeps to it.
    pub(super) async fn start(address: SocketAddr, router: Router) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let mut server = Self {
            address: listener.local_addr()?,
            router,
            running: None,
        };
        server.run(listener);
        Ok(server)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, closes those without a request at once, and the others after their answer or when
    /// `grace` is over.
    pub(super) async fn stop(&mut self, grace: Duration) {
        if let Some(mut running) = self.running.take() {
            running.closing.cancel();
            if tokio::time::timeout(grace, &mut running.accepting).await.is_err() {
                running.accepting.abort();
                // It was told to end; that it did is all there is to know.
                let _ = running.accepting.await;
            }
        }
    }

    /// Serves again, on the same address.
    pub(super) async fn restart(&mut self) -> io::Result<()> {
        if self.running.is_none() {
            let listener = TcpListener::bind(self.address).await?;
            self.run(listener);
        }
        Ok(())
    }

    fn run(&mut self, listener: TcpListener) {
        let closing = CancellationToken::new();
        let accepting = tokio::spawn(accept(listener, self.router.clone(), closing.clone()));
        self.running = Some(Running { closing, accepting });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.accepting.abort();
        }
    }
}

async fn accept(listener: TcpListener, router: Router, closing: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = closing.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    connections.spawn(speak(socket, router.clone(), closing.clone()));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Speaks HTTP on a connection until its end. What fails on it concerns the caller alone, who sees it.
async fn speak(socket: TcpStream, router: Router, closing: CancellationToken) {
    // An answer is one small segment, which must not wait for the acknowledgment of another.
    let _ = socket.set_nodelay(true);
    let service = service_fn(move |request| {
        let mut router = router.clone();
        async move {
            let Ok(response) = router.call(request).await;
            if is_hung_up(&response) {
                Err(io::Error::other("hung up on purpose"))
            } else {
                Ok(response)
            }
        }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(socket), service);
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
