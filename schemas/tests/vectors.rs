//! The shared test vectors: signatures made by the official libraries and by hand, and sample bodies.
//!
//! Read from `fixtures/vectors.json`, or from the file that the environment variable `VECTORS` names, which must
//! have the same form.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderName, HeaderValue};
use schemas::delivery::{self, Delivery, OpenStatus};
use schemas::signature::{self, KeyEncoding, Scheme, SigningKey, Verifier};
use serde::Deserialize;
use sha2::{Digest, Sha256};

#[derive(Deserialize)]
struct File {
    vectors: Vec<Vector>,
    config_errors: Vec<ConfigError>,
    hmac_only: Vec<HmacOnly>,
    ed25519: Ed25519,
    cross_scheme: CrossScheme,
    samples: Vec<Sample>,
}

#[derive(Deserialize)]
struct Vector {
    id: String,
    scheme: String,
    secrets: Vec<String>,
    headers: Vec<(String, String)>,
    now: i64,
    tolerance: i64,
    expect: String,
    reason: Option<String>,
    matched_secret_index: Option<usize>,
    json_class: Option<String>,
    payload: Option<String>,
    payload_b64: Option<String>,
    payload_sha256: Option<String>,
}

#[derive(Deserialize)]
struct ConfigError {
    scheme: String,
    secret: String,
}

#[derive(Deserialize)]
struct HmacOnly {
    id: String,
    key_utf8: String,
    message: String,
    hmac_sha256_hex: String,
}

#[derive(Deserialize)]
struct Ed25519 {
    secret_key: String,
    msg_id: String,
    timestamp: i64,
    payload: String,
    signature: String,
}

#[derive(Deserialize)]
struct CrossScheme {
    key_hex: String,
    signed_content: String,
    hmac_sha256_hex: String,
}

#[derive(Deserialize)]
struct Sample {
    name: String,
    body: String,
}

/// Reads the file. A list that is empty would let its test pass without having tried anything.
fn file() -> File {
    let here = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/vectors.json");
    #[expect(
        clippy::disallowed_methods,
        reason = "the file to read is chosen by the environment"
    )]
    let path = std::env::var_os("VECTORS").map_or_else(here, PathBuf::from);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file: File = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    for (name, len) in [
        ("vectors", file.vectors.len()),
        ("config_errors", file.config_errors.len()),
        ("hmac_only", file.hmac_only.len()),
        ("samples", file.samples.len()),
    ] {
        assert!(len > 0, "{}: the list `{name}` is empty", path.display());
    }
    file
}

fn scheme(name: &str) -> (Scheme, KeyEncoding) {
    let list = |header| Scheme::StripeList {
        header: HeaderName::from_static(header),
    };
    match name {
        "stripe" => (list("stripe-signature"), KeyEncoding::Literal),
        "answerline" => (list("webhook-signature"), KeyEncoding::Literal),
        "standard" => (Scheme::Standard, KeyEncoding::Base64),
        "cloro" => {
            let timestamp = HeaderName::from_static("x-cloro-timestamp");
            let signature = HeaderName::from_static("x-cloro-signature");
            (Scheme::SplitHeader { timestamp, signature }, KeyEncoding::Literal)
        }
        other => panic!("unknown scheme `{other}`"),
    }
}

