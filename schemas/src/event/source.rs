//! The CloudEvents source.

use thiserror::Error;

use super::percent::encode_attribute;

/// The CloudEvents source: which provider account the events speak of. With the event's id it is unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    text: String,
    header: String,
}

impl Source {
    /// The default source.
    pub const DEFAULT: &str = "urn:answerline";

    /// Takes a URI reference: not empty, and of the characters that one is made of.
    pub fn new(text: &str) -> Result<Self, InvalidSource> {
        let in_uri = |b: u8| b.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&b);
        if text.is_empty() || text.len() > 256 || !text.bytes().all(in_uri) {
            return Err(InvalidSource);
        }
        Ok(Self {
            text: text.to_owned(),
            header: encode_attribute(text).into_owned(),
        })
    }

    /// The source itself.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// As written in the header.
    pub(super) fn header(&self) -> &str {
        &self.header
    }
}

impl Default for Source {
    fn default() -> Self {
        Self::new(Self::DEFAULT).expect("the default is a URI")
    }
}

/// Why a text cannot be a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a source is a URI reference of 1 to 256 characters")]
pub struct InvalidSource;
