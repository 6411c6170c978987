//! Webhook signatures: three schemes, signing and verifying.
//!
//! One scheme and one set of keys belong to one source; nothing is ever guessed from a request. Checking has
//! two halves, so that a hopeless request is refused before its body is read: [`Verifier::read_claim`] looks
//! at the headers alone, [`Verifier::verify`] at the bytes. Nothing parses a body before its signature is
//! right: the only way to [`Verified`] bytes is through here.

use std::fmt;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::Sha256;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use thiserror::Error;

mod claim;
mod sign;

pub use claim::Claim;
pub use sign::sign;

/// Seconds since the Unix epoch.
pub type UnixSeconds = i64;

/// Longest signature header, all its lines together, in bytes.
pub const MAX_HEADER_BYTES: usize = 4096;

/// Most signatures in one request.
pub const MAX_SIGNATURES: usize = 16;

/// Most keys of one source: the old and the new of a rotation, with room to spare.
pub const MAX_KEYS: usize = 8;

/// How a provider signs its deliveries, and in which headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scheme {
    /// One header, `t=<unix seconds>,v1=<hex>[,v1=<hex>…]`, over `t "." body` (Answerline, Stripe, Kit).
    StripeList {
        /// The header with timestamp and signatures.
        header: HeaderName,
    },
    /// Standard Webhooks 1.0.0: `webhook-id`, `webhook-timestamp` and `webhook-signature`
    /// (`v1,<base64> v1,<base64>`), over `id "." timestamp "." body`.
    Standard,
    /// A timestamp header and a signature header `v1=<hex>`, over `timestamp "." body` (cloro).
    SplitHeader {
        /// The header with the timestamp alone.
        timestamp: HeaderName,
        /// The header with the signatures.
        signature: HeaderName,
    },
}

/// How the text of a secret becomes the key of the MAC. The same text gives different keys: mixing them up is
/// the likeliest fault of a new installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyEncoding {
    /// The UTF-8 bytes of the text as it is, prefix included.
    Literal,
    /// Base64 after an optional `whsec_` is removed; padding is optional.
    Base64,
}

/// A secret ready for use: the MAC's state after its key, computed once. Its `Debug` prints `…`.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha256>);

/// Real secrets come without padding, and with bits behind the last byte that say nothing.
const SECRET_BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

