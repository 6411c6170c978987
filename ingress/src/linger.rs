//! Closing a connection so that the peer can read the last answer.
//!
//! A socket that is closed while bytes from the peer are unread sends a reset, and a reset makes the peer's system throw away the answer that it
//! had not read yet. A sender that is refused in mid-body would see a broken connection and no status. So the sending half
//! is closed first, and what still arrives is thrown away for a while.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Longest time for all of it.
const TIME: Duration = Duration::from_secs(10);
/// Most bytes that are thrown away.
const BYTES: usize = 32 << 20;
/// A peer that sends less than this in the time of a window has read its answer or never will.
const WINDOW_BYTES: usize = 64 << 10;
const WINDOW: Duration = Duration::from_secs(2);

/// Closes `socket` once the peer has had its chance to read what was sent.
pub(crate) async fn close<S: AsyncRead + AsyncWrite + Unpin>(mut socket: S) {
    // However it ends, it is over: the peer may be gone, and dropping the socket closes it.
    let _ = timeout(TIME, discard(&mut socket)).await;
}

async fn discard<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut S) -> io::Result<()> {
    socket.shutdown().await?;
    let mut scratch = vec![0; 16 * 1024];
    for _ in 0..BYTES / WINDOW_BYTES {
        let window = async {
            let mut read = 0;
            while read < WINDOW_BYTES {
                match socket.read(&mut scratch).await? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    more => read += more,
                }
            }
            Ok(())
        };
        match timeout(WINDOW, window).await {
            Ok(Ok(())) => {}
            Ok(Err(over)) => return Err(over),
            Err(_) => break,
        }
    }
    Ok(())
}
