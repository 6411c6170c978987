//! Beyond the shared vectors: limits, odd requests, and that whatever is signed verifies.

use http::HeaderValue;
use proptest::prelude::*;

use super::*;

const NOW: UnixSeconds = 1_796_040_000;
const BODY: &[u8] = br#"{"task":{"id":"t","status":"COMPLETED"},"response":{}}"#;

fn key(secret: &str) -> SigningKey {
    SigningKey::new(secret, KeyEncoding::Literal).unwrap()
}

fn schemes() -> [Scheme; 3] {
    [
        Scheme::StripeList {
            header: HeaderName::from_static("webhook-signature"),
        },
        Scheme::Standard,
        Scheme::SplitHeader {
            timestamp: HeaderName::from_static("x-cloro-timestamp"),
            signature: HeaderName::from_static("x-cloro-signature"),
        },
    ]
}

fn verifier(scheme: &Scheme, keys: &[SigningKey]) -> Verifier {
    Verifier::new(scheme.clone(), keys.to_vec(), 300).unwrap()
}

fn signed(scheme: &Scheme, keys: &[SigningKey]) -> HeaderMap {
    sign(scheme, keys, "msg_1", NOW, BODY).into_iter().collect()
}

fn check(verifier: &Verifier, headers: &HeaderMap, now: UnixSeconds) -> Result<usize, Refusal> {
    let claim = verifier.read_claim(headers, now)?;
    verifier
        .verify(&claim, Bytes::from_static(BODY))
        .map(|verified| verified.key_index())
}

fn check_list(value: &str) -> Result<usize, Refusal> {
    let [list, ..] = schemes();
    let headers = [(
        HeaderName::from_static("webhook-signature"),
        HeaderValue::from_str(value).unwrap(),
    )];
    check(
        &verifier(&list, &[key("one")]),
        &headers.into_iter().collect(),
        NOW,
    )
}

/// What `one` signs.
fn hex_of_one() -> String {
    let [list, ..] = schemes();
    let headers = signed(&list, &[key("one")]);
    headers["webhook-signature"]
        .to_str()
        .unwrap()
        .split_once("v1=")
        .unwrap()
        .1
        .to_owned()
}

#[test]
fn what_one_key_of_many_signed_verifies_and_names_the_key() {
    let keys: Vec<_> = ["one", "two", "three"].map(key).into();
    for scheme in schemes() {
        let verifier = verifier(&scheme, &keys);
        for (index, key) in keys.iter().enumerate() {
            let headers = signed(&scheme, std::slice::from_ref(key));
            assert_eq!(check(&verifier, &headers, NOW), Ok(index));
        }
        let stranger = signed(&scheme, &[key("four")]);
        assert_eq!(check(&verifier, &stranger, NOW), Err(Refusal::NoMatch));
        // Signed with several, the first that matches is named.
        let headers = signed(&scheme, &[key("four"), keys[2].clone(), keys[1].clone()]);
        assert_eq!(check(&verifier, &headers, NOW), Ok(1));
    }
}

#[test]
fn the_tolerance_holds_both_ways_to_the_second() {
    for scheme in schemes() {
        let keys = [key("one")];
        let (verifier, headers) = (verifier(&scheme, &keys), signed(&scheme, &keys));
        for age in [-300, -299, 0, 299, 300] {
            assert_eq!(check(&verifier, &headers, NOW + age), Ok(0), "{age}");
        }
        assert_eq!(check(&verifier, &headers, NOW + 301), Err(Refusal::TooOld));
        assert_eq!(check(&verifier, &headers, NOW - 301), Err(Refusal::TooNew));
        assert_eq!(check(&verifier, &headers, UnixSeconds::MAX), Err(Refusal::TooOld));
        assert_eq!(check(&verifier, &headers, UnixSeconds::MIN), Err(Refusal::TooNew));
    }
}

#[test]
fn a_header_of_the_scheme_must_be_there() {
    for scheme in schemes() {
        let keys = [key("one")];
        let verifier = verifier(&scheme, &keys);
        let headers = signed(&scheme, &keys);
        for name in headers.keys() {
            let mut without = headers.clone();
            without.remove(name);
            assert_eq!(
                check(&verifier, &without, NOW),
                Err(Refusal::MissingHeader),
                "{name}"
            );
        }
    }
}

