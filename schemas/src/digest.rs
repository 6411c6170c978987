//! The response digest: are two bodies the same result?
//!
//! Push and poll may spell one result differently, so results are compared in a canonical form: a JSON text
//! without insignificant space, members sorted by the UTF-8 bytes of their keys, strings with the fewest escapes
//! (`\"`, `\\`, `\b \f \n \r \t`, other characters below U+0020 as `\u00xx`), numbers exactly as sent. Python
//! writes it with `json.dumps(x, sort_keys=True, separators=(",", ":"), ensure_ascii=False)`, numbers aside.
//!
//! Where that form does not exist (half of a surrogate pair, a key twice in one object, deeper than
//! [`MAX_DEPTH`]) the bytes as sent are hashed.

use std::fmt;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

mod canonical;
mod outline;

pub use outline::MAX_DEPTH;

/// SHA-256 of a `response` in canonical form; of the empty string when there is none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResponseDigest([u8; 32]);

impl ResponseDigest {
    /// The digest of a response.
    pub fn of(response: Option<&RawValue>) -> Self {
        let text = response.map_or("", RawValue::get);
        match outline::Outline::read(text) {
            Some(outline) => Self(canonical::hash(&outline)),
            None => Self(Sha256::digest(text).into()),
        }
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A digest that was computed before.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for ResponseDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Lower-case hex.
impl fmt::Display for ResponseDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

#[cfg(test)]
mod tests;
