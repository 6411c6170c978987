//! What the headers of a request claim.

use base64::Engine as _;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{MAX_HEADER_BYTES, MAX_SIGNATURES, Refusal, SIGNATURE_BASE64, Scheme, UnixSeconds, header};

/// A timestamp and signatures, well formed and fresh, but not yet checked. Made without allocating.
#[derive(Clone)]
pub struct Claim {
    /// Signed before the timestamp, in Standard Webhooks alone.
    id: Option<HeaderValue>,
    timestamp: Timestamp,
    signatures: Signatures,
}

impl Claim {
    /// When the provider says it signed.
    pub fn timestamp(&self) -> UnixSeconds {
        self.timestamp.seconds
    }

    /// What is signed before the body, in parts.
    pub(super) fn prefix(&self) -> [&[u8]; 4] {
        let id: [&[u8]; 2] = match &self.id {
            Some(id) => [id.as_bytes(), b"."],
            None => [b"", b""],
        };
        [id[0], id[1], self.timestamp.text(), b"."]
    }

    pub(super) fn signatures(&self) -> &[[u8; 32]] {
        &self.signatures.found[..self.signatures.len]
    }
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // No signatures: with the body beside them they pass for a delivery until they expire.
        f.debug_struct("Claim")
            .field("timestamp", &self.timestamp())
            .finish_non_exhaustive()
    }
}

/// Reads a claim; whether its timestamp is fresh is the verifier's to say.
pub(super) fn read(scheme: &Scheme, headers: &HeaderMap) -> Result<Claim, Refusal> {
    match scheme {
        Scheme::StripeList { header } => stripe_list(headers, header),
        Scheme::Standard => standard(headers),
        Scheme::SplitHeader { timestamp, signature } => split_header(headers, timestamp, signature),
    }
}

fn stripe_list(headers: &HeaderMap, name: &HeaderName) -> Result<Claim, Refusal> {
    check_length(headers, name)?;
    let mut timestamp: Option<&[u8]> = None;
    let mut signatures = Signatures::NONE;
    for (key, value) in items(headers, name) {
        match key {
            b"t" if timestamp.is_some_and(|earlier| earlier != value) => {
                return Err(Refusal::ConflictingTimestamps);
            }
            b"t" => timestamp = Some(value),
            b"v1" => signatures.push_hex(value)?,
            _ => {}
        }
    }
    let timestamp = Timestamp::read(timestamp.ok_or(Refusal::MissingTimestamp)?)?;
    check_ascii(headers, name)?;
    Ok(Claim {
        id: None,
        timestamp,
        signatures: signatures.some()?,
    })
}

fn standard(headers: &HeaderMap) -> Result<Claim, Refusal> {
    let id = single(headers, &header::ID)?;
    let timestamp = single(headers, &header::TIMESTAMP)?;
    let signature = single(headers, &header::SIGNATURE)?;
    check_length(headers, &header::SIGNATURE)?;
    // A dot would let the same signed bytes be cut in two ways.
    let proper = |b: &u8| b.is_ascii_graphic() && *b != b'.';
    if id.is_empty() || id.len() > 256 || !id.as_bytes().iter().all(proper) {
        return Err(Refusal::MalformedHeader);
    }
    let timestamp = Timestamp::read(timestamp.as_bytes())?;
    check_ascii(headers, &header::SIGNATURE)?;
    let mut signatures = Signatures::NONE;
    for token in signature.as_bytes().split(|b| *b == b' ') {
        if let Some(encoded) = token.strip_prefix(b"v1,") {
            signatures.push_base64(encoded)?;
        }
    }
    Ok(Claim {
        id: Some(id.clone()),
        timestamp,
        signatures: signatures.some()?,
    })
}

fn split_header(
    headers: &HeaderMap,
    timestamp: &HeaderName,
    signature: &HeaderName,
) -> Result<Claim, Refusal> {
    let timestamp = single(headers, timestamp)?;
    check_length(headers, signature)?;
    let timestamp = Timestamp::read(timestamp.as_bytes())?;
    check_ascii(headers, signature)?;
    let mut signatures = Signatures::NONE;
    for (key, value) in items(headers, signature) {
        if key == b"v1" {
            signatures.push_hex(value)?;
        }
    }
    Ok(Claim {
        id: None,
        timestamp,
        signatures: signatures.some()?,
    })
}

