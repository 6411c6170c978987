use proptest::prelude::*;
use time::Duration;
use time::macros::datetime;

use super::*;
use crate::timestamp;

fn result(body: &str) -> TaskResult<'_> {
    match read(body.as_bytes()) {
        Ok(Delivery::Result(result)) => result,
        other => panic!("{other:?} of {body:.200}"),
    }
}

#[track_caller]
fn unreadable(body: &[u8], reason: Unreadable) {
    let read = read(body).map(|delivery| format!("{delivery:?}"));
    assert_eq!(read, Err(reason), "{:.200}", String::from_utf8_lossy(body));
}

/// A delivery with `fields` in its task, and `envelope` behind it.
fn with(fields: &str, envelope: &str) -> String {
    format!(r#"{{"task":{{"id":"t","status":"COMPLETED"{fields}}},"response":{{}}{envelope}}}"#)
}

#[test]
fn a_whole_delivery_is_read() {
    let body = r#" {"task":{"id":"t-1","taskType":"GROK","status":"FAILED","priority":3,
        "createdAt":"2026-11-30T11:57:12.4189999Z","latencyMs":null,"idempotencyKey":"a|DE-r1"},
        "credits":{"creditsCharged":0},"response": { "error" : {"code":"X"}, "n":1E400 }} "#;
    let result = result(body);
    assert_eq!(result.task_id.as_str(), "t-1");
    assert_eq!(result.status, FinalStatus::Failed);
    assert_eq!(result.idempotency_key.as_deref(), Some("a|DE-r1"));
    assert_eq!(result.created_at, Some(datetime!(2026-11-30 11:57:12.418999 UTC)));
    assert_eq!(
        result.response.unwrap().get(),
        r#"{ "error" : {"code":"X"}, "n":1E400 }"#
    );
    assert_eq!(result.problems, []);
}

