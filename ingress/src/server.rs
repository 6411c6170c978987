//! The public port: accepting connections, speaking HTTP/1.1 on them, and closing them.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use crate::linger;
use crate::patience::Patience;
use crate::receive::Hook;
use crate::throttle::Throttle;

/// About the most that one connection buffers of what it receives.
const READ_BUFFER: usize = 64 * 1024;
/// The largest head of a request, its line and all its headers.
const HEAD_LIMIT: usize = 32 * 1024;
/// After the signal, how long connections without a request stay open: a request that was already on its way is answered
/// 503 rather than by a closed connection.
const LAST_REQUESTS: Duration = Duration::from_secs(1);
/// A failing accept (no descriptor or memory left) is tried again after this.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections that may wait to be accepted; the system may allow fewer (`net.core.somaxconn`). With the 128 of the standard
/// library a burst of senders overflows the queue, and those who do not fit try again after seconds.
const BACKLOG: u32 = 4096;

/// The public port.
pub(crate) struct Server {
    hook: Arc<Hook>,
    tls: Option<TlsAcceptor>,
    open: TaskTracker,
    closing: Closing,
    accept_errors: Throttle,
}

/// The two steps of closing, after no new connection is accepted.
#[derive(Debug, Clone, Default)]
struct Closing {
    /// Connections without a request are closed, the others after their answer.
    idle: CancellationToken,
    /// Whatever is still open is dropped.
    all: CancellationToken,
}

impl Server {
    pub(crate) fn new(hook: Arc<Hook>, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        Self {
            hook,
            tls: tls.map(TlsAcceptor::from),
            open: TaskTracker::new(),
            closing: Closing::default(),
            accept_errors: Throttle::default(),
        }
    }

    /// Serves until stopping is requested, then closes what is open within the grace time.
    ///
    /// # Errors
    /// Never; the type is what a task gives.
    pub(crate) async fn run(self, listener: TcpListener) -> Result<(), Infallible> {
        let stop = self.hook.stop.clone();
        let slots = Arc::new(Semaphore::new(
            self.hook.limits.connections.min(Semaphore::MAX_PERMITS),
        ));
        while let Some(accepted) = stop.unless_requested(accept(&listener, &slots)).await {
            match accepted {
                Ok((socket, slot)) => self.open(socket, slot),
                Err(error) => self.accept_failed(&error).await,
            }
        }
        drop(listener);
        self.close().await;
        Ok(())
    }

    fn open(&self, socket: TcpStream, slot: OwnedSemaphorePermit) {
        let (hook, tls, closing) = (Arc::clone(&self.hook), self.tls.clone(), self.closing.clone());
        self.open.spawn(async move {
            hook.metrics.accepted.inc();
            hook.metrics.connections.inc();
            let all = closing.all.clone();
            all.run_until_cancelled(serve(socket, tls, &hook, &closing)).await;
            hook.metrics.connections.dec();
            drop(slot);
        });
    }

    /// A peer that is gone again does not matter. Every other error is a shortage, most likely of descriptors, that takes a
    /// moment to pass.
    async fn accept_failed(&self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
        if matches!(
            error.kind(),
            ConnectionAborted | ConnectionRefused | ConnectionReset
        ) {
            return;
        }
        if let Some(more) = self.accept_errors.due("accept") {
            warn!(%error, more, "cannot accept connections for the moment");
        }
        self.hook
            .stop
            .unless_requested(tokio::time::sleep(ACCEPT_PAUSE))
            .await;
    }

    async fn close(&self) {
        self.open.close();
        let orderly = async {
            if timeout(LAST_REQUESTS, self.open.wait()).await.is_err() {
                self.closing.idle.cancel();
                self.open.wait().await;
            }
        };
        if timeout(self.hook.limits.stop_grace, orderly).await.is_err() {
            info!(
                connections = self.open.len(),
                "dropping connections that are still open at the end of the grace time"
            );
            self.closing.all.cancel();
            self.open.wait().await;
        }
    }
}

/// Begins to listen. Must be called within a runtime.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // What the last process left behind must not keep the next one from starting.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A slot first, then a connection: what is over the limit waits in the listener's queue.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots)
        .acquire_owned()
        .await
        .expect("the semaphore is never closed");
    let (socket, _) = listener.accept().await?;
    Ok((socket, slot))
}

async fn serve(socket: TcpStream, tls: Option<TlsAcceptor>, hook: &Arc<Hook>, closing: &Closing) {
    // An answer is one small segment, which must not wait for the acknowledgment of another.
    if let Err(error) = socket.set_nodelay(true) {
        debug!(%error, "a connection was gone at once");
        return;
    }
    let socket = Patience::new(socket, hook.limits.header_deadline);
    match tls {
        None => speak(socket, hook, closing).await,
        Some(tls) => match timeout(hook.limits.header_deadline, tls.accept(socket)).await {
            Ok(Ok(socket)) => speak(socket, hook, closing).await,
            Ok(Err(error)) => debug!(%error, "a TLS handshake failed"),
            Err(_) => debug!("a TLS handshake took too long"),
        },
    }
}

/// Speaks HTTP/1.1 on a connection until its end.
async fn speak<S>(socket: S, hook: &Arc<Hook>, closing: &Closing)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let for_requests = Arc::clone(hook);
    let service = service_fn(move |request| {
        let hook = Arc::clone(&for_requests);
        // Boxed, since hyper hands a connection back for closing only when this can be moved.
        Box::pin(async move { Ok::<_, Infallible>(hook.receive(request).await) })
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(hook.limits.header_deadline)
        .max_buf_size(READ_BUFFER)
        .max_header_size(HEAD_LIMIT)
        // A sender that has closed its sending half still waits for the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(socket), service);

    let ended = closing
        .idle
        .run_until_cancelled(poll_fn(|cx| connection.poll_without_shutdown(cx)))
        .await;
    let ended = match ended {
        Some(ended) => ended,
        None => {
            Pin::new(&mut connection).graceful_shutdown();
            poll_fn(|cx| connection.poll_without_shutdown(cx)).await
        }
    };
    let too_slow = match &ended {
        Ok(()) => false,
        Err(error) => {
            debug!(%error, "a connection ended");
            error.is_timeout()
        }
    };
    if !too_slow {
        linger::close(connection.into_parts().io.into_inner()).await;
    }
}
