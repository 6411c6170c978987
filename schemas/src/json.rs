//! Tokens of a text that is already known to be valid JSON.
//!
//! A parser that builds a tree changes what it reads: big numbers lose digits, the last of two equal keys
//! wins, and deep nesting is refused or overflows the stack. What needs the exact text reads tokens instead:
//! one pass, no recursion and no allocation, however deep a body is nested.

use std::ops::Range;

mod members;
mod string;

pub(crate) use members::Members;
pub use string::{LoneSurrogate, Piece, Pieces, unescape};

/// One token. Strings are given as they stand between their quotes, escapes and all: see [`unescape`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'t> {
    /// `{`
    BeginObject,
    /// `}`
    EndObject,
    /// `[`
    BeginArray,
    /// `]`
    EndArray,
    /// A member's name.
    Key(&'t str),
    /// A string that is a value.
    String(&'t str),
    /// A number, by its text.
    Number(&'t str),
    /// `true`
    True,
    /// `false`
    False,
    /// `null`
    Null,
}

/// The tokens of a valid JSON text, in order. Commas and colons are left out.
///
/// On a text that is not valid JSON the tokens mean nothing, but it still ends and never panics.
#[derive(Debug, Clone)]
pub struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Tokens<'t> {
    /// Reads `text`, which must be valid JSON, such as that of a [`RawValue`](serde_json::value::RawValue).
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// The next token and where in the text it stands, the quotes of a string included.
    pub fn next_with_span(&mut self) -> Option<(Range<usize>, Token<'t>)> {
        let bytes = self.text.as_bytes();
        while matches!(
            bytes.get(self.at),
            Some(b' ' | b'\t' | b'\n' | b'\r' | b',' | b':')
        ) {
            self.at += 1;
        }
        let start = self.at;
        let first = *bytes.get(start)?;
        self.at += 1;
        let token = match first {
            b'{' => Token::BeginObject,
            b'}' => Token::EndObject,
            b'[' => Token::BeginArray,
            b']' => Token::EndArray,
            b'"' => {
                let end = self.string_end();
                let raw = self.text.get(self.at..end)?;
                self.at = (end + 1).min(bytes.len());
                // In valid JSON a colon follows a string exactly where it is a key.
                let follows = bytes[self.at..].iter().find(|b| !b" \t\n\r".contains(b));
                if follows == Some(&b':') {
                    Token::Key(raw)
                } else {
                    Token::String(raw)
                }
            }
            _ => {
                let rest = &bytes[self.at..];
                self.at += rest
                    .iter()
                    .take_while(|b| b.is_ascii_alphanumeric() || b"+-.".contains(b))
                    .count();
                match first {
                    b't' => Token::True,
                    b'f' => Token::False,
                    b'n' => Token::Null,
                    _ => Token::Number(self.text.get(start..self.at)?),
                }
            }
        };
        Some((start..self.at, token))
    }

    /// Where the string ends that begins at `self.at`, behind its opening quote.
    fn string_end(&self) -> usize {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        while let Some(found) = bytes
            .get(at..)
            .and_then(|rest| memchr::memchr2(b'"', b'\\', rest))
        {
            at += found;
            if bytes[at] == b'"' {
                return at;
            }
            at += 2; // the backslash and what it escapes
        }
        bytes.len()
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = Token<'t>;

    fn next(&mut self) -> Option<Token<'t>> {
        self.next_with_span().map(|(_, token)| token)
    }
}

#[cfg(test)]
pub(crate) mod tests;
