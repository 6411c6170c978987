use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// Rebuilds a tree from tokens, to hold them against the parser.
fn tree(tokens: &mut Tokens<'_>, first: Token<'_>) -> Value {
    let text = |raw| unescape(raw).unwrap().into_owned();
    match first {
        Token::BeginObject => {
            let mut object = serde_json::Map::new();
            loop {
                match tokens.next().unwrap() {
                    Token::EndObject => return Value::Object(object),
                    Token::Key(key) => {
                        let value = tokens.next().unwrap();
                        object.insert(text(key), tree(tokens, value));
                    }
                    other => panic!("{other:?} where a key is due"),
                }
            }
        }
        Token::BeginArray => {
            let mut array = Vec::new();
            loop {
                match tokens.next().unwrap() {
                    Token::EndArray => return Value::Array(array),
                    value => array.push(tree(tokens, value)),
                }
            }
        }
        Token::String(raw) => Value::String(text(raw)),
        Token::Number(number) => number.parse::<serde_json::Number>().map(Value::Number).unwrap(),
        Token::True => Value::Bool(true),
        Token::False => Value::Bool(false),
        Token::Null => Value::Null,
        end @ (Token::Key(_) | Token::EndObject | Token::EndArray) => panic!("{end:?} where a value is due"),
    }
}

/// Any JSON value, with numbers that survive a parser.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        any::<String>().prop_map(Value::from),
    ];
    scalar.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn tokens_say_what_the_parser_says(value in value(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let text = text.unwrap();
        let mut tokens = Tokens::new(&text);
        let first = tokens.next().unwrap();
        prop_assert_eq!(tree(&mut tokens, first), value);
        prop_assert_eq!(tokens.next(), None);
    }

    #[test]
    fn spans_hold_the_text_of_their_tokens(value in value()) {
        let text = serde_json::to_string_pretty(&value).unwrap();
        let mut tokens = Tokens::new(&text);
        let mut between = String::new();
        let mut at = 0;
        while let Some((span, token)) = tokens.next_with_span() {
            between.push_str(&text[at..span.start]);
            at = span.end;
            let piece = &text[span];
            match token {
                Token::Key(raw) | Token::String(raw) => prop_assert_eq!(piece, format!("\"{raw}\"")),
                Token::Number(number) => prop_assert_eq!(piece, number),
                _ => {}
            }
        }
        between.push_str(&text[at..]);
        prop_assert!(between.chars().all(|c| " \n,:".contains(c)), "{:?}", between);
    }

    #[test]
    fn unescaping_agrees_with_the_parser(escapes in "([a-zé😀]|\\\\[\"\\\\/bfnrt]|\\\\u[0-9a-fA-F]{4}){0,12}") {
        let parsed: Option<String> = serde_json::from_str(&format!("\"{escapes}\"")).ok();
        let ours = unescape(&escapes).ok();
        prop_assert_eq!(ours.as_deref(), parsed.as_deref());
    }

    #[test]
    fn text_that_is_no_json_ends_without_panic(text in any::<String>(), odd in "[\\[\\]{}\",:\\\\u0-9aé ]{0,40}") {
        for text in [text, odd] {
            // Each token takes at least a byte.
            prop_assert!(Tokens::new(&text).count() <= text.len());
            prop_assert!(Pieces::new(&text).count() <= text.len());
        }
    }
}

#[test]
fn depth_costs_no_stack() {
    const DEPTH: usize = 1_000_000;
    let text = format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
    assert_eq!(Tokens::new(&text).count(), 2 * DEPTH);
}

#[test]
fn surrogate_pairs_are_one_character_and_halves_are_none() {
    assert_eq!(unescape(r"\ud83d\ude00").as_deref(), Ok("😀"));
    for half in [
        r"\ud83d",
        r"\ude00",
        r"\ude00\ud83d",
        r"\ud83dx",
        r"\ud83d\n",
        r"\ud83dA",
        r"\ud83d\ud83d",
    ] {
        assert_eq!(unescape(half), Err(LoneSurrogate), "{half}");
    }
    let halves = Pieces::new(r"\ude00\ude00").filter(|piece| *piece == Piece::LoneSurrogate);
    assert_eq!(halves.count(), 2);
    let pieces: Vec<Piece<'_>> = Pieces::new(r"a\ud83d\u0041").collect();
    assert_eq!(pieces, [Piece::Text("a"), Piece::LoneSurrogate, Piece::Char('A')]);
}

#[test]
fn members_keep_their_values_as_they_stand() {
    let members: Members<'_> =
        serde_json::from_str(r#"{ "a" : 1E+2 , "\u0062" : [ 1,2 ], "\ud800": -0 }"#).unwrap();
    assert_eq!(members.get("a").unwrap().get(), "1E+2");
    assert_eq!(members.get("b").unwrap().get(), "[ 1,2 ]");
    assert!(members.get("c").is_none());
    assert!(!members.has_duplicates());
}

#[test]
fn a_key_twice_is_found_in_any_spelling_and_number() {
    let duplicates = |text: &str| {
        serde_json::from_str::<Members<'_>>(text)
            .unwrap()
            .has_duplicates()
    };
    assert!(duplicates(r#"{"id":1,"id":1}"#));
    assert!(duplicates(r#"{"id":1,"\u0069d":1}"#));
    assert!(duplicates(r#"{"\ud800":1,"\uD800":1}"#));
    assert!(!duplicates(r#"{"id":1,"Id":1,"\ud800":1,"\ud801":1}"#));
    for len in [2, 16, 17, 500] {
        let keys: Vec<String> = (0..len).map(|i| format!("\"k{i}\":{i}")).collect();
        assert!(!duplicates(&format!("{{{}}}", keys.join(","))));
        assert!(duplicates(&format!("{{{},\"k0\":0}}", keys.join(","))), "{len}");
        assert!(
            duplicates(&format!("{{\"k{}\":0,{}}}", len - 1, keys.join(","))),
            "{len}"
        );
    }
}
