//! What a string token says.

use std::borrow::Cow;

use thiserror::Error;

/// A string holds half of a surrogate pair: JSON can spell it, Unicode text cannot hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the string holds a lone surrogate")]
pub struct LoneSurrogate;

/// The value of a string token: its escapes resolved. Borrows when there are none.
pub fn unescape(raw: &str) -> Result<Cow<'_, str>, LoneSurrogate> {
    if memchr::memchr(b'\\', raw.as_bytes()).is_none() {
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

    /// What is not taken apart yet.
    pub fn rest(&self) -> &'t str {
        self.rest
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