#[test]
fn only_json_true_is_a_test() {
    let test = |value: &str| {
        read(format!(r#"{{"test":{value},"task":{{"id":"t","status":"FAILED"}}}}"#).as_bytes())
            .map(|delivery| matches!(delivery, Delivery::Test))
    };
    assert_eq!(test("true"), Ok(true));
    assert_eq!(test("false"), Ok(false));
    assert_eq!(test("null"), Ok(false));
    for odd in ["1", "\"true\"", "[]", "{}", "0"] {
        assert_eq!(test(odd), Err(Unreadable::BadFieldType), "{odd}");
    }
    assert!(matches!(read(br#"{"test":true}"#), Ok(Delivery::Test)));
}

#[test]
fn what_is_no_json_text_in_utf_8_is_unreadable() {
    unreadable(
        b"{\"task\":{\"id\":\"t\",\"status\":\"FAILED\"},\"x\":\"\xFF\"}",
        Unreadable::InvalidUtf8,
    );
    unreadable(b"{\"x\":\"\xED\xA0\x80\"}", Unreadable::InvalidUtf8);
    let whole = with("", "");
    for broken in [
        "",
        " ",
        "{",
        "nul",
        "\u{FEFF}{}",
        "[1,2",
        "{'task':1}",
        "{\"a\":NaN}",
        "{\"a\":01}",
        "{\"a\":1,}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{} {}",
        "{\"a\":Infinity}",
        "\u{0}",
    ] {
        unreadable(broken.as_bytes(), Unreadable::MalformedJson);
    }
    for tail in [" x", "\0", "{}", ","] {
        unreadable(format!("{whole}{tail}").as_bytes(), Unreadable::MalformedJson);
    }
    for cut in 0..whole.len() {
        unreadable(&whole.as_bytes()[..cut], Unreadable::MalformedJson);
    }
}

#[test]
fn objects_are_objects_and_not_arrays_by_position() {
    for body in [
        r#"["t","COMPLETED"]"#,
        "null",
        "1",
        "\"{}\"",
        "[]",
        "true",
        r#"{"task":["t","COMPLETED",null,null]}"#,
        r#"{"task":"t"}"#,
        r#"{"task":0}"#,
        r#"{"task":true}"#,
    ] {
        unreadable(body.as_bytes(), Unreadable::BadFieldType);
    }
}

#[test]
fn a_key_twice_in_envelope_or_task_is_unreadable() {
    for body in [
        with("", r#","response":1"#),
        with("", r#","credits":1,"credits":1"#),
        with("", r#","\u0074ask":null"#),
        with(r#","id":"u""#, ""),
        with(r#","\u0069\u0064":"t""#, ""),
        with(r#","x":1,"x":2"#, ""),
        r#"{"test":true,"test":true}"#.to_owned(),
    ] {
        unreadable(body.as_bytes(), Unreadable::DuplicateKey);
    }
    // Deeper down it is nobody's business here.
    result(r#"{"task":{"id":"t","status":"FAILED","x":{"a":1,"a":2}},"response":{"a":1,"a":2}}"#);
}

#[test]
fn the_task_must_have_an_id_and_a_status() {
    for (task, reason) in [
        ("null", Unreadable::MissingTaskId),
        ("{}", Unreadable::MissingTaskId),
        (r#"{"status":"FAILED"}"#, Unreadable::MissingTaskId),
        (r#"{"id":null,"status":"FAILED"}"#, Unreadable::MissingTaskId),
        (r#"{"id":7,"status":"FAILED"}"#, Unreadable::BadFieldType),
        (r#"{"id":["t"],"status":"FAILED"}"#, Unreadable::BadFieldType),
        (r#"{"id":"","status":"FAILED"}"#, Unreadable::BadTaskId),
        (r#"{"id":"t"}"#, Unreadable::MissingStatus),
        (r#"{"id":"t","status":null}"#, Unreadable::MissingStatus),
        (r#"{"id":"t","status":1}"#, Unreadable::BadFieldType),
    ] {
        unreadable(format!(r#"{{"task":{task}}}"#).as_bytes(), reason);
    }
    unreadable(b"{}", Unreadable::MissingTaskId);
}

#[test]
fn an_id_is_any_text_without_control_characters() {
    let id = |spelled: &str| {
        let body = format!(r#"{{"task":{{"id":"{spelled}","status":"FAILED"}},"response":0}}"#);
        match read(body.as_bytes()) {
            Ok(Delivery::Result(result)) => Ok(result.task_id.to_string()),
            Ok(other) => panic!("{other:?}"),
            Err(reason) => Err(reason),
        }
    };
    let longest = "é".repeat(512);
    for good in [
        " ", "acme.*.>", " a b ", "🦀", "e\u{301}", "a/b#c%", "\u{FFFE}", &longest,
    ] {
        assert_eq!(id(good).as_deref(), Ok(good));
    }
    assert_eq!(id(r#"\u0061\/\"\\\ud83d\ude00"#).as_deref(), Ok("a/\"\\😀"));
    let too_long = format!("{longest}x");
    for bad in [
        r"a\u0000", r"\r\n", r"\t", "\u{7F}", "\u{85}", r"\u009f", r"\ud800", r"\udc00x", &too_long,
    ] {
        assert_eq!(id(bad), Err(Unreadable::BadTaskId), "{bad:.40}");
    }
}

#[test]
fn a_status_is_compared_exactly() {
    let status = |spelled: &str| {
        let body = format!(r#"{{"task":{{"id":"t","status":"{spelled}"}}}}"#);
        match read(body.as_bytes()) {
            Ok(Delivery::NonFinal { task_id, status }) => {
                assert_eq!(task_id.as_str(), "t");
                status
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(status("QUEUED"), OpenStatus::Queued);
    assert_eq!(status("PROCESSING"), OpenStatus::Processing);
    for odd in ["completed", "CANCELLED", "", "FAILED ", "QUEUED\u{301}"] {
        assert_eq!(status(odd), OpenStatus::Unknown(odd.to_owned()));
    }
    assert_eq!(status(r"\ud800"), OpenStatus::Unknown("\u{FFFD}".to_owned()));
    assert_eq!(status(&"x".repeat(9000)).as_str().len(), 64);
    let escaped = result(r#"{"task":{"id":"t","st\u0061tus":"\u0046AILED"},"response":0}"#).status;
    assert_eq!(escaped, FinalStatus::Failed);
}

#[test]
fn an_unusable_key_counts_as_absent_and_is_noted() {
    let key = |json: &str| {
        let body = with(&format!(r#","idempotencyKey":{json}"#), "");
        let result = result(&body);
        (result.idempotency_key, result.problems)
    };
    let longest = format!("\"{}\"", "k".repeat(MAX_KEY_BYTES));
    let too_long = format!("\"{}\"", "k".repeat(MAX_KEY_BYTES + 1));
    assert_eq!(key("\"a|b c\\u00e9\""), (Some("a|b cé".to_owned()), vec![]));
    assert_eq!(key(&longest).1, []);
    assert_eq!(key("null"), (None, vec![]));
    assert_eq!(key("\"\""), (None, vec![]));
    for (json, problem) in [
        ("7", Problem::KeyNotAString),
        ("{}", Problem::KeyNotAString),
        ("[\"k\"]", Problem::KeyNotAString),
        (&*too_long, Problem::KeyTooLong),
        (r#""a\u0000""#, Problem::KeyInvalidText),
        (r#""\ud800""#, Problem::KeyInvalidText),
        (r#""a\nb""#, Problem::KeyInvalidText),
    ] {
        assert_eq!(key(json), (None, vec![problem]), "{json:.40}");
    }
    assert_eq!(result(&with("", "")).idempotency_key, None);
}

#[test]
fn an_unusable_creation_time_counts_as_absent_and_is_noted() {
    let created_at = |json: &str| {
        let body = with(&format!(r#","createdAt":{json}"#), "");
        let result = result(&body);
        (result.created_at, result.problems)
    };
    let millennium = (Some(timestamp::EARLIEST), vec![]);
    assert_eq!(created_at("\"2000-01-01T00:00:00Z\""), millennium);
    assert_eq!(created_at("\"2000-01-01\\u005400:00:00\\u005A\""), millennium);
    assert_eq!(created_at("null"), (None, vec![]));
    for json in [
        "\"infinity\"",
        "\"\"",
        "1796040000",
        "[]",
        "\"2026-11-30T12:00:00\"",
        r#""\ud800""#,
    ] {
        assert_eq!(
            created_at(json),
            (None, vec![Problem::CreatedAtNotATimestamp]),
            "{json}"
        );
    }
    for json in [
        "\"1999-12-31T23:59:59.999999Z\"",
        "\"0001-01-01T00:00:00Z\"",
        "\"0000-01-01T00:00:00+23:59\"",
    ] {
        assert_eq!(
            created_at(json),
            (None, vec![Problem::CreatedAtBefore2000]),
            "{json}"
        );
    }
}

#[test]
fn a_stamp_over_a_day_ahead_of_the_stream_is_not_believed() {
    let now = datetime!(2026-11-30 12:00 UTC);
    let latest = now + Duration::DAY;
    assert_eq!(not_after(Some(latest), now), (Some(latest), None));
    assert_eq!(not_after(None, now), (None, None));
    let later = latest + Duration::MICROSECOND;
    assert_eq!(
        not_after(Some(later), now),
        (None, Some(Problem::CreatedAtInFuture))
    );
    let last = datetime!(9999-12-31 23:59:59.999999 UTC);
    assert_eq!(not_after(Some(last), last), (Some(last), None));
}

#[test]
fn a_result_without_a_response_is_kept_and_noted() {
    let missing = result(r#"{"task":{"id":"t","status":"COMPLETED","createdAt":7}}"#);
    assert!(missing.response.is_none());
    assert_eq!(
        missing.problems,
        [Problem::CreatedAtNotATimestamp, Problem::ResponseMissing]
    );
    assert_eq!(
        Problems(&missing.problems).to_string(),
        "createdAt is not a timestamp; response is missing"
    );
    let null = result(r#"{"task":{"id":"t","status":"COMPLETED"},"response":null}"#);
    assert_eq!(null.response.unwrap().get(), "null");
    assert_eq!(null.problems, []);
}

#[test]
fn nesting_of_any_depth_is_read_wherever_it_stands() {
    let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    let unknown = deep(10_000);
    result(&with("", &format!(r#","unknown":{unknown}"#)));
    result(&with(&format!(r#","unknown":{unknown}"#), ""));
    result(&with(&format!(r#","taskType":{}"#, objects(10_000)), ""));
    let response = deep(1_000_000);
    let body = format!(r#"{{"task":{{"id":"t","status":"COMPLETED"}},"response":{response}}}"#);
    assert_eq!(result(&body).response.unwrap().get().len(), response.len());
    unreadable(deep(1_000_000).as_bytes(), Unreadable::BadFieldType);
    unreadable("[".repeat(1_000_000).as_bytes(), Unreadable::MalformedJson);
    unreadable(
        format!(r#"{{"task":{}}}"#, deep(10_000)).as_bytes(),
        Unreadable::BadFieldType,
    );
}

#[test]
fn odd_text_in_fields_that_nobody_needs_is_no_obstacle() {
    let body = with(
        r#","\ud800":"\ud800","":1"#,
        r#","\udfff":1e999999,"credits":"\u0000""#,
    );
    assert_eq!(result(&body).problems, []);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }

    #[test]
    fn no_mangled_delivery_makes_it_panic(at in 0..200usize, byte in any::<u8>(), cut in 0..200usize) {
        let body = with(r#","createdAt":"2026-11-30T11:57:12.418Z","idempotencyKey":"\u00e9-r1""#, r#","x":[1.5e3,"\ud83d\ude00"]"#);
        let mut bytes = body.into_bytes();
        if let Some(target) = bytes.get_mut(at) {
            *target = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut / 4));
        let _ = read(&bytes);
    }

    #[test]
    fn any_text_is_an_id_or_quarantined_and_never_altered(text in any::<String>()) {
        let quoted = serde_json::to_string(&text).unwrap();
        let body = format!(r#"{{"task":{{"id":{quoted},"status":"FAILED"}},"response":0}}"#);
        match read(body.as_bytes()) {
            Ok(Delivery::Result(result)) => prop_assert_eq!(result.task_id.as_str(), &text),
            Err(Unreadable::BadTaskId) => prop_assert!(text.parse::<TaskId>().is_err()),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
