//! The published documents are what their official schemas ask for, refer to nothing that is not there, and hold examples
//! that are true.

#![cfg(test)] // for clippy: what is allowed in tests is allowed in their helpers too

use std::collections::BTreeSet;

use jsonschema::{Draft, Registry, Validator};
use proptest::prelude::*;
use schemas::delivery::Unreadable;
use schemas::documents::{Difference, Document, Documents, Route};
use schemas::event::{Event, Fact, Kind, Source, Subjects, Trace, Via, check_result, classify, header};
use serde_json::{Value, json};

const JSON_SCHEMA: &str = "https://json-schema.org/draft/2020-12/schema";

fn asyncapi_schema() -> Validator {
    let schema: Value = serde_json::from_str(include_str!("../fixtures/meta/asyncapi-3.1.0.json")).unwrap();
    jsonschema::options().offline().build(&schema).unwrap()
}

/// The official schema leaves the schemas inside a document to the dialect that the document names.
fn openapi_schema() -> Validator {
    let schema: Value = serde_json::from_str(include_str!("../fixtures/meta/openapi-3.1.json")).unwrap();
    let id = schema["$id"].as_str().unwrap().to_owned();
    let registry = Registry::new()
        .add(&id, Draft::Draft202012.create_resource(schema))
        .unwrap()
        .prepare()
        .unwrap();
    let with_dialect = json!({
        "$schema": JSON_SCHEMA,
        "$id": "file:///openapi-with-its-dialect",
        "$ref": id,
        "properties": { "jsonSchemaDialect": { "const": JSON_SCHEMA } },
        "required": ["jsonSchemaDialect"],
        "$defs": { "dialect": { "$dynamicAnchor": "meta", "$ref": JSON_SCHEMA } },
    });
    jsonschema::options()
        .with_registry(&registry)
        .offline()
        .build(&with_dialect)
        .unwrap()
}

fn errors(validator: &Validator, document: &Value) -> Vec<String> {
    let errors = validator.iter_errors(document);
    errors
        .map(|error| format!("{}: {:.200}", error.instance_path(), error.to_string()))
        .collect()
}

/// The document with another value at `pointer`.
fn with(document: &Value, pointer: &str, value: Value) -> Value {
    let mut changed = document.clone();
    *changed.pointer_mut(pointer).expect(pointer) = value;
    changed
}

#[test]
fn the_delivery_schema_is_json_schema_2020_12() {
    let documents = Documents::load();
    let delivery = documents.get(Document::Delivery);
    assert_eq!(delivery["$schema"], JSON_SCHEMA);
    jsonschema::draft202012::meta::validate(delivery).unwrap();
    let spoilt = with(delivery, "/$defs/taskId/type", json!("text"));
    assert!(!jsonschema::draft202012::meta::is_valid(&spoilt));
}

#[test]
fn the_events_are_described_in_asyncapi_3_1() {
    let (documents, schema) = (Documents::load(), asyncapi_schema());
    let asyncapi = documents.get(Document::AsyncApi);
    assert_eq!(asyncapi["asyncapi"], "3.1.0");
    assert_eq!(errors(&schema, asyncapi), [""; 0]);
    for (pointer, value) in [
        ("/info/version", json!(null)),
        ("/operations/recordFailed/action", json!("publish")),
        ("/components/schemas/eventHeaders/type", json!("map")),
        ("/components/messages/completed/contentType", json!(7)),
    ] {
        assert_ne!(
            errors(&schema, &with(asyncapi, pointer, value)),
            [""; 0],
            "{pointer}"
        );
    }
}

