//! Webhook signatures: three schemes, signing and verifying.
//!
//! One scheme and one set of keys belong to one source; nothing is ever guessed from a request. Checking has
//! two halves, so that a hopeless request is refused before its body is read: [`Verifier::read_claim`] looks
//! at the headers alone, [`Verifier::verify`] at the bytes. Nothing parses a body before its signature is
//! right: the only way to [`Verified`] bytes is through here.

use base64::engine::general_purpose::{GeneralPurpose, STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use thiserror::Error;

mod claim;
mod key;
mod refusal;
mod sign;

pub use claim::Claim;
pub use key::{InvalidSecret, KeyEncoding, SigningKey};
pub use refusal::Refusal;
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

/// Signatures in base64 are taken only in the one form a signer writes: padded, no stray bits.
const SIGNATURE_BASE64: GeneralPurpose = STANDARD;

mod header {
    //! Names that Standard Webhooks fixes.
    use http::HeaderName;

    pub(super) const ID: HeaderName = HeaderName::from_static("webhook-id");
    pub(super) const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
    pub(super) const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
}

#[cfg(test)]
mod tests;
