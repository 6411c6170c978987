use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;
use crate::delivery::{self, Delivery, Problem, TaskId, Unreadable};
use crate::digest::ResponseDigest;

fn classified(body: &str) -> Classified {
    classify(
        Bytes::copy_from_slice(body.as_bytes()),
        Via::Webhook,
        &Source::default(),
        Trace::default(),
    )
}

fn event(body: &str) -> Event {
    classified(body).into_event().unwrap()
}

fn get<'e>(event: &'e Event, name: &str) -> Option<&'e str> {
    let mut values = event.headers.iter().filter(|(n, _)| *n == name);
    let value = values.next().map(|(_, value)| &**value);
    assert!(values.next().is_none(), "{name} twice");
    value
}

fn received(event: &Event) -> Received {
    let id = (header::MSG_ID, event.msg_id.as_str());
    Received::from_headers(event.headers.iter().map(|(n, v)| (*n, &**v)).chain([id]))
}

const BODY: &str = r#"{"task":{"id":"t-1","status":"COMPLETED","createdAt":"2026-11-30T17:27:12.41850+05:30",
    "idempotencyKey":"a b|\"é\"%-r1"},"response":{"result":1}}"#;

#[test]
fn a_result_carries_the_documented_headers() {
    let trace = Trace {
        webhook_id: Some("whd_1".into()),
        traceparent: None,
    };
    let source = Source::new("urn:answerline:acme").unwrap();
    let body = Bytes::from_static(BODY.as_bytes());
    let Classified::Result { event, problems } = classify(body.clone(), Via::Reconciler, &source, trace)
    else {
        panic!("not a result");
    };
    assert_eq!(problems, []);
    assert_eq!(event.kind, Kind::Completed);
    assert_eq!(event.msg_id.as_str(), "t-1");
    assert_eq!(event.body.as_ptr(), body.as_ptr(), "the body was copied");
    let mut headers = event.headers.clone();
    headers.sort_unstable();
    let expected = [
        ("Answers-Via", "reconciler"),
        ("Answers-Webhook-Id", "whd_1"),
        ("ce-datacontenttype", "application/json"),
        ("ce-id", "t-1"),
        ("ce-source", "urn:answerline:acme"),
        ("ce-specversion", "1.0"),
        ("ce-subject", "a%20b|%22%C3%A9%22%25-r1"),
        ("ce-taskid", "t-1"),
        ("ce-time", "2026-11-30T11:57:12.4185Z"),
        ("ce-type", "dev.answerline.task.completed"),
    ];
    assert_eq!(headers, expected.map(|(name, value)| (name, value.into())));
}

