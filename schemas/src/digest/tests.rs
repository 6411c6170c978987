use std::collections::BTreeMap;
use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::json::tests::value;

fn digest(text: &str) -> ResponseDigest {
    ResponseDigest::of(Some(serde_json::from_str(text).unwrap()))
}

fn sha256(text: &str) -> ResponseDigest {
    ResponseDigest::from_bytes(Sha256::digest(text).into())
}

/// The canonical form the plain way: recursive, from a tree.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let sorted: BTreeMap<&str, &Value> = object.iter().map(|(k, v)| (&**k, v)).collect();
            let member = |(key, value)| format!("{}:{}", Value::from(key), canonical(value));
            format!(
                "{{{}}}",
                sorted.into_iter().map(member).collect::<Vec<_>>().join(",")
            )
        }
        Value::Array(array) => format!("[{}]", array.iter().map(canonical).collect::<Vec<_>>().join(",")),
        scalar => scalar.to_string(),
    }
}

/// Spells the same value in another way: members in another order, space between tokens, needless escapes.
fn spell(value: &Value, seed: u64, out: &mut String) {
    let space = [" ", "\n\t", "", "\r\n "][usize::try_from(seed % 4).unwrap()];
    match value {
        Value::Object(object) => {
            out.push('{');
            let mut members: Vec<_> = object.iter().collect();
            let shift = usize::try_from(seed).unwrap_or(0) % members.len().max(1);
            members.rotate_left(shift);
            if seed.is_multiple_of(3) {
                members.reverse();
            }
            for (i, (key, value)) in members.into_iter().enumerate() {
                out.push_str(if i == 0 { space } else { "," });
                string(key, seed, out);
                write!(out, "{space}:{space}").unwrap();
                spell(value, seed.rotate_right(3) ^ 0x9E37, out);
            }
            write!(out, "{space}}}").unwrap();
        }
        Value::Array(array) => {
            out.push('[');
            for (i, value) in array.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { "," });
                out.push_str(space);
                spell(value, seed.rotate_right(5), out);
            }
            write!(out, "{space}]").unwrap();
        }
        Value::String(text) => string(text, seed, out),
        scalar => out.push_str(&scalar.to_string()),
    }
}

fn string(text: &str, seed: u64, out: &mut String) {
    if seed.is_multiple_of(2) {
        return out.push_str(&serde_json::to_string(text).unwrap());
    }
    out.push('"');
    for unit in text.encode_utf16() {
        match unit {
            0x2F if seed.is_multiple_of(5) => out.push_str("\\/"),
            unit if seed.is_multiple_of(7) => write!(out, "\\u{unit:04X}").unwrap(),
            unit => write!(out, "\\u{unit:04x}").unwrap(),
        }
    }
    out.push('"');
}

proptest! {
    #[test]
    fn every_spelling_of_a_value_has_the_digest_of_its_canonical_form(value in value(), seed in any::<u64>()) {
        let mut spelled = String::new();
        spell(&value, seed, &mut spelled);
        prop_assert_eq!(digest(&spelled), sha256(&canonical(&value)), "{}", spelled);
    }

    #[test]
    fn another_value_has_another_digest(a in value(), b in value()) {
        prop_assert_eq!(a == b, digest(&a.to_string()) == digest(&b.to_string()));
    }

    #[test]
    fn a_form_longer_than_what_is_gathered_is_hashed_whole(pieces in prop::collection::vec(0..9000usize, 1..6)) {
        let values: Vec<Value> = pieces.iter().map(|len| Value::from("x".repeat(*len))).collect();
        let text = Value::from(values).to_string();
        prop_assert_eq!(digest(&text), sha256(&text));
    }
}

#[test]
fn nothing_and_null_are_not_the_same() {
    assert_eq!(ResponseDigest::of(None), sha256(""));
    assert_eq!(digest("null"), sha256("null"));
}

#[test]
fn the_form_is_the_documented_one() {
    for (sent, form) in [
        (r#"{ "b": 1, "a": [true, null] }"#, r#"{"a":[true,null],"b":1}"#),
        (
            r#""\u00e9\/\u0041\u0009\u001F\"\\\u007f""#,
            "\"é/A\\t\\u001f\\\"\\\\\u{7f}\"",
        ),
        (r#"{"\ud83d\ude00":0,"\uffff":0}"#, "{\"\u{ffff}\":0,\"😀\":0}"),
        (r#"{"a\nb":{},"a":[]}"#, r#"{"a":[],"a\nb":{}}"#),
        (r#""a\/b""#, r#""a/b""#),
        (r#"{"\/":0,"\"":0}"#, r#"{"\"":0,"/":0}"#),
        ("1.0", "1.0"),
    ] {
        assert_eq!(digest(sent), sha256(form), "{sent}");
    }
}

#[test]
fn numbers_count_by_their_text() {
    let spellings = [
        "1",
        "1.0",
        "1e0",
        "1E0",
        "10e-1",
        "-0",
        "0",
        "1e400",
        "123456789012345678901234567890",
    ];
    for a in spellings {
        for b in spellings {
            assert_eq!(digest(a) == digest(b), a == b, "{a} {b}");
        }
    }
}

#[test]
fn without_a_canonical_form_the_bytes_as_sent_count() {
    let deep = |depth: usize| format!("{} 1{}", "[".repeat(depth), "]".repeat(depth));
    for raw in [
        r#"{ "a":1, "a":2 }"#,
        r#"{ "a":1, "\u0061":2 }"#,
        r#"[ {"b":1, "a":{"x":1, "y":2, "x":3}} ]"#,
        r#"[ "\ud83d" ]"#,
        r#"{ "\ude00": 1 }"#,
        &deep(MAX_DEPTH + 1),
        &deep(1_000_000),
    ] {
        let response: &RawValue = serde_json::from_str(raw).unwrap();
        assert_eq!(ResponseDigest::of(Some(response)), sha256(raw), "{:.60}", raw);
    }
    let deepest = deep(MAX_DEPTH);
    let response: &RawValue = serde_json::from_str(&deepest).unwrap();
    assert_eq!(
        ResponseDigest::of(Some(response)),
        sha256(&deepest.replace(' ', ""))
    );
}

#[test]
fn it_prints_as_hex_and_survives_its_bytes() {
    let digest = digest("null");
    assert_eq!(digest.to_string(), hex::encode(digest.as_bytes()));
    assert_eq!(ResponseDigest::from_bytes(*digest.as_bytes()), digest);
}
