//! Percent-encoding of header values: UTF-8, upper-case hex, one round.

use std::borrow::Cow;

/// Bytes that a message id holds unencoded: those of usual ids.
const fn in_id(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'~' | b':' | b'@' | b'-')
}

/// Bytes that a CloudEvents header holds unencoded: printable ASCII but for `"` and `%`.
const fn in_header(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'%')
}

/// Encodes an id, every byte outside `[A-Za-z0-9_.~:@-]`: a usual id stays itself.
pub fn encode_id(text: &str) -> Cow<'_, str> {
    encode(text, in_id)
}

/// Encodes a CloudEvents attribute for a header, no more than its binding to NATS asks for.
pub fn encode_attribute(text: &str) -> Cow<'_, str> {
    encode(text, in_header)
}

fn encode(text: &str, stays: impl Fn(u8) -> bool) -> Cow<'_, str> {
    if text.bytes().all(&stays) {
        return Cow::Borrowed(text);
    }
    const HEX: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    let mut encoded = String::with_capacity(3 * text.len());
    for byte in text.bytes() {
        if stays(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.extend(['%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
    Cow::Owned(encoded)
}

/// Decodes a header value, whichever bytes its writer chose to encode, in hex of either case. None when a `%` is
/// followed by anything but two hex digits, or when the bytes are not UTF-8.
pub fn decode(value: &str) -> Option<Cow<'_, str>> {
    if !value.contains('%') {
        return Some(Cow::Borrowed(value));
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first == b'%' {
            let (digits, behind) = behind.split_at_checked(2)?;
            let mut byte = [0];
            hex::decode_to_slice(digits, &mut byte).ok()?;
            bytes.push(byte[0]);
            rest = behind;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}
