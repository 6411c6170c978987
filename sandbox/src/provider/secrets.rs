//! The secrets that deliveries are signed with, and when each is valid.

use rand::Rng;
use rand::distr::Alphanumeric;
use schemas::signature::{InvalidSecret, KeyEncoding, SigningKey};
use time::OffsetDateTime;

use crate::seed::Seed;

/// A signing secret as its owner sees it. Its `Debug` shows no text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    text: String,
    encoding: KeyEncoding,
}

impl Secret {
    /// The secret `text`; `encoding` says how it becomes a key.
    pub fn new(text: impl Into<String>, encoding: KeyEncoding) -> Result<Self, InvalidSecret> {
        let text = text.into();
        SigningKey::new(&text, encoding)?;
        Ok(Self { text, encoding })
    }

    /// Secret number `number` of a run: `whsec_` and 32 letters and digits, which is a key in either encoding.
    pub fn generate(seed: Seed, number: u64) -> Self {
        let letters = seed
            .rng("secret", number)
            .sample_iter(Alphanumeric)
            .take(32)
            .map(char::from);
        Self {
            text: format!("whsec_{}", letters.collect::<String>()),
            encoding: KeyEncoding::Literal,
        }
    }

    /// The text to give to a receiver.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The key to sign with.
    pub fn key(&self) -> SigningKey {
        SigningKey::new(&self.text, self.encoding).expect("the text was checked when the secret was made")
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret")
            .field("text", &"…")
            .field("encoding", &self.encoding)
            .finish()
    }
}

/// The secrets of one account. One at least is valid at any time.
#[derive(Debug)]
pub struct Secrets {
    newest: Secret,
    /// Replaced secrets, each with the time from which it is no longer valid.
    replaced: Vec<(Secret, OffsetDateTime)>,
}

impl Secrets {
    /// An account with one secret.
    pub fn new(secret: Secret) -> Self {
        Self {
            newest: secret,
            replaced: Vec::new(),
        }
    }

    /// Makes `secret` the newest. The one before stays valid until `old_until`, and both sign till then.
    pub fn rotate(&mut self, secret: Secret, old_until: OffsetDateTime) {
        let old = std::mem::replace(&mut self.newest, secret);
        self.replaced.push((old, old_until));
    }

    /// Ends the validity of every replaced secret at `now`.
    pub fn retire_replaced(&mut self, now: OffsetDateTime) {
        for (_, until) in &mut self.replaced {
            *until = now.min(*until);
        }
    }

    /// The keys valid at `now`, newest first.
    pub fn valid_at(&self, now: OffsetDateTime) -> Vec<SigningKey> {
        let old = self
            .replaced
            .iter()
            .rev()
            .filter(|(_, until)| now < *until)
            .map(|(secret, _)| secret);
        std::iter::once(&self.newest)
            .chain(old)
            .map(Secret::key)
            .collect()
    }
}