fn headers(pairs: &[(String, String)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

/// What became of a vector: `("accept", "ok", index)` or `("reject", reason, None)`.
type Outcome = (&'static str, String, Option<usize>);

fn try_vector(vector: &Vector, body: Bytes) -> Outcome {
    let (scheme, encoding) = scheme(&vector.scheme);
    let keys: Result<Vec<_>, _> = vector
        .secrets
        .iter()
        .map(|secret| SigningKey::new(secret, encoding))
        .collect();
    let Ok(keys) = keys else {
        // A secret that no program starts with cannot match anything.
        return ("reject", "no_match".to_owned(), None);
    };
    let verifier = Verifier::new(scheme, keys, vector.tolerance).unwrap();
    let verified = verifier
        .read_claim(&headers(&vector.headers), vector.now)
        .and_then(|claim| verifier.verify(&claim, body.clone()));
    match verified {
        Ok(verified) => {
            assert_eq!(verified.body(), &body, "{}", vector.id);
            ("accept", "ok".to_owned(), Some(verified.key_index()))
        }
        Err(refusal) => ("reject", refusal.as_str().to_owned(), None),
    }
}

fn body(vector: &Vector) -> Bytes {
    let body = match (&vector.payload, &vector.payload_b64) {
        (Some(text), None) => text.clone().into_bytes(),
        (None, Some(encoded)) => BASE64.decode(encoded).unwrap(),
        _ => panic!("{}: needs either payload or payload_b64", vector.id),
    };
    if let Some(expected) = &vector.payload_sha256 {
        assert_eq!(
            &hex::encode(Sha256::digest(&body)),
            expected,
            "{}: payload",
            vector.id
        );
    }
    body.into()
}

/// The class of a body, in the words of the vectors.
fn class(body: &[u8]) -> String {
    match delivery::read(body) {
        Ok(Delivery::Test) => "test".to_owned(),
        Ok(Delivery::Result(_)) => "result".to_owned(),
        Ok(Delivery::NonFinal {
            status: OpenStatus::Unknown(_),
            ..
        }) => "nonfinal:unknown_status".to_owned(),
        Ok(Delivery::NonFinal { .. }) => "nonfinal".to_owned(),
        Err(reason) => format!("quarantine:{}", reason.as_str()),
    }
}

#[test]
fn every_vector_comes_out_as_expected() {
    let mut wrong = Vec::new();
    for vector in file().vectors {
        let body = body(&vector);
        let (verdict, reason, index) = try_vector(&vector, body.clone());
        assert!(matches!(&*vector.expect, "accept" | "reject"), "{}", vector.id);
        if verdict != vector.expect {
            wrong.push(format!(
                "{}: {verdict} ({reason}), not {}",
                vector.id, vector.expect
            ));
        }
        if vector.reason.as_ref().is_some_and(|expected| *expected != reason) {
            wrong.push(format!("{}: reason {reason}, not {:?}", vector.id, vector.reason));
        }
        if vector.matched_secret_index != index {
            wrong.push(format!(
                "{}: secret {index:?}, not {:?}",
                vector.id, vector.matched_secret_index
            ));
        }
        if vector
            .json_class
            .as_ref()
            .is_some_and(|expected| *expected != class(&body))
        {
            wrong.push(format!(
                "{}: class {}, not {:?}",
                vector.id,
                class(&body),
                vector.json_class
            ));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_secret_that_is_none_is_refused() {
    for error in file().config_errors {
        let (_, encoding) = scheme(&error.scheme);
        let key = SigningKey::new(&error.secret, encoding);
        assert!(key.is_err(), "{}: {:?}", error.scheme, error.secret);
    }
}

#[test]
fn a_mac_over_the_body_alone_is_right_and_refused_by_every_scheme() {
    for vector in file().hmac_only {
        let mut mac: Hmac<Sha256> = Hmac::new_from_slice(vector.key_utf8.as_bytes()).unwrap();
        mac.update(vector.message.as_bytes());
        let mac: [u8; 32] = mac.finalize().into_bytes().into();
        assert_eq!(hex::encode(mac), vector.hmac_sha256_hex, "{}", vector.id);

        // A key with spaces is refused already; its MAC must be refused under a key without them as well.
        let secret = vector.key_utf8.replace(' ', "_");
        let (now, in_hex, in_base64) = (1_796_040_000, hex::encode(mac), BASE64.encode(mac));
        let requests = [
            (
                "stripe",
                vec![("stripe-signature", format!("t={now},v1={in_hex}"))],
            ),
            (
                "answerline",
                vec![("webhook-signature", format!("t={now},v1={in_hex}"))],
            ),
            (
                "cloro",
                vec![
                    ("x-cloro-timestamp", now.to_string()),
                    ("x-cloro-signature", format!("v1={in_hex}")),
                ],
            ),
            (
                "standard",
                vec![
                    ("webhook-id", "msg_1".to_owned()),
                    ("webhook-timestamp", now.to_string()),
                    ("webhook-signature", format!("v1,{in_base64}")),
                ],
            ),
        ];
        for (name, pairs) in requests {
            let (scheme, _) = scheme(name);
            let keys = vec![SigningKey::new(&secret, KeyEncoding::Literal).unwrap()];
            let verifier = Verifier::new(scheme, keys, 300).unwrap();
            let pairs: Vec<_> = pairs.into_iter().map(|(n, v)| (n.to_owned(), v)).collect();
            let claim = verifier.read_claim(&headers(&pairs), now).unwrap();
            let refused = verifier.verify(&claim, vector.message.clone().into());
            assert_eq!(
                refused.unwrap_err(),
                signature::Refusal::NoMatch,
                "{} as {name}",
                vector.id
            );
        }
    }
}

#[test]
fn an_asymmetric_signature_is_skipped() {
    let vector = file().ed25519;
    let secret = BASE64.encode(vector.secret_key.as_bytes());
    let keys = vec![SigningKey::new(&secret, KeyEncoding::Base64).unwrap()];
    let verifier = Verifier::new(Scheme::Standard, keys.clone(), 300).unwrap();
    let with = |signature: String| {
        let pairs = [
            ("webhook-id", vector.msg_id.clone()),
            ("webhook-timestamp", vector.timestamp.to_string()),
            ("webhook-signature", signature),
        ];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value));
        let claim = verifier.read_claim(&headers(&pairs), vector.timestamp)?;
        verifier.verify(&claim, vector.payload.clone().into())
    };
    assert_eq!(
        with(vector.signature.clone()).unwrap_err(),
        signature::Refusal::NoSignature
    );

    // Beside one of ours it does no harm.
    let signed = signature::sign(
        &Scheme::Standard,
        &keys,
        &vector.msg_id,
        vector.timestamp,
        vector.payload.as_bytes(),
    );
    let ours = signed
        .iter()
        .find(|(name, _)| name == "webhook-signature")
        .unwrap()
        .1
        .to_str()
        .unwrap();
    assert!(with(format!("{} {ours}", vector.signature)).is_ok());
}

#[test]
fn a_body_that_another_scheme_signed_ends_in_quarantine() {
    let vector = file().cross_scheme;
    let secret = format!("whsec_{}", BASE64.encode(hex::decode(&vector.key_hex).unwrap()));
    let key = SigningKey::new(&secret, KeyEncoding::Base64).unwrap();
    let (scheme, _) = scheme("stripe");
    let (timestamp, rest) = vector.signed_content.split_once('.').unwrap();
    let now: i64 = timestamp.parse().unwrap();
    let verifier = Verifier::new(scheme, vec![key], 300).unwrap();
    let pairs = [(
        "stripe-signature".to_owned(),
        format!("t={now},v1={}", vector.hmac_sha256_hex),
    )];
    let claim = verifier.read_claim(&headers(&pairs), now).unwrap();
    let verified = verifier.verify(&claim, rest.to_owned().into()).unwrap();
    assert!(class(verified.body()).starts_with("quarantine:"), "{rest}");
}

#[test]
fn every_sample_body_is_what_it_says() {
    let mut results = 0;
    for sample in file().samples {
        let value: serde_json::Value = serde_json::from_str(&sample.body).unwrap();
        let expected = match (&value["test"], value["task"]["status"].as_str()) {
            (serde_json::Value::Bool(true), _) => "test",
            (_, Some("COMPLETED" | "FAILED")) => "result",
            (_, Some("QUEUED" | "PROCESSING")) => "nonfinal",
            (_, Some(_)) => "nonfinal:unknown_status",
            // Errors and counts speak of no task.
            (_, None) => "quarantine:missing_task_id",
        };
        assert_eq!(class(sample.body.as_bytes()), expected, "{}", sample.name);
        results += usize::from(expected == "result");
    }
    assert!(results > 0, "no sample is a result");
}