#[test]
fn requests_and_answers_are_described_in_openapi_3_1() {
    let (documents, schema) = (Documents::load(), openapi_schema());
    let openapi = documents.get(Document::OpenApi);
    assert_eq!(errors(&schema, openapi), [""; 0]);
    for (pointer, value) in [
        ("/info/version", json!(null)),
        ("/paths/~1livez/get/responses", json!({ "ok": {} })),
        ("/components/schemas/problem/properties/title/type", json!("text")),
        ("/components/parameters/signature/in", json!("body")),
    ] {
        assert_ne!(
            errors(&schema, &with(openapi, pointer, value)),
            [""; 0],
            "{pointer}"
        );
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let documents = Documents::load();
    for document in [Document::Delivery, Document::AsyncApi, Document::OpenApi] {
        let mut found = Vec::new();
        references(documents.get(document), &mut found);
        assert!(found.len() > 5, "{document:?}");
        for reference in found {
            let (file, pointer) = reference.split_once('#').unwrap_or((reference, ""));
            let target = match file {
                "" => document,
                "./delivery.schema.json" => Document::Delivery,
                other => panic!("{document:?} refers to {other}"),
            };
            assert!(
                documents.get(target).pointer(pointer).is_some(),
                "{document:?}: {reference}"
            );
        }
    }
}

#[test]
fn the_hook_is_the_same_as_a_webhook_and_as_a_path() {
    let documents = Documents::load();
    let openapi = documents.get(Document::OpenApi);
    assert_eq!(
        openapi["webhooks"]["answerDelivery"],
        openapi["paths"]["/hooks/answers"]
    );
}

#[test]
fn examples_are_true() {
    let documents = Documents::load();
    let mut tried = 0;
    for (name, part) in documents.get(Document::Delivery)["$defs"].as_object().unwrap() {
        for example in part["examples"].as_array().into_iter().flatten() {
            let validator = documents.validator(Document::Delivery, &format!("/$defs/{name}"));
            assert_eq!(errors(&validator, example), [""; 0], "{name}");
            tried += 1;
        }
    }
    let asyncapi = documents.get(Document::AsyncApi);
    for channel in asyncapi["channels"].as_object().unwrap().values() {
        for message in channel["messages"].as_object().unwrap().values() {
            let pointer = message["$ref"].as_str().unwrap().trim_start_matches('#');
            let message = asyncapi.pointer(pointer).unwrap();
            for example in message["examples"].as_array().into_iter().flatten() {
                let headers = example["headers"].as_object().unwrap();
                let headers = headers
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str().unwrap()));
                let body = example["payload"].to_string();
                let differences = documents.event_differences(
                    channel["address"].as_str().unwrap(),
                    headers,
                    body.as_bytes(),
                );
                assert_eq!(differences, [], "{}", example["name"]);
                let fact = Fact::read(body.as_bytes()).unwrap();
                let id = example["headers"]["ce-id"].as_str().unwrap();
                assert_eq!(check_result(fact.status.into(), id, &fact), Ok(()));
                tried += 1;
            }
        }
    }
    for (name, response) in documents.get(Document::OpenApi)["components"]["responses"]
        .as_object()
        .unwrap()
    {
        let Some((media_type, content)) = response["content"].as_object().and_then(|map| map.iter().next())
        else {
            continue;
        };
        if let Some(example) = content.get("example") {
            let media_type = media_type.replace('/', "~1");
            let pointer = format!("/components/responses/{name}/content/{media_type}/schema");
            let validator = documents.validator(Document::OpenApi, &pointer);
            assert_eq!(errors(&validator, example), [""; 0], "{name}");
            tried += 1;
        }
    }
    assert!(tried > 7, "{tried}");
}

/// An event as the broker stores it.
fn differences(documents: &Documents, event: &Event) -> Vec<Difference> {
    let subjects = Subjects::new("answers").unwrap();
    let stored = [
        (header::MSG_ID, event.msg_id.as_str()),
        ("Nats-Expected-Stream", "ANSWERS"),
    ];
    let headers = event.headers.iter().map(|(name, value)| (*name, &**value));
    documents.event_differences(subjects.of(event.kind), headers.chain(stored), &event.body)
}

fn event(body: impl Into<Vec<u8>>, via: Via) -> Event {
    let trace = Trace {
        webhook_id: Some("delivery-1".to_owned()),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
    };
    classify(body.into().into(), via, &Source::default(), trace)
        .into_event()
        .unwrap()
}

