//! Tokens of a text that is already known to be valid JSON.
//!
//! A parser that builds a tree changes what it reads: big numbers lose digits, the last of two equal keys
//! wins, and deep nesting is refused or overflows the stack. What needs the exact text reads tokens instead:
//! one pass, no recursion and no allocation, however deep a body is nested.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use thiserror::Error;

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
    /// Reads `text`, which must be valid JSON, such as that of a [`RawValue`].
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

/// A string holds half of a surrogate pair: JSON can spell it, Unicode text cannot hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the string holds a lone surrogate")]
pub struct LoneSurrogate;

/// The value of a string token: its escapes resolved. Borrows when there are none.
pub fn unescape(raw: &str) -> Result<Cow<'_, str>, LoneSurrogate> {
    if !raw.contains('\\') {
        return Ok(Cow::Borrowed(raw));
    }
    let mut value = String::with_capacity(raw.len());
    for piece in Pieces::new(raw) {
        match piece {
            Piece::Text(text) => value.push_str(text),
            Piece::Char(c) => value.push(c),
            Piece::LoneSurrogate => return Err(LoneSurrogate),
        }
    }
    Ok(Cow::Owned(value))
}

/// A part of a string token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'t> {
    /// Text without escapes, never empty.
    Text(&'t str),
    /// What one escape, or one escaped surrogate pair, stands for.
    Char(char),
    /// A `\u` escape that is half of a pair.
    LoneSurrogate,
}

/// The parts of a string token, in order: plain text and escapes.
#[derive(Debug, Clone)]
pub struct Pieces<'t> {
    rest: &'t str,
}

impl<'t> Pieces<'t> {
    /// Takes a string token apart: `raw` is what stands between the quotes.
    pub fn new(raw: &'t str) -> Self {
        Self { rest: raw }
    }

    fn code_unit(&self) -> Option<u32> {
        let digits = self.rest.strip_prefix("\\u")?.get(..4)?;
        u32::from_str_radix(digits, 16).ok()
    }

    fn escape(&mut self) -> Piece<'t> {
        let Some(unit) = self.code_unit() else {
            let escaped = self.rest[1..].chars().next();
            self.rest = &self.rest[1 + escaped.map_or(0, char::len_utf8)..];
            return Piece::Char(match escaped {
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some(itself) => itself,
                None => '\\',
            });
        };
        self.rest = &self.rest[6..];
        if let Some(c) = char::from_u32(unit) {
            return Piece::Char(c);
        }
        match self.code_unit() {
            Some(low @ 0xDC00..=0xDFFF) if unit < 0xDC00 => {
                self.rest = &self.rest[6..];
                let pair = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                char::from_u32(pair).map_or(Piece::LoneSurrogate, Piece::Char)
            }
            _ => Piece::LoneSurrogate,
        }
    }
}

impl<'t> Iterator for Pieces<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        if self.rest.is_empty() {
            return None;
        }
        match self.rest.find('\\') {
            Some(0) => Some(self.escape()),
            end => {
                let (text, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                self.rest = rest;
                Some(Piece::Text(text))
            }
        }
    }
}

/// The members of one object, in order: keys with their escapes resolved, values untouched.
///
/// Values are skipped without recursion. Keys are bytes, because a key may hold lone surrogates (which come
/// out in their three-byte form, no valid UTF-8 and so unequal to every key that anyone looks for).
pub(crate) struct Members<'t>(Vec<(Cow<'t, [u8]>, &'t RawValue)>);

impl<'t> Members<'t> {
    /// The value of the member called `key`; the first one, should there be several.
    pub(crate) fn get(&self, key: &str) -> Option<&'t RawValue> {
        let found = self.0.iter().find(|(k, _)| **k == *key.as_bytes());
        found.map(|(_, value)| *value)
    }

    /// Whether a key occurs twice, in whatever spelling.
    pub(crate) fn has_duplicates(&self) -> bool {
        // Pairwise is cheapest for the few members that real bodies have.
        if self.0.len() <= 16 {
            let rest = |i| self.0.iter().skip(i + 1);
            return self
                .0
                .iter()
                .enumerate()
                .any(|(i, (a, _))| rest(i).any(|(b, _)| a == b));
        }
        let mut keys: Vec<&[u8]> = self.0.iter().map(|(key, _)| &**key).collect();
        keys.sort_unstable();
        keys.windows(2).any(|pair| pair[0] == pair[1])
    }
}

impl<'t> Deserialize<'t> for Members<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'t> Visitor<'t> for Object {
            type Value = Members<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Members<'t>, A::Error> {
                let mut members = Vec::with_capacity(8);
                while let Some(Key(key)) = map.next_key()? {
                    members.push((key, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// A member's name as bytes: as a `str`, one lone surrogate in any key would fail the whole text.
struct Key<'t>(Cow<'t, [u8]>);

impl<'t> Deserialize<'t> for Key<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl<'t> Visitor<'t> for Bytes {
            type Value = Key<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member's name")
            }

            fn visit_borrowed_bytes<E>(self, bytes: &'t [u8]) -> Result<Key<'t>, E> {
                Ok(Key(Cow::Borrowed(bytes)))
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Key<'t>, E> {
                Ok(Key(Cow::Owned(bytes.to_vec())))
            }
        }
        deserializer.deserialize_bytes(Bytes)
    }
}