/// The one line of a header that must not be repeated.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<&'h HeaderValue, Refusal> {
    let mut lines = headers.get_all(name).iter();
    let only = lines.next().ok_or(Refusal::MissingHeader)?;
    if lines.next().is_some() {
        Err(Refusal::MalformedHeader)
    } else {
        Ok(only)
    }
}

/// Bounds the lines of a header, joined with a comma each.
fn check_length(headers: &HeaderMap, name: &HeaderName) -> Result<(), Refusal> {
    let joined = headers
        .get_all(name)
        .iter()
        .map(|line| line.len() + 1)
        .sum::<usize>();
    match joined.checked_sub(1) {
        None => Err(Refusal::MissingHeader),
        Some(length) if length > MAX_HEADER_BYTES => Err(Refusal::HeaderTooLong),
        Some(_) => Ok(()),
    }
}

fn check_ascii(headers: &HeaderMap, name: &HeaderName) -> Result<(), Refusal> {
    let ascii = headers
        .get_all(name)
        .iter()
        .all(|line| line.as_bytes().is_ascii());
    if ascii {
        Ok(())
    } else {
        Err(Refusal::MalformedHeader)
    }
}

/// The `key=value` items of a header: its lines are read as if joined with commas; items without `=` are
/// skipped.
fn items<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = (&'h [u8], &'h [u8])> {
    let lines = headers.get_all(name).into_iter();
    lines
        .flat_map(|line| line.as_bytes().split(|b| *b == b','))
        .filter_map(|item| {
            let item = item.trim_ascii();
            let equals = item.iter().position(|b| *b == b'=')?;
            Some((&item[..equals], &item[equals + 1..]))
        })
}

/// Seconds, and the bytes they came in: those are what is signed, never a number printed anew.
#[derive(Clone)]
struct Timestamp {
    seconds: UnixSeconds,
    text: [u8; Self::MAX_DIGITS],
    len: usize,
}

impl Timestamp {
    const MAX_DIGITS: usize = 12;

    /// `[1-9][0-9]{0,11}`: no sign, no space, no zero in front, no fraction, no milliseconds.
    fn read(digits: &[u8]) -> Result<Self, Refusal> {
        let plain = digits.iter().all(u8::is_ascii_digit);
        if digits.len() > Self::MAX_DIGITS || !plain || matches!(digits, [] | [b'0', ..]) {
            return Err(Refusal::MalformedTimestamp);
        }
        let seconds = digits.iter().fold(0, |n, digit| n * 10 + i64::from(digit - b'0'));
        let mut text = [0; Self::MAX_DIGITS];
        text[..digits.len()].copy_from_slice(digits);
        Ok(Self {
            seconds,
            text,
            len: digits.len(),
        })
    }

    fn text(&self) -> &[u8] {
        &self.text[..self.len]
    }
}

/// The well-formed signatures of a request, and how many were meant to be some.
#[derive(Clone)]
struct Signatures {
    found: [[u8; 32]; MAX_SIGNATURES],
    len: usize,
    claimed: usize,
}

impl Signatures {
    const NONE: Self = Self {
        found: [[0; 32]; MAX_SIGNATURES],
        len: 0,
        claimed: 0,
    };

    fn push(&mut self, decode: impl FnOnce(&mut [u8; 32]) -> bool) -> Result<(), Refusal> {
        if self.claimed == MAX_SIGNATURES {
            return Err(Refusal::TooManySignatures);
        }
        self.claimed += 1;
        if decode(&mut self.found[self.len]) {
            self.len += 1;
        }
        Ok(())
    }

    fn push_hex(&mut self, text: &[u8]) -> Result<(), Refusal> {
        self.push(|signature| hex::decode_to_slice(text, signature).is_ok())
    }

    fn push_base64(&mut self, text: &[u8]) -> Result<(), Refusal> {
        self.push(|signature| {
            // 44 characters, the last of them padding; the decoder asks for room for 33 bytes.
            let mut room = [0; 33];
            let decoded = text.len() == 44
                && SIGNATURE_BASE64
                    .decode_slice(text, &mut room)
                    .is_ok_and(|len| len == 32);
            signature.copy_from_slice(&room[..32]);
            decoded
        })
    }

    /// Fails unless there is something to compare with.
    fn some(self) -> Result<Self, Refusal> {
        match self {
            Self { claimed: 0, .. } => Err(Refusal::NoSignature),
            Self { len: 0, .. } => Err(Refusal::NoMatch),
            some => Ok(some),
        }
    }
}
