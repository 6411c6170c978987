//! A pooler in transaction mode: each transaction of a client goes to the next session in turn, which is the worst that a
//! real one may do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Buf, BufMut, BytesMut};
use sandbox::servers::{Database, Postgres};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

/// Sessions that wait for a transaction, in turn.
type Idle = Arc<(mpsc::Sender<Session>, Mutex<mpsc::Receiver<Session>>)>;

struct Session {
    number: usize,
    socket: TcpStream,
}

pub(crate) struct Pooler {
    addr: SocketAddr,
    database: String,
    switches: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Pooler {
    pub(crate) async fn start(database: &Database, sessions: usize) -> Self {
        let server = Postgres::shared().await.addr();
        let (sender, receiver) = mpsc::channel(sessions);
        let mut greeting = Vec::new();
        for number in 0..sessions {
            let mut socket = TcpStream::connect(server).await.unwrap();
            greeting = log_in(&mut socket, database.name()).await;
            sender.send(Session { number, socket }).await.unwrap();
        }
        let idle: Idle = Arc::new((sender, Mutex::new(receiver)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let switches = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&switches);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (idle, greeting, switches) = (Arc::clone(&idle), greeting.clone(), Arc::clone(&counted));
                tokio::spawn(async move { serve(client, &greeting, &idle, &switches).await });
            }
        });
        Self {
            addr,
            database: database.name().to_owned(),
            switches,
            accepting,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@{}/{}", self.addr, self.database)
    }

    /// How often a client's transaction went to another session than the one before.
    pub(crate) fn switches(&self) -> usize {
        self.switches.load(Ordering::Relaxed)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Opens a session; what the server said up to its first `ReadyForQuery`.
async fn log_in(socket: &mut TcpStream, database: &str) -> Vec<u8> {
    let parameters =
        format!("user\0postgres\0database\0{database}\0application_name\0pooler\0client_encoding\0UTF8\0\0");
    let mut hello = BytesMut::new();
    hello.put_u32(u32::try_from(parameters.len()).unwrap() + 8);
    hello.put_u32(196_608);
    hello.put_slice(parameters.as_bytes());
    socket.write_all(&hello).await.unwrap();
    let mut greeting = Vec::new();
    loop {
        let message = read_message(socket).await.expect("the server lets us in");
        greeting.extend_from_slice(&message);
        if message[0] == b'Z' {
            return greeting;
        }
    }
}

/// One message, with its type and length.
async fn read_message(socket: &mut TcpStream) -> Option<BytesMut> {
    let mut head = [0; 5];
    socket.read_exact(&mut head).await.ok()?;
    let length = (&head[1..]).get_u32() as usize + 1;
    let mut message = BytesMut::zeroed(length);
    message[..5].copy_from_slice(&head);
    socket.read_exact(&mut message[5..]).await.ok()?;
    Some(message)
}

/// Passes transactions of one client on until it goes.
async fn serve(mut client: TcpStream, greeting: &[u8], idle: &Idle, switches: &AtomicUsize) -> Option<()> {
    let length = client.read_u32().await.ok()?;
    let mut hello = vec![0; length as usize - 4];
    client.read_exact(&mut hello).await.ok()?;
    client.write_all(greeting).await.ok()?;
    let mut last = None;
    loop {
        let mut first = Some(read_message(&mut client).await?);
        if first.as_ref().is_some_and(|message| message[0] == b'X') {
            return None;
        }
        let mut session = idle.1.lock().await.recv().await?;
        if last
            .replace(session.number)
            .is_some_and(|last| last != session.number)
        {
            switches.fetch_add(1, Ordering::Relaxed);
        }
        // Requests up to the one that wants an answer, then the answers, until the transaction is over.
        loop {
            let mut answers = 0;
            while answers == 0 {
                let message = match first.take() {
                    Some(message) => message,
                    None => read_message(&mut client).await?,
                };
                answers += usize::from(matches!(message[0], b'Q' | b'S'));
                session.socket.write_all(&message).await.ok()?;
            }
            let state = loop {
                let message = read_message(&mut session.socket).await?;
                client.write_all(&message).await.ok()?;
                if message[0] == b'Z' {
                    break message[5];
                }
            };
            if state == b'I' {
                break;
            }
        }
        idle.0.send(session).await.ok()?;
    }
}