#[test]
fn each_kind_of_body_becomes_its_kind_of_event() {
    let failed = event(r#"{"task":{"id":"t","status":"FAILED","createdAt":"soon"},"response":{}}"#);
    assert_eq!((failed.kind, failed.msg_id.as_str()), (Kind::Failed, "t"));
    assert_eq!(get(&failed, header::CE_TYPE), Some("dev.answerline.task.failed"));
    assert_eq!(get(&failed, header::CE_TIME), None);
    assert_eq!(get(&failed, header::CE_SUBJECT), None);

    let text = r#"{"task":{"id":"t x","status":"QUEUED"}}"#;
    let open = event(text);
    let hash = hex::encode(Sha256::digest(text));
    assert_eq!(
        (open.kind, open.msg_id.as_str()),
        (Kind::NonFinal, &*format!("nonfinal/{hash}"))
    );
    assert_eq!(get(&open, header::CE_TASKID), Some("t%20x"));
    assert!(open.fact().is_none());

    let Classified::Quarantine { event: odd, reason } = classified("no JSON") else {
        panic!("not quarantined");
    };
    let hash = hex::encode(Sha256::digest("no JSON"));
    assert_eq!(reason, Unreadable::MalformedJson);
    assert_eq!(
        (odd.kind, odd.msg_id.as_str()),
        (Kind::Quarantine, &*format!("quarantine/{hash}"))
    );
    assert_eq!(get(&odd, header::REASON), Some("malformed_json"));
    assert_eq!(
        get(&odd, header::CE_DATACONTENTTYPE),
        Some("application/octet-stream")
    );

    assert!(
        classified(r#"{"test":true,"task":{"id":"t","status":"COMPLETED"}}"#)
            .into_event()
            .is_none()
    );
}

#[test]
fn what_could_not_be_taken_as_sent_is_told() {
    let body = r#"{"task":{"id":"t","status":"COMPLETED","idempotencyKey":7}}"#;
    let Classified::Result { problems, .. } = classified(body) else {
        panic!("not a result")
    };
    assert_eq!(problems, [Problem::KeyNotAString, Problem::ResponseMissing]);
}

#[test]
fn a_divergent_result_has_an_id_of_its_own_that_names_its_content() {
    let first = event(BODY).into_divergent();
    let fact = first.fact().unwrap();
    let hash = Sha256::new()
        .chain_update("COMPLETED")
        .chain_update(fact.digest.as_bytes())
        .finalize();
    assert_eq!(first.msg_id.as_str(), format!("t-1#{}", &hex::encode(hash)[..16]));
    assert_eq!(get(&first, header::CE_ID), Some(first.msg_id.as_str()));
    let again = event(&BODY.replace("{\"result\":1}", "{ \"result\" : 1 }")).into_divergent();
    assert_eq!(again.msg_id, first.msg_id);
    for other in [BODY.replace("COMPLETED", "FAILED"), BODY.replace(":1}", ":2}")] {
        assert_ne!(event(&other).into_divergent().msg_id, first.msg_id);
    }
}

#[test]
fn an_event_under_another_name_than_its_own_is_noticed() {
    let one = event(BODY);
    let fact = &one.fact().unwrap();
    let divergent = one.clone().into_divergent().msg_id;
    assert_eq!(check_result(Kind::Completed, "t-1", fact), Ok(()));
    assert_eq!(check_result(Kind::Completed, divergent.as_str(), fact), Ok(()));
    assert_eq!(
        check_result(Kind::Failed, "t-1", fact),
        Err(Disagreement::Subject)
    );
    for other in [
        "t-2",
        "t-",
        "t-1x",
        "",
        "t-1#",
        "t-1#0000000000000000",
        &format!("{divergent}0"),
        "T-1",
    ] {
        assert_eq!(
            check_result(Kind::Completed, other, fact),
            Err(Disagreement::MsgId),
            "{other}"
        );
    }

    let check = |kind, id: &MsgId, body: &[u8]| check_other(kind, id.as_str(), body, &delivery::read(body));
    let open = br#"{"task":{"id":"t","status":"QUEUED"}}"#;
    assert_eq!(check(Kind::NonFinal, &MsgId::of_nonfinal(open), open), Ok(()));
    assert_eq!(
        check(Kind::Quarantine, &MsgId::of_quarantine(open), open),
        Err(Disagreement::Subject)
    );
    assert_eq!(
        check(Kind::NonFinal, &MsgId::of_nonfinal(b""), open),
        Err(Disagreement::MsgId)
    );
    assert_eq!(check(Kind::Quarantine, &MsgId::of_quarantine(b"x"), b"x"), Ok(()));
    assert_eq!(
        check(Kind::Quarantine, &MsgId::of_quarantine(b"y"), b"x"),
        Err(Disagreement::MsgId)
    );
    for other in ["#", "#agai", "#again#again", "again"] {
        let id = format!("{}{other}", MsgId::of_quarantine(b"x"));
        let read = delivery::read(b"x");
        assert_eq!(
            check_other(Kind::Quarantine, &id, b"x", &read),
            Err(Disagreement::MsgId),
            "{id}"
        );
    }
    let result = BODY.as_bytes();
    assert_eq!(
        check(Kind::NonFinal, &MsgId::of_nonfinal(result), result),
        Err(Disagreement::Subject)
    );
}

#[test]
fn the_second_id_of_a_body_without_a_result_is_its_own_and_accepted() {
    for body in [r#"{"task":{"id":"t","status":"QUEUED"}}"#, "no json"] {
        let first = event(body);
        let second = first.clone().into_divergent();
        assert_eq!(second.msg_id.as_str(), format!("{}#again", first.msg_id));
        assert_eq!(get(&second, header::CE_ID), Some(second.msg_id.as_str()));
        assert_eq!(second.clone().into_divergent().msg_id, second.msg_id);
        let read = delivery::read(body.as_bytes());
        for event in [first, second] {
            let checked = check_other(event.kind, event.msg_id.as_str(), body.as_bytes(), &read);
            assert_eq!(checked, Ok(()));
        }
    }
}

#[test]
fn a_body_filed_as_unread_is_known_by_its_id_alone() {
    let body = BODY.as_bytes();
    let filed = |kind, id: MsgId| is_filed_unread(kind, id.as_str(), body);
    assert!(filed(Kind::Quarantine, MsgId::of_quarantine(body)));
    assert!(filed(Kind::NonFinal, MsgId::of_nonfinal(body)));
    assert!(!filed(Kind::NonFinal, MsgId::of_quarantine(body)));
    assert!(!filed(Kind::Quarantine, MsgId::of_quarantine(b"another")));
    assert!(!filed(Kind::Completed, MsgId::of_quarantine(body)));
    assert!(!is_filed_unread(Kind::Quarantine, "", body));
}

#[test]
fn every_kind_has_its_place() {
    for (place, kind) in Kind::ALL.into_iter().enumerate() {
        assert_eq!(kind.index(), place);
    }
}

#[test]
fn every_subject_we_build_parses_back() {
    for prefix in ["answers", "acme.answers-2", "A_1"] {
        let subjects = Subjects::new(prefix).unwrap();
        assert_eq!(subjects.all(), format!("{prefix}.>"));
        assert_eq!(subjects.results(), format!("{prefix}.result.>"));
        for kind in Kind::ALL {
            assert_eq!(subjects.parse(subjects.of(kind)), Ok(kind));
            let result = matches!(kind, Kind::Completed | Kind::Failed);
            assert_eq!(
                subjects.of(kind).starts_with(&format!("{prefix}.result.")),
                result
            );
        }
    }
    let subjects = Subjects::new(Subjects::DEFAULT_PREFIX).unwrap();
    assert_eq!(subjects.of(Kind::Completed), "answers.result.completed");
    for foreign in [
        "answers",
        "answers.result",
        "answers.result.completed.x",
        "other.nonfinal",
        "",
    ] {
        assert_eq!(subjects.parse(foreign), Err(ForeignSubject), "{foreign}");
    }
}

#[test]
fn a_prefix_that_is_no_subject_is_refused() {
    for prefix in [
        "", ".", "a.", ".a", "a..b", "a b", "a.*", "a.>", "$JS", "é", "a\r\nb",
    ] {
        assert_eq!(Subjects::new(prefix), Err(InvalidPrefix), "{prefix}");
    }
}

#[test]
fn a_source_that_is_no_uri_is_refused() {
    for source in ["", "a b", "é", "a\"b", "a\r\nb", &"x".repeat(257)] {
        assert_eq!(Source::new(source), Err(InvalidSource), "{source}");
    }
    assert_eq!(
        Source::new("https://a.example/b%20c").unwrap().header(),
        "https://a.example/b%2520c"
    );
}

#[test]
fn trace_headers_are_checked_against_their_grammar() {
    let trace = |id: &[u8], parent: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", HeaderValue::from_bytes(id).unwrap());
        headers.insert("traceparent", HeaderValue::from_str(parent).unwrap());
        let trace = Trace::from_headers(&headers, &HeaderName::from_static("webhook-id"));
        (trace.webhook_id, trace.traceparent)
    };
    let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    assert_eq!(trace(b"whd_1", good), (Some("whd_1".into()), Some(good.into())));
    assert_eq!(trace("x".repeat(300).as_bytes(), good).0, Some("x".repeat(256)));
    assert_eq!(trace(b"", "").0, None);
    for id in [&b"a b"[..], "é".as_bytes(), b"a\tb"] {
        assert_eq!(trace(id, "").0, None);
    }
    for bad in [
        "",
        "00",
        &good[..54],
        &good.to_uppercase(),
        &good.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
        &good.replace("00f067aa0ba902b7", &"0".repeat(16)),
        &good.replacen("00", "ff", 1),
        &format!("{good}-x"),
        &format!(" {good}"),
    ] {
        assert_eq!(trace(b"", bad).1, None, "{bad}");
    }
    let later = format!("{}-more", good.replacen("00", "01", 1));
    assert_eq!(trace(b"", &later).1, Some(later));
    let empty = Trace::from_headers(&HeaderMap::new(), &HeaderName::from_static("webhook-id"));
    assert_eq!(empty, Trace::default());
}

#[test]
fn headers_are_read_tolerantly() {
    let received = Received::from_headers([
        ("NATS-MSG-ID", "a"),
        ("Nats-Msg-Id", "b"),
        ("answers-via", "carrier pigeon"),
        ("Answers-Via", "webhook"),
        ("CE-TASKID", "\"a%2fb%20%c3%a9\""),
        ("ce-subject", "%zz"),
        ("ce-unknown", "x"),
    ]);
    let expected = Received {
        msg_id: Some("a".into()),
        via: Some(Via::Webhook),
        task_id: Some("a/b é".into()),
        ..Received::default()
    };
    assert_eq!(received, expected);
    for bad in ["%", "%4", "%4g", "%ff", "a%"] {
        assert_eq!(percent::decode(bad), None, "{bad}");
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

proptest! {
    #[test]
    fn every_header_is_printable_ascii_and_reads_back(
        id in prop_oneof!["\\PC{1,60}", any::<String>(), "[A-Za-z0-9_.~:@#%/ \"-]{1,20}"],
        key in prop_oneof!["\\PC{0,60}", any::<String>()],
        divergent in any::<bool>(),
    ) {
        let body = format!(
            r#"{{"task":{{"id":{},"status":"COMPLETED","idempotencyKey":{}}},"response":{{}}}}"#,
            quoted(&id), quoted(&key)
        );
        let mut event = event(&body);
        if divergent {
            event = event.into_divergent();
        }
        let printable = |text: &str| text.bytes().all(|b| b.is_ascii_graphic() && b != b'"');
        prop_assert!(printable(event.msg_id.as_str()));
        for (name, value) in &event.headers {
            prop_assert!(printable(value) && !value.is_empty(), "{}: {:?}", name, value);
        }
        let Some(fact) = &event.fact() else {
            prop_assert_eq!(event.kind, Kind::Quarantine);
            return Ok(());
        };
        let received = received(&event);
        prop_assert_eq!(received.task_id, Some(id));
        let kept = Some(key).filter(|key| key.parse::<TaskId>().is_ok());
        prop_assert_eq!(received.idempotency_key, kept);
        prop_assert_eq!(received.via, Some(Via::Webhook));
        prop_assert_eq!(received.msg_id.as_deref(), Some(event.msg_id.as_str()));
        prop_assert_eq!(check_result(event.kind, event.msg_id.as_str(), fact), Ok(()));
    }

    #[test]
    fn no_two_tasks_share_an_id(a in "[a-c#%/]{1,4}|nonfinal/x", b in "[a-c#%/]{1,4}|nonfinal/x") {
        let fact = |id: &str| Fact {
            task_id: id.parse().unwrap(),
            status: FinalStatus::Completed,
            digest: ResponseDigest::of(None),
        };
        let ids = |fact: &Fact| [MsgId::of_task(&fact.task_id), MsgId::of_divergent(fact)];
        for one in ids(&fact(&a)) {
            prop_assert!(!one.as_str().contains('/'));
            for other in ids(&fact(&b)) {
                prop_assert!(a == b || one != other, "{} {}", one, other);
            }
        }
    }

    #[test]
    fn an_encoding_is_undone_by_decoding(text in any::<String>()) {
        for encoded in [percent::encode_id(&text), percent::encode_attribute(&text)] {
            let decoded = percent::decode(&encoded);
            prop_assert_eq!(decoded.as_deref(), Some(&*text));
        }
        let usual: String = text.chars().filter(|c| c.is_ascii_alphanumeric() || "_.~:@-".contains(*c)).collect();
        prop_assert_eq!(percent::encode_id(&usual), usual.as_str());
    }

    #[test]
    fn a_fact_is_what_a_stored_body_says(response in crate::json::tests::value()) {
        let body = format!(r#"{{"task":{{"id":"t","status":"FAILED"}},"response":{response}}}"#);
        let Ok(Delivery::Result(result)) = delivery::read(body.as_bytes()) else {
            return Err(TestCaseError::fail(body));
        };
        prop_assert_eq!(Fact::read(body.as_bytes()), Some(Fact::of(&result)));
    }
}
