//! What `jsonb` can hold: a response is screened before it goes into a statement, so that one odd response never fails
//! the batch it is in.
//!
//! - A NUL or a lone surrogate in a string becomes U+FFFD: Postgres has no text for them. Valid pairs, and text that
//!   merely looks like such an escape, stay as they are.
//! - A response that is nested too deep, or that holds a number which is cheap to send and dear to read, is not kept.
//!   Its exact bytes are on the stream.

use std::borrow::Cow;
use std::fmt;

use schemas::json::{Piece, Pieces, Token, Tokens};

/// Objects and arrays inside each other. Postgres reads `jsonb` by recursion and gives up at some 14,000.
const MAX_DEPTH: usize = 512;
/// Postgres keeps a number as all its digits: `1e131071` takes 8 bytes to send and 64 KiB to read.
const MAX_EXPONENT: i64 = 400;
/// As sent, sign, point and exponent included.
const MAX_NUMBER_LENGTH: usize = 1_000;

const REPLACEMENT: &str = "\u{FFFD}";

/// What was not kept as sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// Characters that Postgres has no text for were replaced.
    CharactersReplaced,
    /// Not kept: nested too deep.
    TooDeep,
    /// Not kept: a number whose exponent is out of bounds.
    ExponentOutOfRange,
    /// Not kept: a number with too many digits.
    NumberTooLong,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CharactersReplaced => {
                f.write_str("response: NUL or unpaired surrogates replaced by U+FFFD")
            }
            Self::TooDeep => write!(f, "response not kept: nested deeper than {MAX_DEPTH}"),
            Self::ExponentOutOfRange => write!(
                f,
                "response not kept: a number with an exponent beyond {MAX_EXPONENT}"
            ),
            Self::NumberTooLong => write!(
                f,
                "response not kept: a number of more than {MAX_NUMBER_LENGTH} characters"
            ),
        }
    }
}

/// The text for `jsonb`, `None` when it cannot be kept, and what there is to say about it.
///
/// `json` must be valid JSON. Nearly always it comes back as it is, borrowed.
pub fn screen(json: &str) -> (Option<Cow<'_, str>>, Option<Problem>) {
    let mut depth = 0_usize;
    let mut rewrite = Rewrite::of(json);
    for token in Tokens::new(json) {
        match token {
            Token::BeginObject | Token::BeginArray => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return (None, Some(Problem::TooDeep));
                }
            }
            Token::EndObject | Token::EndArray => depth -= 1,
            Token::Key(raw) | Token::String(raw) => rewrite.string(raw),
            Token::Number(text) => {
                if let Err(problem) = number(text) {
                    return (None, Some(problem));
                }
            }
            Token::True | Token::False | Token::Null => {}
        }
    }
    rewrite.finish()
}

/// The text with what must go replaced; nothing is copied until there is something to replace.
struct Rewrite<'j> {
    json: &'j str,
    copied: usize,
    out: String,
}

impl<'j> Rewrite<'j> {
    fn of(json: &'j str) -> Self {
        Self {
            json,
            copied: 0,
            out: String::new(),
        }
    }

    /// Looks at the escapes of a string, `raw` being a part of the text.
    fn string(&mut self, raw: &'j str) {
        // What must go has no other spelling.
        if memchr::memmem::find(raw.as_bytes(), br"\u").is_none() {
            return;
        }
        let end = raw.as_ptr().addr() - self.json.as_ptr().addr() + raw.len();
        let mut pieces = Pieces::new(raw);
        let mut start = end - raw.len();
        while let Some(piece) = pieces.next() {
            let next = end - pieces.rest().len();
            if matches!(piece, Piece::LoneSurrogate | Piece::Char('\0')) {
                self.replace(start, next - start);
            }
            start = next;
        }
    }

    fn replace(&mut self, at: usize, length: usize) {
        self.out.push_str(&self.json[self.copied..at]);
        self.out.push_str(REPLACEMENT);
        self.copied = at + length;
    }

