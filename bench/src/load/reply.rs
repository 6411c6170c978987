//! Reading answers, as little as must be.

use std::io;

/// More headers than this no receiver sends.
const HEADERS: usize = 32;

/// A whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// Whether the connection ends with it.
    pub(super) closes: bool,
}

/// The answer at the beginning of `bytes`; `None` while it is not whole. Nothing may come behind it: a connection has one
/// request at a time.
pub(super) fn read(bytes: &[u8]) -> io::Result<Option<Reply>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = head.parse(bytes).map_err(io::Error::other)? else {
        return Ok(None);
    };
    let status = head.code.unwrap_or_default();
    let (mut body, mut closes) = (0, false);
    for header in head.headers {
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = str::from_utf8(header.value).map_err(io::Error::other)?;
            body = text.trim().parse().map_err(io::Error::other)?;
        } else if header.name.eq_ignore_ascii_case("connection") {
            closes = header.value.eq_ignore_ascii_case(b"close");
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(io::Error::other(
                "an answer in pieces, which this sender does not read",
            ));
        }
    }
    if status == 204 {
        body = 0;
    }
    match bytes.len().checked_sub(length + body) {
        None => Ok(None),
        Some(0) => Ok(Some(Reply { status, closes })),
        Some(_) => Err(io::Error::other("more than the answer to the one request")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, closes: bool) -> Option<Reply> {
        Some(Reply { status, closes })
    }

    #[test]
    fn an_answer_is_read_once_it_is_whole() {
        let whole = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy";
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]).unwrap(), None, "{end} bytes");
        }
        assert_eq!(read(whole).unwrap(), reply(503, false));
    }

    #[test]
    fn a_204_has_no_body() {
        assert_eq!(
            read(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap(),
            reply(204, false)
        );
        let gunicorn = b"HTTP/1.1 204 NO CONTENT\r\nServer: gunicorn\r\nConnection: close\r\n\r\n";
        assert_eq!(read(gunicorn).unwrap(), reply(204, true));
    }

    #[test]
    fn what_this_sender_does_not_understand_is_an_error() {
        for odd in [
            &b"SSH-2.0-OpenSSH\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        ] {
            assert!(read(odd).is_err(), "{}", String::from_utf8_lossy(odd));
        }
    }
}
