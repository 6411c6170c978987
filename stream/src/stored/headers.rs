//! Reading headers by the rules of the client.

use async_nats::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use thiserror::Error;

/// Why headers cannot be read. Over a message with such headers the client ends its connection, or itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum UnreadableHeaders {
    /// They are not text.
    #[error("they are not valid UTF-8")]
    NotUtf8,
    /// The first line is another.
    #[error("they do not begin with NATS/1.0")]
    Version,
    /// Behind the version stands what is no status.
    #[error("their status is no number of three digits")]
    Status,
    /// A line is no header.
    #[error("they have a line without a colon")]
    Line,
    /// A name is not made of visible ASCII.
    #[error("they have a name that is none")]
    Name,
    /// A value holds a carriage return.
    #[error("they have a value with a carriage return in it")]
    Value,
}

/// Reads the headers of a message; no bytes are none. A message that the client delivers gives the same headers here, so
/// that it does not matter which way it was read: `unreadable_headers…` among the tests with the broker holds the two
/// together.
pub(super) fn read(raw: &[u8]) -> Result<HeaderMap, UnreadableHeaders> {
    let mut headers = HeaderMap::new();
    if raw.is_empty() {
        return Ok(headers);
    }
    let text = std::str::from_utf8(raw).map_err(|_| UnreadableHeaders::NotUtf8)?;
    let mut lines = text.lines().peekable();
    let version = lines.next().and_then(|line| line.strip_prefix("NATS/1.0"));
    let status = version.ok_or(UnreadableHeaders::Version)?.trim();
    let number = status.split_once(' ').map_or(status, |(number, _)| number);
    if !number.is_empty() && number.trim().parse::<StatusCode>().is_err() {
        return Err(UnreadableHeaders::Status);
    }
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        let (name, value) = line.split_once(':').ok_or(UnreadableHeaders::Line)?;
        let name: HeaderName = name.parse().map_err(|_| UnreadableHeaders::Name)?;
        let mut value = value.trim_start().to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with(char::is_whitespace)) {
            value.push_str(more);
        }
        let value: HeaderValue = value.trim_end().parse().map_err(|_| UnreadableHeaders::Value)?;
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_trimmed_continued_and_kept_in_order() {
        let headers = read(b"NATS/1.0\r\na:  1 \r\nb: x\r\n  y\r\na:2\r\n\r\n").unwrap();
        let all = |name: &str| headers.get_all(name).map(HeaderValue::as_str).collect::<Vec<_>>();
        assert_eq!((all("a"), all("b")), (vec!["1", "2"], vec!["x  y"]));
        assert_eq!(read(b""), Ok(HeaderMap::new()));
    }

    #[test]
    fn each_fault_has_its_name() {
        for (raw, fault) in [
            (&b"NATS/1.0\r\na: \xff\r\n\r\n"[..], UnreadableHeaders::NotUtf8),
            (b"\r\n", UnreadableHeaders::Version),
            (b"HTTP/1.1\r\na: 1\r\n\r\n", UnreadableHeaders::Version),
            (b"NATS/1.0 soon\r\n\r\n", UnreadableHeaders::Status),
            (b"NATS/1.0\r\nnothing\r\n\r\n", UnreadableHeaders::Line),
            (b"NATS/1.0\r\na b: 1\r\n\r\n", UnreadableHeaders::Name),
            (b"NATS/1.0\r\na: 1\r2\r\n\r\n", UnreadableHeaders::Value),
        ] {
            assert_eq!(read(raw), Err(fault), "{}", raw.escape_ascii());
        }
    }
}
