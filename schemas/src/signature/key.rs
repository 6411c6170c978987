//! From a secret to the key of the MAC.

use std::fmt;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use thiserror::Error;

/// How the text of a secret becomes the key of the MAC. The same text gives different keys: mixing them up is
/// the most likely fault of a new installation.
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
    /// Makes a key from the text of a secret. The final line break of a file must have been removed.
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

    pub(super) fn mac(&self, prefix: &[&[u8]], body: &[u8]) -> [u8; 32] {
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
    /// The encoding is base64, and this is not.
    #[error("the secret is not base64")]
    NotBase64,
}