#[test]
fn lists_and_headers_are_bounded() {
    let right = format!("v1={}", hex_of_one());
    let junk = format!("v1={}", "0".repeat(64));
    let fifteen = vec![junk.clone(); 15].join(",");
    assert_eq!(check_list(&format!("t={NOW},{fifteen},{right}")), Ok(0));
    // A bad one counts as well: it is a signature that was claimed.
    assert_eq!(
        check_list(&format!("t={NOW},{fifteen},{right},v1=x")),
        Err(Refusal::TooManySignatures)
    );

    let sixteen_bad = vec!["v1=x"; 16].join(",");
    assert_eq!(
        check_list(&format!("t={NOW},{sixteen_bad},{right}")),
        Err(Refusal::TooManySignatures)
    );

    let padded = |len: usize| {
        let start = format!("t={NOW},{right},x=");
        format!("{start}{}", "y".repeat(len - start.len()))
    };
    assert_eq!(check_list(&padded(MAX_HEADER_BYTES)), Ok(0));
    assert_eq!(
        check_list(&padded(MAX_HEADER_BYTES + 1)),
        Err(Refusal::HeaderTooLong)
    );
}

#[test]
fn a_list_is_read_leniently_where_that_is_safe() {
    let hex = hex_of_one();
    for good in [
        format!("t={NOW},v1={hex}"),
        format!(" t={NOW} ,\tv1={hex} "),
        format!("v1={hex},t={NOW},t={NOW}"),
        format!("junk,,=,t={NOW},v0={hex},V1=x,v1={}", hex.to_uppercase()),
        format!("t={NOW},v1={hex}0,v1=,v1={hex}"),
    ] {
        assert_eq!(check_list(&good), Ok(0), "{good}");
    }
    for (bad, reason) in [
        (
            format!("t={NOW},t={},v1={hex}", NOW + 1),
            Refusal::ConflictingTimestamps,
        ),
        (format!("t ={NOW},v1={hex}"), Refusal::MissingTimestamp),
        (format!("t= {NOW},v1={hex}"), Refusal::MalformedTimestamp),
        (format!("T={NOW},v1={hex}"), Refusal::MissingTimestamp),
        (format!("t={NOW},v1 ={hex}"), Refusal::NoSignature),
        (format!("t={NOW},v1= {hex}"), Refusal::NoMatch),
        (format!("t={NOW};v1={hex}"), Refusal::MalformedTimestamp),
        (String::new(), Refusal::MissingTimestamp),
    ] {
        assert_eq!(check_list(&bad), Err(reason), "{bad}");
    }
}

#[test]
fn a_header_that_is_no_ascii_is_malformed() {
    for (scheme, name) in
        schemes()
            .iter()
            .zip(["webhook-signature", "webhook-signature", "x-cloro-signature"])
    {
        let keys = [key("one")];
        let mut headers = signed(scheme, &keys);
        let separator: &[u8] = if *scheme == Scheme::Standard { b" " } else { b"," };
        let value = [headers[name].as_bytes(), separator, "é=1".as_bytes()].concat();
        headers.insert(name, HeaderValue::from_bytes(&value).unwrap());
        let refused = check(&verifier(scheme, &keys), &headers, NOW);
        assert_eq!(refused, Err(Refusal::MalformedHeader), "{scheme:?}");
    }
}

#[test]
fn a_standard_request_has_one_line_of_each_header_and_an_id_without_dots() {
    let keys = [key("one")];
    let verifier = verifier(&Scheme::Standard, &keys);
    for id in ["a.b", "", "a b", &"x".repeat(257)] {
        let headers = sign(&Scheme::Standard, &keys, id, NOW, BODY)
            .into_iter()
            .collect();
        assert_eq!(
            check(&verifier, &headers, NOW),
            Err(Refusal::MalformedHeader),
            "{id}"
        );
    }
    let headers = sign(&Scheme::Standard, &keys, &"x".repeat(256), NOW, BODY)
        .into_iter()
        .collect();
    assert_eq!(check(&verifier, &headers, NOW), Ok(0));
    for (name, value) in &headers {
        let mut twice = headers.clone();
        twice.append(name, value.clone());
        assert_eq!(
            check(&verifier, &twice, NOW),
            Err(Refusal::MalformedHeader),
            "{name}"
        );
    }
}