    fn finish(mut self) -> (Option<Cow<'j, str>>, Option<Problem>) {
        if self.copied == 0 {
            return (Some(Cow::Borrowed(self.json)), None);
        }
        self.out.push_str(&self.json[self.copied..]);
        (Some(Cow::Owned(self.out)), Some(Problem::CharactersReplaced))
    }
}

fn number(text: &str) -> Result<(), Problem> {
    if text.len() > MAX_NUMBER_LENGTH {
        return Err(Problem::NumberTooLong);
    }
    let Some((_, exponent)) = text.split_once(['e', 'E']) else {
        return Ok(());
    };
    match exponent.parse::<i64>() {
        Ok(exponent) if exponent.abs() <= MAX_EXPONENT => Ok(()),
        _ => Err(Problem::ExponentOutOfRange),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(json: &str) -> (String, Option<Problem>) {
        let (text, problem) = screen(json);
        (text.expect("it is kept").into_owned(), problem)
    }

    #[test]
    fn ordinary_text_is_borrowed_as_it_is() {
        for json in [
            r#"{"a":[1,-0,1.5e10,"\n\\ \" \u00e9 é 😀"],"b":null,"":true}"#,
            r#""\ud83d\ude00""#,
            r#""\\u0000 \\ud800""#,
            r#""\\\\u0000""#,
            "1e400",
            "-1E-400",
            "12345678901234567890123456789012345678901234567890",
        ] {
            let (text, problem) = screen(json);
            assert!(
                matches!(text, Some(Cow::Borrowed(same)) if same == json),
                "{json}"
            );
            assert_eq!(problem, None, "{json}");
        }
    }

    #[test]
    fn nul_and_lone_surrogates_become_the_replacement_character_in_values_and_keys() {
        for (json, expected) in [
            (r#""a\u0000b""#, "\"a\u{FFFD}b\""),
            (r#"{"k\u0000":"\ud800"}"#, "{\"k\u{FFFD}\":\"\u{FFFD}\"}"),
            (
                r#""\udc00\ud83d\ude00\uD83D""#,
                "\"\u{FFFD}\\ud83d\\ude00\u{FFFD}\"",
            ),
            (r#""\ud83d\ud83d\ude00""#, "\"\u{FFFD}\\ud83d\\ude00\""),
            (r#""\ud83d\u0041""#, "\"\u{FFFD}\\u0041\""),
            (r#""\ud83d\n""#, "\"\u{FFFD}\\n\""),
            (r#"["\\\u0000","x"]"#, "[\"\\\\\u{FFFD}\",\"x\"]"),
        ] {
            assert_eq!(
                kept(json),
                (expected.to_owned(), Some(Problem::CharactersReplaced)),
                "{json}"
            );
        }
    }

    #[test]
    fn what_cannot_be_kept_is_named() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(screen(&deep(MAX_DEPTH)).1, None);
        assert_eq!(screen(&deep(MAX_DEPTH + 1)), (None, Some(Problem::TooDeep)));
        assert_eq!(screen(&deep(1_000_000)), (None, Some(Problem::TooDeep)));
        for json in ["1e401", "-1E-401", "[1e+99999999999999999999]"] {
            assert_eq!(screen(json), (None, Some(Problem::ExponentOutOfRange)), "{json}");
        }
        let digits = |length: usize| "7".repeat(length);
        assert_eq!(screen(&digits(MAX_NUMBER_LENGTH)).1, None);
        assert_eq!(
            screen(&digits(MAX_NUMBER_LENGTH + 1)),
            (None, Some(Problem::NumberTooLong))
        );
    }

    #[test]
    fn depth_is_what_is_open_at_once() {
        let wide = format!("[{}0]", "[[]],".repeat(2_000));
        assert_eq!(screen(&wide).1, None);
    }
}
