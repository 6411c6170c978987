//! `delivery.schema.json` accepts what [`delivery::read`] accepts and refuses what it refuses, but where the schema says
//! that it cannot.

#![cfg(test)] // for clippy: what is allowed in tests is allowed in their helpers too

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jsonschema::Validator;
use proptest::prelude::*;
use proptest::sample::select;
use schemas::delivery::{self, Delivery, FinalStatus, Unreadable};
use schemas::documents::{Document, Documents};
use serde_json::{Value, json};

/// The whole schema, and the parts of it that describe one kind of body each.
struct Schema {
    whole: Validator,
    kinds: [(&'static str, Validator); 4],
}

impl Schema {
    fn load() -> Self {
        let documents = Documents::load();
        let of = |pointer: &str| documents.validator(Document::Delivery, pointer);
        Self {
            whole: of(""),
            kinds: ["test", "completed", "failed", "nonFinal"]
                .map(|kind| (kind, of(&format!("/$defs/{kind}")))),
        }
    }

    /// Which kind a body is; None when it is none.
    fn kind(&self, body: &Value) -> Option<&'static str> {
        let kinds: Vec<_> = self
            .kinds
            .iter()
            .filter(|(_, kind)| kind.is_valid(body))
            .map(|(name, _)| *name)
            .collect();
        assert!(kinds.len() < 2, "{kinds:?}: {body}");
        assert_eq!(self.whole.is_valid(body), !kinds.is_empty(), "{body}");
        kinds.first().copied()
    }
}

/// What the reader makes of a body, in the words of the schema.
fn read(body: &[u8]) -> Result<&'static str, Unreadable> {
    delivery::read(body).map(|delivery| match delivery {
        Delivery::Test => "test",
        Delivery::Result(result) => match result.status {
            FinalStatus::Completed => "completed",
            FinalStatus::Failed => "failed",
        },
        Delivery::NonFinal { .. } => "nonFinal",
    })
}

/// Whether schema and reader agree on a body, or why they need not.
fn agree(schema: &Schema, body: &[u8]) -> Result<(), &'static str> {
    let read = read(body);
    let value: Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(_) if read.is_ok() => return Err("this parser cannot hold what the reader takes"),
        Err(_) => return Err("not one JSON text"),
    };
    match (read, schema.kind(&value)) {
        (Ok(read), Some(kind)) if read == kind => Ok(()),
        (Err(_), None) => Ok(()),
        (Err(Unreadable::DuplicateKey), Some(_)) => Err("a key twice"),
        (Err(Unreadable::BadTaskId), Some(_)) if value["task"]["id"].as_str().unwrap().len() > 1024 => {
            Err("bytes are not characters")
        }
        (read, kind) => panic!("reader {read:?}, schema {kind:?}: {value}"),
    }
}

#[test]
fn every_body_of_the_vectors_is_to_the_schema_what_it_is_to_the_reader() {
    let vectors: Value = serde_json::from_str(include_str!("../fixtures/vectors.json")).unwrap();
    let schema = Schema::load();
    let mut exceptions = BTreeSet::new();
    let mut agreed = 0;
    for group in ["samples", "vectors"] {
        for vector in vectors[group].as_array().unwrap() {
            let body = match (
                vector["body"].as_str().or(vector["payload"].as_str()),
                &vector["payload_b64"],
            ) {
                (Some(text), Value::Null) => text.as_bytes().to_vec(),
                (None, Value::String(encoded)) => BASE64.decode(encoded).unwrap(),
                _ => panic!("no body: {vector}"),
            };
            match agree(&schema, &body) {
                Ok(()) => agreed += 1,
                Err(exception) => {
                    exceptions.insert(exception);
                }
            }
        }
    }
    assert!(agreed > 60, "{agreed}");
    assert!(exceptions.contains("not one JSON text"), "{exceptions:?}");
}

#[test]
fn where_they_differ_it_is_as_the_schema_says() {
    let schema = Schema::load();
    let task = |id: &str, more: &str| format!(r#"{{"task":{{"id":"{id}","status":"FAILED"{more}}}}}"#);
    for (body, exception) in [
        (task("t", r#","id":"t""#), "a key twice"),
        (task(&"é".repeat(513), ""), "bytes are not characters"),
        (format!("\u{FEFF}{}", task("t", "")), "not one JSON text"),
        (
            task("t", r#","x":"\ud800""#),
            "this parser cannot hold what the reader takes",
        ),
        (
            task("t", r#","x":1e999"#),
            "this parser cannot hold what the reader takes",
        ),
        (
            task("t", &format!(r#","x":{}1{}"#, "[".repeat(500), "]".repeat(500))),
            "this parser cannot hold what the reader takes",
        ),
    ] {
        assert_eq!(agree(&schema, body.as_bytes()), Err(exception), "{body:.100}");
    }
    assert_eq!(agree(&schema, task(&"é".repeat(512), "").as_bytes()), Ok(()));
    assert_eq!(agree(&schema, task(&"x".repeat(1025), "").as_bytes()), Ok(()));
}

/// A member that may be missing.
fn member(values: Vec<Value>) -> impl Strategy<Value = Option<Value>> {
    prop::option::weighted(0.9, select(values))
}

fn task() -> impl Strategy<Value = Value> {
    let texts = [
        "",
        " ",
        "t",
        "a/b",
        "é\u{301}",
        "a\u{0}",
        "\u{7f}",
        "\u{85}",
        "\u{a0}",
        "COMPLETED",
        "FAILED",
        "QUEUED",
        "failed",
    ];
    let others = [
        json!(null),
        json!(0),
        json!(1.5),
        json!(true),
        json!([]),
        json!(["t"]),
        json!({}),
    ];
    let any: Vec<Value> = texts.map(Value::from).into_iter().chain(others).collect();
    (
        prop_oneof![3 => member(vec!["t".into()]), 1 => member(any.clone())],
        prop_oneof![3 => member(vec!["COMPLETED".into(), "FAILED".into(), "QUEUED".into()]), 1 => member(any.clone())],
        member(any.clone()),
        member(any),
    )
        .prop_map(|(id, status, key, created_at)| {
            let members = [("id", id), ("status", status), ("idempotencyKey", key), ("createdAt", created_at)];
            object(members)
        })
}

fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    members
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn generated_bodies_are_to_the_schema_what_they_are_to_the_reader(
        test in prop_oneof![
            3 => Just(None),
            2 => member(vec![json!(true), json!(false), json!(null), json!("true"), json!(1), json!([]), json!({})]),
        ],
        task in prop::option::weighted(0.95, prop_oneof![
            8 => task(),
            1 => select(vec![json!(null), json!([]), json!(["t", "FAILED"]), json!("t"), json!(7), json!(false)]),
        ]),
        response in member(vec![json!(null), json!({}), json!("text"), json!([1])]),
        wrapped in prop::bool::weighted(0.02),
    ) {
        thread_local!(static SCHEMA: Schema = Schema::load());
        let body = object([("test", test), ("task", task), ("response", response)]);
        let body = if wrapped { json!([body]) } else { body };
        let agreed = SCHEMA.with(|schema| agree(schema, body.to_string().as_bytes()));
        prop_assert_eq!(agreed, Ok(()));
    }
}