#[test]
fn secrets_that_cannot_be_right_are_refused() {
    let refused = |secret: &str, encoding| SigningKey::new(secret, encoding).map(drop).unwrap_err();
    for encoding in [KeyEncoding::Literal, KeyEncoding::Base64] {
        assert_eq!(refused("", encoding), InvalidSecret::Empty);
        for blank in ["a b", "a\n", "\ta", "a\r\n", "a\u{a0}b", "a\0"] {
            assert_eq!(refused(blank, encoding), InvalidSecret::Blank, "{blank:?}");
        }
    }
    assert_eq!(refused("whsec_", KeyEncoding::Base64), InvalidSecret::Empty);
    for text in ["whsec_*", "é", "a", "whsec_whsec_AAAA"] {
        assert_eq!(
            refused(text, KeyEncoding::Base64),
            InvalidSecret::NotBase64,
            "{text}"
        );
    }
}

#[test]
fn a_source_has_one_to_eight_keys() {
    let of = |number: usize| Verifier::new(Scheme::Standard, vec![key("one"); number], 300).map(drop);
    assert_eq!(of(0), Err(InvalidKeys(0)));
    assert_eq!(of(1), Ok(()));
    assert_eq!(of(8), Ok(()));
    assert_eq!(of(9), Err(InvalidKeys(9)));
}

#[test]
fn no_secret_and_no_signature_is_ever_printed() {
    let [list, ..] = schemes();
    let keys = [key("whsec_hush")];
    assert_eq!(format!("{:?}", keys[0]), "…");
    let verifier = verifier(&list, &keys);
    let claim = verifier.read_claim(&signed(&list, &keys), NOW).unwrap();
    let printed = format!("{verifier:?} {claim:?}");
    let signature = hex::encode(claim.signatures()[0]);
    assert!(
        !printed.contains("hush") && !printed.contains(&signature),
        "{printed}"
    );
    assert!(
        !printed.contains(&format!("{:?}", claim.signatures()[0])),
        "{printed}"
    );
}

#[test]
fn every_refusal_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<_> = Refusal::ALL.iter().map(|refusal| refusal.as_str()).collect();
    assert_eq!(names.len(), Refusal::ALL.len());
}

proptest! {
    #[test]
    fn what_is_signed_verifies_and_another_byte_does_not(
        body in prop::collection::vec(any::<u8>(), 0..300),
        timestamp in 1..=999_999_999_999i64,
        flip in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        for scheme in schemes() {
            let keys = [key("one"), key("two")];
            let headers: HeaderMap = sign(&scheme, &keys[1..], "msg_1", timestamp, &body).into_iter().collect();
            let verifier = verifier(&scheme, &keys);
            let claim = verifier.read_claim(&headers, timestamp).unwrap();
            prop_assert_eq!(claim.timestamp(), timestamp);
            let verified = verifier.verify(&claim, body.clone().into()).unwrap();
            prop_assert_eq!(verified.key_index(), 1);
            prop_assert_eq!(&verified.into_body()[..], &body[..]);

            let mut other = body.clone();
            if other.is_empty() { other.push(0) } else { other[flip.index(body.len())] ^= 1 << bit }
            prop_assert_eq!(verifier.verify(&claim, other.into()).unwrap_err(), Refusal::NoMatch);
        }
    }

    #[test]
    fn no_header_makes_it_panic(
        names in prop::collection::vec(0..4usize, 0..4),
        value in "([tv]1?=|v1,|[0-9a-f]{64}|[A-Za-z0-9+/]{43}=|,| |[0-9]{1,14}|\\PC){0,12}",
    ) {
        let name = ["webhook-id", "webhook-timestamp", "webhook-signature", "x-cloro-signature"];
        let mut headers = HeaderMap::new();
        for index in names {
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                headers.append(name[index], value);
            }
        }
        for scheme in schemes() {
            let _ = check(&verifier(&scheme, &[key("one")]), &headers, NOW);
        }
    }
}
