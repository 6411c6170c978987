//! A TCP link that can be cut, muted and slowed down.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::sleep,
};

use super::{ServerError, port::Port};

/// So often a link that is restored tries to listen again.
const MOST_ATTEMPTS: u32 = 500;
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Open,
    Mute,
    AnswersHeld,
    RequestsHeld,
    Cut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToTarget,
    FromTarget,
}

impl Mode {
    fn passes(self, direction: Direction) -> bool {
        match self {
            Self::Open => true,
            Self::AnswersHeld => direction == Direction::ToTarget,
            Self::RequestsHeld => direction == Direction::FromTarget,
            Self::Mute | Self::Cut => false,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct State {
    mode: Mode,
    delay: Duration,
}

/// A proxy on a loopback port of its own in front of another address. It stands for the network between two programs.
#[derive(Debug)]
pub struct Link {
    addr: SocketAddr,
    state: watch::Sender<State>,
    /// The mode in force: [`cut`](Self::cut) and the others return once it is theirs.
    reached: watch::Receiver<Mode>,
    proxy: JoinHandle<()>,
}

impl Link {
    /// An open link to `target`. Lives in the runtime it is made in.
    pub async fn to(target: SocketAddr) -> Self {
        Self::try_to(target)
            .await
            .unwrap_or_else(|e| panic!("opening a link to {target}: {e}"))
    }

    async fn try_to(target: SocketAddr) -> Result<Self, ServerError> {
        let port = Port::lease()?;
        let addr = port.addr();
        let listener = TcpListener::bind(addr)
            .await
            .map_err(ServerError::io(format!("listening on {addr}")))?;
        let (state, seen) = watch::channel(State {
            mode: Mode::Open,
            delay: Duration::ZERO,
        });
        let (report, reached) = watch::channel(Mode::Open);
        let proxy = tokio::spawn(run(port, listener, target, seen, report));
        Ok(Self {
            addr,
            state,
            reached,
            proxy,
        })
    }

    /// Where clients connect in place of the target.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `nats://host:port` of this end.
    pub fn nats_url(&self) -> String {
        format!("nats://{}", self.addr)
    }

    /// Resets every connection and refuses new ones.
    pub async fn cut(&mut self) {
        self.set(Mode::Cut).await;
    }

    /// Keeps connections and accepts new ones, and passes nothing in either direction: a network that swallows.
    pub async fn mute(&mut self) {
        self.set(Mode::Mute).await;
    }

    /// Passes what clients send, and holds back what the target answers: it does what it is asked, and nobody knows.
    pub async fn hold_answers(&mut self) {
        self.set(Mode::AnswersHeld).await;
    }

    /// Passes what the target says, and holds back what clients send: they hear of everything, and nobody hears them.
    pub async fn hold_requests(&mut self) {
        self.set(Mode::RequestsHeld).await;
    }

    /// Passes everything again, what was held back first.
    pub async fn restore(&mut self) {
        self.set(Mode::Open).await;
    }

    /// Holds every piece of data back for `delay` in each direction; zero ends it.
    pub fn delay(&self, delay: Duration) {
        self.state.send_modify(|state| state.delay = delay);
    }

    async fn set(&mut self, mode: Mode) {
        self.state.send_modify(|state| state.mode = mode);
        self.reached
            .wait_for(|reached| *reached == mode)
            .await
            .expect("the proxy lives as long as the link");
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.proxy.abort();
    }
}

/// Accepts while the link is not cut. While it is, there is no listener at all: the system refuses for us.
async fn run(
    port: Port,
    first: TcpListener,
    target: SocketAddr,
    mut state: watch::Receiver<State>,
    report: watch::Sender<Mode>,
) {
    let mut listener = Some(first);
    let mut connections = JoinSet::new();
    loop {
        let mode = state.borrow_and_update().mode;
        if mode == Mode::Cut {
            listener = None;
            while connections.join_next().await.is_some() {} // each sees the cut and resets
        } else if listener.is_none() {
            listener = Some(listen_again(port.addr()).await.expect("the port is leased"));
        }
        report.send_replace(mode);
        tokio::select! {
            changed = state.changed() => if changed.is_err() { return },
            Some(Ok((client, _))) = accept(listener.as_ref()) => {
                connections.spawn(connection(client, target, state.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// A process that is being started at the moment of a cut holds a copy of the old listener until it runs its own program.
async fn listen_again(addr: SocketAddr) -> io::Result<TcpListener> {
    let mut attempts = 0;
    loop {
        match TcpListener::bind(addr).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempts < MOST_ATTEMPTS => {
                attempts += 1;
                sleep(PAUSE).await;
            }
            bound => return bound,
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> Option<io::Result<(TcpStream, SocketAddr)>> {
    match listener {
        Some(listener) => Some(listener.accept().await),
        None => None,
    }
}

/// One connection until both sides have ended it in order. Every other end is a reset, on both sides.
async fn connection(mut client: TcpStream, target: SocketAddr, mut state: watch::Receiver<State>) {
    let mut server = None;
    let passing = state.clone();
    let in_order = tokio::select! {
        biased;
        _ = state.wait_for(|state| state.mode == Mode::Cut) => false,
        ended = pass_both(&mut client, &mut server, target, passing) => ended.is_ok(),
    };
    if !in_order {
        for socket in [Some(&client), server.as_ref()].into_iter().flatten() {
            // A socket that refuses this is closed already.
            let _ = socket.set_zero_linger();
        }
    }
}

async fn pass_both(
    client: &mut TcpStream,
    server: &mut Option<TcpStream>,
    target: SocketAddr,
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    open(&mut state, Direction::ToTarget).await;
    let server = server.insert(TcpStream::connect(target).await?);
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_read, client_write) = client.split();
    let (server_read, server_write) = server.split();
    tokio::try_join!(
        pass(client_read, server_write, Direction::ToTarget, state.clone()),
        pass(server_read, client_write, Direction::FromTarget, state)
    )?;
    Ok(())
}

async fn pass(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    direction: Direction,
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        open(&mut state, direction).await;
        let delay = state.borrow().delay;
        if !delay.is_zero() {
            sleep(delay).await;
            open(&mut state, direction).await;
        }
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
    }
}

/// Waits until data may pass. A link that is gone passes nothing: its connections are aborted with it.
async fn open(state: &mut watch::Receiver<State>, direction: Direction) {
    let passes = state.wait_for(|state| state.mode.passes(direction));
    if passes.await.is_err() {
        std::future::pending::<()>().await;
    }
}
