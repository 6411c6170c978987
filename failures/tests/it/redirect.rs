//! A server that redirects everything, as a proxy does that was set up for another address.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Uri;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// Answers every request with 308 until it is dropped.
pub(crate) struct Redirect {
    url: Uri,
    answered: Arc<AtomicUsize>,
    _serving: AbortOnDropHandle<()>,
}

impl Redirect {
    /// One that sends everybody to `target`.
    pub(crate) async fn to(target: &Uri) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}{}", listener.local_addr().unwrap(), target.path());
        let answer = format!(
            "HTTP/1.1 308 Permanent Redirect\r\nlocation: {target}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        let answered = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&answered);
        let serving = tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                let (answer, count) = (answer.clone(), Arc::clone(&count));
                tokio::spawn(async move {
                    if redirect(connection, &answer).await.is_ok() {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        Self {
            url: url.parse().unwrap(),
            answered,
            _serving: AbortOnDropHandle::new(serving),
        }
    }

    /// Where it is.
    pub(crate) fn url(&self) -> Uri {
        self.url.clone()
    }

    /// How many requests it has redirected.
    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }
}

/// Reads the whole request first: whoever is still sending may not see the answer.
async fn redirect(mut connection: TcpStream, answer: &str) -> std::io::Result<()> {
    let mut request = Vec::new();
    let whole = |request: &[u8]| {
        let text = String::from_utf8_lossy(request);
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        })?;
        Some(body.len() >= length)
    };
    while whole(&request) != Some(true) {
        if connection.read_buf(&mut request).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    connection.write_all(answer.as_bytes()).await?;
    connection.shutdown().await
}