#[test]
fn every_kind_of_event_and_every_reason_is_as_described() {
    let documents = Documents::load();
    let subjects = Subjects::new("answers").unwrap();
    assert_eq!(
        documents.addresses(),
        BTreeSet::from(Kind::ALL.map(|kind| subjects.of(kind)))
    );
    let mut kinds = BTreeSet::new();
    let mut reasons = BTreeSet::new();
    for body in [
        r#"{"task":{"id":"t","status":"COMPLETED","createdAt":"2026-11-30T12:00:00.5+01:00","idempotencyKey":"a b|é"}}"#,
        r#"{"task":{"id":"a/b #%é","status":"FAILED"},"response":{}}"#,
        r#"{"task":{"id":"t","status":"PROCESSING"}}"#,
        "{",
        "\"\"",
        "{}",
        r#"{"task":{"id":""}}"#,
        r#"{"task":{"id":"t"}}"#,
        r#"{"a":1,"a":2}"#,
    ]
    .map(str::as_bytes)
    .into_iter()
    .chain([b"\xFF".as_slice()])
    {
        for via in [Via::Webhook, Via::Reconciler] {
            let event = event(body, via);
            assert_eq!(differences(&documents, &event), [], "{event:?}");
            let divergent = event.clone().into_divergent();
            assert_eq!(differences(&documents, &divergent), [], "{divergent:?}");
            kinds.insert(event.kind.as_str());
            let reason = event.headers.iter().find(|(name, _)| *name == header::REASON);
            reasons.extend(reason.map(|(_, reason)| reason.to_string()));
        }
    }
    assert_eq!(kinds, BTreeSet::from(Kind::ALL.map(Kind::as_str)));
    assert_eq!(
        reasons,
        BTreeSet::from(Unreadable::ALL.map(|reason| reason.as_str().to_owned()))
    );
}

#[test]
fn an_event_that_is_not_as_described_is_told() {
    let documents = Documents::load();
    let good = event(
        r#"{"task":{"id":"t","status":"COMPLETED"},"response":{}}"#,
        Via::Webhook,
    );
    type Spoil = fn(&mut Event);
    let spoils: [(Spoil, &str); 8] = [
        (|event| event.kind = Kind::Failed, "ce-type"),
        (
            |event| event.headers.retain(|(name, _)| *name != header::CE_TASKID),
            "ce-taskid",
        ),
        (
            |event| event.headers.push(("x-new", "1".into())),
            "x-new is not described",
        ),
        (
            |event| event.headers.push((header::CE_SUBJECT, "a b".into())),
            "/ce-subject",
        ),
        (
            |event| event.headers.push((header::CE_TIME, "yesterday".into())),
            "/ce-time",
        ),
        (
            |event| event.headers.push((header::VIA, "webhook".into())),
            "there twice",
        ),
        (|event| event.body = "{}".into(), "body"),
        (|event| event.body = "".into(), "no JSON"),
    ];
    assert_eq!(differences(&documents, &good), []);
    for (spoil, told) in spoils {
        let mut event = good.clone();
        spoil(&mut event);
        let found = differences(&documents, &event);
        assert!(
            found
                .iter()
                .any(|difference| difference.to_string().contains(told)),
            "{told}: {found:?}"
        );
    }
}

#[test]
fn an_answer_that_is_not_as_described_is_told() {
    let documents = Documents::load();
    let hook = Route {
        method: "post",
        path: "/hooks/answers",
    };
    let json = ("content-type", "application/problem+json");
    let no_store = ("cache-control", "no-store");
    let body = r#"{"type":"urn:answerlog:problem:unavailable","title":"t","status":503,"detail":"d"}"#;
    let good = [json, no_store, ("Retry-After", "10")];
    assert_eq!(documents.answer_differences(hook, 503, good, body), []);
    assert_eq!(documents.answer_differences(hook, 204, [], ""), []);
    for (status, headers, body) in [
        (500, &good[..], body),
        (400, &[json, no_store], body),
        (503, &[json, no_store], body),
        (503, &[json, no_store, ("retry-after", "soon")], body),
        (
            503,
            &[json, no_store, ("retry-after", "10"), ("location", "/")],
            body,
        ),
        (
            503,
            &[("content-type", "text/plain"), no_store, ("retry-after", "10")],
            body,
        ),
        (503, &good, "{}"),
        (503, &good, ""),
        (503, &[], ""),
        (204, &[], "text"),
    ] {
        let differences = documents.answer_differences(hook, status, headers.iter().copied(), body);
        assert_ne!(differences, [], "{status} {headers:?} {body}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_ids_and_keys_hold_the_event_is_as_described(id in any::<String>(), key in any::<String>(), divergent in any::<bool>()) {
        thread_local!(static DOCUMENTS: Documents = Documents::load());
        let body = json!({ "task": { "id": id, "status": "FAILED", "idempotencyKey": key }, "response": 0 });
        let event = event(body.to_string(), Via::Webhook);
        let event = if divergent { event.into_divergent() } else { event };
        let differences = DOCUMENTS.with(|documents| differences(documents, &event));
        prop_assert_eq!(differences, vec![]);
    }
}