impl SigningKey {
    /// Makes a key of the text of a secret. Whoever reads it from a file takes the final line break off first.
    pub fn new(secret: &str, encoding: KeyEncoding) -> Result<Self, InvalidSecret> {
        if secret.is_empty() {
            return Err(InvalidSecret::Empty);
        }
        if secret.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(InvalidSecret::Blank);
        }
        match encoding {
            KeyEncoding::Literal => Ok(Self::of_bytes(secret.as_bytes())),
            KeyEncoding::Base64 => {
                let text = secret.strip_prefix("whsec_").unwrap_or(secret);
                let key = SECRET_BASE64.decode(text).map_err(|_| InvalidSecret::NotBase64)?;
                if key.is_empty() {
                    Err(InvalidSecret::Empty)
                } else {
                    Ok(Self::of_bytes(&key))
                }
            }
        }
    }

    fn of_bytes(key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(key).expect("HMAC takes keys of any length"))
    }

    fn mac(&self, prefix: &[&[u8]], body: &[u8]) -> [u8; 32] {
        let mut mac = self.0.clone();
        for part in prefix {
            mac.update(part);
        }
        mac.update(body);
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Why a secret cannot be used. Never holds the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidSecret {
    /// Nothing, or nothing behind `whsec_`.
    #[error("the secret is empty")]
    Empty,
    /// White space or a control character, often a line break from a file.
    #[error("the secret holds white space or a control character")]
    Blank,
    /// The scheme wants base64, and this is none.
    #[error("the secret is not base64")]
    NotBase64,
}

/// A number of keys that cannot be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a source needs 1 to {MAX_KEYS} secrets, not {0}")]
pub struct InvalidKeys(pub usize);

/// Checks the signatures of one source: one scheme, one to eight keys, one tolerance.
#[derive(Debug, Clone)]
pub struct Verifier {
    scheme: Scheme,
    keys: Vec<SigningKey>,
    tolerance: UnixSeconds,
}

impl Verifier {
    /// A verifier that accepts timestamps up to `tolerance` seconds away from now, either way.
    pub fn new(scheme: Scheme, keys: Vec<SigningKey>, tolerance: UnixSeconds) -> Result<Self, InvalidKeys> {
        if keys.is_empty() || keys.len() > MAX_KEYS {
            return Err(InvalidKeys(keys.len()));
        }
        Ok(Self {
            scheme,
            keys,
            tolerance,
        })
    }

    /// The first half, before the body is read: are the headers there, well formed and fresh?
    ///
    /// `now` is taken once, when the headers arrive.
    pub fn read_claim(&self, headers: &HeaderMap, now: UnixSeconds) -> Result<Claim, Refusal> {
        let claim = claim::read(&self.scheme, headers)?;
        // Widened: neither a hostile timestamp nor an odd clock may wrap around.
        let age = i128::from(now) - i128::from(claim.timestamp());
        if age > i128::from(self.tolerance) {
            Err(Refusal::TooOld)
        } else if -age > i128::from(self.tolerance) {
            Err(Refusal::TooNew)
        } else {
            Ok(claim)
        }
    }

    /// The second half: does one of the signatures belong to these bytes under one of the keys?
    ///
    /// Every key is tried with every signature, so the time taken says nothing about which of them matched.
    pub fn verify(&self, claim: &Claim, body: Bytes) -> Result<Verified, Refusal> {
        let mut matched = Choice::from(0);
        let mut index = 0u64;
        for (i, key) in (0u64..).zip(&self.keys) {
            let expected = key.mac(&claim.prefix(), &body);
            let mut any = Choice::from(0);
            for signature in claim.signatures() {
                any |= expected.ct_eq(signature);
            }
            index.conditional_assign(&i, any & !matched);
            matched |= any;
        }
        if bool::from(matched) {
            let key = usize::try_from(index).expect("an index of at most eight keys");
            Ok(Verified { body, key })
        } else {
            Err(Refusal::NoMatch)
        }
    }
}

/// Bytes whose signature was right. Only [`Verifier::verify`] makes one.
#[derive(Debug, Clone)]
pub struct Verified {
    body: Bytes,
    key: usize,
}

impl Verified {
    /// The bytes as received.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The bytes as received.
    pub fn into_body(self) -> Bytes {
        self.body
    }

    /// Which of the verifier's keys matched, the first if several did: shows when a rotation may end.
    pub fn key_index(&self) -> usize {
        self.key
    }
}

/// Why a delivery was refused. All look the same from outside; the reason is for metrics only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[error("the signature was refused: {}", self.as_str())]
pub enum Refusal {
    /// A header of the scheme is missing.
    MissingHeader,
    /// The signature header is over [`MAX_HEADER_BYTES`].
    HeaderTooLong,
    /// A header that must stand once stands twice, is no ASCII, or holds an id outside the scheme's rules.
    MalformedHeader,
    /// The signature list holds no `t`.
    MissingTimestamp,
    /// The timestamp is no plain number of seconds.
    MalformedTimestamp,
    /// Two timestamps that differ.
    ConflictingTimestamps,
    /// Older than the tolerance.
    TooOld,
    /// Further ahead than the tolerance.
    TooNew,
    /// No signature of version 1.
    NoSignature,
    /// More than [`MAX_SIGNATURES`].
    TooManySignatures,
    /// No signature is that of these bytes under any key.
    NoMatch,
}

impl Refusal {
    /// All of them, for metrics that start at zero.
    pub const ALL: [Self; 11] = [
        Self::MissingHeader,
        Self::HeaderTooLong,
        Self::MalformedHeader,
        Self::MissingTimestamp,
        Self::MalformedTimestamp,
        Self::ConflictingTimestamps,
        Self::TooOld,
        Self::TooNew,
        Self::NoSignature,
        Self::TooManySignatures,
        Self::NoMatch,
    ];

    /// The stable name, for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MissingHeader => "missing_header",
            Self::HeaderTooLong => "header_too_long",
            Self::MalformedHeader => "malformed_header",
            Self::MissingTimestamp => "missing_timestamp",
            Self::MalformedTimestamp => "malformed_timestamp",
            Self::ConflictingTimestamps => "conflicting_timestamps",
            Self::TooOld => "timestamp_too_old",
            Self::TooNew => "timestamp_too_new",
            Self::NoSignature => "no_v1_signature",
            Self::TooManySignatures => "too_many_signatures",
            Self::NoMatch => "no_match",
        }
    }
}

/// Signatures in base64 are taken only in the one form a signer writes: padded, no stray bits.
const SIGNATURE_BASE64: GeneralPurpose = STANDARD;

mod header {
    //! Names that Standard Webhooks fixes.
    use http::HeaderName;

    pub(super) const ID: HeaderName = HeaderName::from_static("webhook-id");
    pub(super) const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
    pub(super) const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
}

fn header_value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("made of ASCII without control characters")
}

#[cfg(test)]
mod tests;
