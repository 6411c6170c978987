//! The judge can fail: each way in which something may be lost, doubled or wrong is put into evidence that is otherwise good.

use bytes::Bytes;
use schemas::event::{Received, Source, Trace, Via, classify};
use schemas::projection::fold;
use serde_json::Value;
use time::Duration;
use time::macros::datetime;

use super::stream::{Due, Stored};
use super::tables::{self, Columns};
use super::*;

fn body(task: &str, status: &str, hour: u8, text: &str) -> Bytes {
    let key = task.split('/').next().unwrap();
    format!(
        r#"{{"task":{{"id":"{task}","status":"{status}","createdAt":"2026-11-30T{hour:02}:00:00.000Z","idempotencyKey":"{key}"}},"response":{{"text":"{text}"}}}}"#
    )
    .into()
}

fn stored(seq: u64, body: &Bytes) -> Stored {
    let source = Source::new("urn:answerline").unwrap();
    let event = classify(body.clone(), Via::Webhook, &source, Trace::default())
        .into_event()
        .unwrap();
    let mut headers = event.headers.clone();
    headers.push(("Nats-Msg-Id", event.msg_id.as_str().to_owned().into()));
    let pairs = headers.iter().map(|(name, value)| (*name, &**value));
    Stored {
        seq,
        time: datetime!(2026-11-30 12:00 UTC) + Duration::seconds(i64::try_from(seq).unwrap()),
        subject: stream::subjects().of(event.kind).to_owned(),
        headers: Received::from_headers(pairs),
        body: event.body,
    }
}

fn sent(name: &str, body: &Bytes) -> Sent {
    Sent {
        name: name.to_owned(),
        body: body.clone(),
        acknowledged: true,
        acknowledged_by: None,
        owed: true,
        standing: "delivered".to_owned(),
    }
}

/// What the tables must be after these events.
fn projected(events: &[Stored]) -> Tables {
    let mut tables = Tables::default();
    let mut answers = Vec::new();
    for event in events {
        match event.due() {
            Due::Row(answer, _) => {
                let body: Value = serde_json::from_slice(&event.body).unwrap();
                tables
                    .responses
                    .insert(answer.task_id.to_string(), body.get("response").cloned());
                answers.push(*answer);
            }
            Due::Parked => {
                let columns = [
                    ("task_id", "null"),
                    ("reason", "malformed_json"),
                    ("detail", "null"),
                ];
                let columns = columns.map(|(name, value)| (name, value.to_owned()));
                tables.parked.insert(event.seq, Columns::from(columns));
            }
            Due::Nothing => {}
        }
    }
    let fold = fold(answers);
    let answers = fold
        .answers
        .iter()
        .map(|(id, row)| (id.to_string(), tables::answer(row)));
    let winners = fold
        .winners
        .iter()
        .map(|(job, row)| (job.clone(), tables::winner(row)));
    tables.answers.extend(answers);
    tables.winners.extend(winners);
    tables
}

/// Two runs of one job, another job, a task that has not ended, a body that holds no task, and a test delivery.
fn good() -> Evidence {
    let bodies = [
        ("first", body("a/1", "COMPLETED", 1, "one")),
        ("second", body("a/2", "COMPLETED", 2, "two")),
        ("third", body("b/1", "FAILED", 3, "three")),
        ("open", body("c/1", "PROCESSING", 4, "")),
        ("broken", Bytes::from_static(b"no json")),
    ];
    let events: Vec<_> = bodies
        .iter()
        .zip(1..)
        .map(|((_, body), seq)| stored(seq, body))
        .collect();
    let mut evidence = Evidence {
        sent: bodies.iter().map(|(name, body)| sent(name, body)).collect(),
        tables: projected(&events),
        events,
    };
    for other in &mut evidence.sent[3..] {
        other.owed = false;
    }
    let test = Bytes::from_static(br#"{"test":true,"task":{"id":"sample","status":"COMPLETED"}}"#);
    evidence.sent.push(Sent {
        owed: false,
        ..sent("test", &test)
    });
    evidence
}

fn faults(evidence: &Evidence) -> Vec<String> {
    judge(evidence, &Expected::default()).faults
}

/// Exactly one fault, and it holds all of `words`.
#[track_caller]
fn one_fault(evidence: &Evidence, words: &[&str]) {
    let faults = faults(evidence);
    assert_eq!(faults.len(), 1, "{faults:#?}");
    for word in words {
        assert!(faults[0].contains(word), "`{word}` is not in: {}", faults[0]);
    }
}

fn drop_event(evidence: &mut Evidence, seq: u64) {
    evidence.events.retain(|event| event.seq != seq);
}

#[test]
fn good_evidence_has_no_fault_and_is_counted() {
    let verdict = judge(&good(), &Expected::default());
    let counts = Verdict {
        faults: Vec::new(),
        sent: 6,
        acknowledged: 6,
        events: 5,
        answers: 3,
        winners: 2,
        parked: 1,
        ..Verdict::default()
    };
    assert_eq!(verdict, counts);
}

#[test]
fn a_result_that_was_acknowledged_and_is_not_on_the_stream_is_named_with_where_it_is() {
    let mut evidence = good();
    drop_event(&mut evidence, 3);
    evidence.tables = projected(&evidence.events);
    let faults = faults(&evidence);
    assert_eq!(faults.len(), 2, "{faults:#?}");
    assert!(
        faults[0]
            .starts_with("third got a 2xx and is not on the stream: task `b/1`: sent as third (delivered)")
    );
    assert!(faults[1].starts_with("task b/1 ended and is not answered"));
    let verdict = judge(&evidence, &Expected::default());
    assert_eq!((verdict.lost, verdict.duplicated), (2, 0));
}

#[test]
fn a_result_that_came_onto_the_stream_only_after_its_2xx_was_lost_all_the_same() {
    let mut evidence = good();
    let stored = evidence.events.iter().find(|event| event.seq == 3).unwrap().time;
    evidence.sent[2].acknowledged_by = Some(stored);
    assert_eq!(faults(&evidence), [""; 0]);
    evidence.sent[2].acknowledged_by = Some(stored - std::time::Duration::from_millis(1));
    one_fault(
        &evidence,
        &["third got a 2xx by", "not on the stream before", "b/1"],
    );
    assert_eq!(judge(&evidence, &Expected::default()).lost, 1);
}

#[test]
fn a_test_delivery_need_not_be_on_the_stream_and_must_not_be() {
    let mut evidence = good();
    let mut event = stored(6, &body("x", "COMPLETED", 1, ""));
    event.body = evidence.sent[5].body.clone();
    evidence.events.push(event);
    let faults = faults(&evidence);
    assert!(
        faults
            .iter()
            .any(|fault| fault.contains("event 6 on answers.result.completed is a test delivery")),
        "{faults:#?}"
    );
}

#[test]
fn bodies_that_hold_no_result_count_too() {
    for (seq, name) in [(4, "open"), (5, "broken")] {
        let mut evidence = good();
        drop_event(&mut evidence, seq);
        evidence.tables = projected(&evidence.events);
        one_fault(&evidence, &[name, "got a 2xx and is not on the stream"]);
    }
}

#[test]
fn a_body_that_differs_in_its_response_is_not_the_one_that_was_sent() {
    let mut evidence = good();
    evidence.events[2] = stored(3, &body("b/1", "FAILED", 3, "changed"));
    evidence.tables = projected(&evidence.events);
    let faults = faults(&evidence);
    assert_eq!(faults.len(), 2, "{faults:#?}");
    assert!(faults[0].contains("third got a 2xx and is not on the stream"));
    assert!(faults[1].contains("event 3 on answers.result.failed was never sent like this"));
}

#[test]
fn a_result_twice_on_the_stream_is_a_fault_unless_it_is_expected() {
    let mut evidence = good();
    evidence
        .events
        .push(stored(6, &body("b/1", "FAILED", 3, "three")));
    one_fault(&evidence, &["events 3 and 6", "are the same", "b/1"]);
    let verdict = judge(&evidence, &Expected::default());
    assert_eq!((verdict.lost, verdict.duplicated), (0, 1));
    let expected = Expected {
        repeats: true,
        ..Expected::default()
    };
    assert_eq!(judge(&evidence, &expected).faults, [""; 0]);
}

#[test]
fn an_event_under_another_subject_is_a_fault() {
    let mut evidence = good();
    evidence.events[2].subject = "answers.result.completed".to_owned();
    let faults = faults(&evidence);
    assert!(
        faults[0].contains("event 3 is on answers.result.completed, its body is failed"),
        "{faults:#?}"
    );
}

#[test]
fn a_row_that_is_missing_is_a_fault() {
    let mut evidence = good();
    evidence.tables.answers.remove("a/1");
    let faults = faults(&evidence);
    assert_eq!(faults.len(), 2, "{faults:#?}");
    assert!(
        faults[0].starts_with("answers `a/1` is missing: task `a/1`: sent as first"),
        "{faults:#?}"
    );
    assert!(
        faults[0].contains("event 1 on answers.result.completed"),
        "{faults:#?}"
    );
    assert!(faults[1].contains("a/1 ended and is not answered"));
}

#[test]
fn a_row_that_comes_from_nothing_is_a_fault() {
    let mut evidence = good();
    let row = evidence.tables.answers["a/1"].clone();
    evidence.tables.answers.insert("z".to_owned(), row);
    one_fault(&evidence, &["answers `z` comes from nothing on the stream"]);
}

#[test]
fn every_column_of_a_row_is_compared() {
    let columns: Vec<&str> = good().tables.answers["a/1"].keys().copied().collect();
    assert_eq!(columns.len(), 9);
    for column in columns {
        let mut evidence = good();
        let row = evidence.tables.answers.get_mut("a/1").unwrap();
        row.insert(column, "another".to_owned());
        one_fault(
            &evidence,
            &["answers `a/1` differs from the stream", column, "another, not"],
        );
    }
    let mut evidence = good();
    evidence
        .tables
        .responses
        .insert("a/1".to_owned(), Some(Value::Null));
    one_fault(&evidence, &["answers.response of task a/1"]);
}

#[test]
fn a_winner_that_is_missing_invented_or_wrong_is_a_fault() {
    let mut evidence = good();
    let winner = evidence.tables.winners.remove("a").unwrap();
    one_fault(&evidence, &["winners `a` is missing"]);
    evidence.tables.winners.insert("a".to_owned(), winner.clone());
    evidence.tables.winners.insert("z".to_owned(), winner);
    one_fault(&evidence, &["winners `z` comes from nothing"]);
    for column in ["task_id", "status", "created_at", "stream_seq"] {
        let mut evidence = good();
        let winner = evidence.tables.winners.get_mut("a").unwrap();
        winner.insert(column, "a/1".to_owned());
        one_fault(&evidence, &["winners `a` differs", column]);
    }
}

#[test]
fn what_is_parked_without_need_and_what_is_not_parked_is_a_fault() {
    let mut evidence = good();
    let columns = evidence.tables.parked.remove(&5).unwrap();
    one_fault(
        &evidence,
        &["event 5 cannot become a row and is not parked either"],
    );
    evidence.tables.parked.insert(5, columns.clone());
    evidence.tables.parked.insert(1, columns);
    one_fault(&evidence, &["event 1 is parked and could have become a row"]);
}

#[test]
fn a_task_that_the_database_was_made_to_refuse_is_parked_and_has_no_row() {
    let mut evidence = good();
    let expected = Expected {
        refused: BTreeSet::from(["b/1".to_owned()]),
        ..Expected::default()
    };
    // With a row it is a fault.
    assert_eq!(judge(&evidence, &expected).faults.len(), 3);
    evidence.tables.answers.remove("b/1");
    evidence.tables.winners.remove("b");
    let columns = evidence.tables.parked[&5].clone();
    evidence.tables.parked.insert(3, columns);
    assert_eq!(judge(&evidence, &expected).faults, [""; 0]);
}

#[test]
fn a_task_whose_delivery_died_must_be_answered_unless_nobody_fetches_it() {
    let mut evidence = good();
    let dead = body("d/1", "COMPLETED", 5, "dead");
    evidence.sent.push(Sent {
        acknowledged: false,
        standing: "dead; attempts: 503".to_owned(),
        ..sent("fourth", &dead)
    });
    one_fault(
        &evidence,
        &["task d/1 ended and is not answered", "dead; attempts: 503"],
    );
    let expected = Expected {
        unanswered: BTreeSet::from(["d/1".to_owned()]),
        ..Expected::default()
    };
    assert_eq!(judge(&evidence, &expected).faults, [""; 0]);
    // Somebody may have stored it after all; then its row must be there.
    evidence.events.push(stored(6, &dead));
    let faults = judge(&evidence, &expected).faults;
    assert!(faults[0].contains("answers `d/1` is missing"), "{faults:#?}");
}

#[test]
fn a_verdict_shows_the_first_faults_and_counts_the_rest() {
    let mut verdict = judge(&good(), &Expected::default());
    verdict.faults = (0..35).map(|number| format!("fault {number}")).collect();
    let text = verdict.to_string();
    assert!(text.starts_with(
        "6 sent, 6 acknowledged; 5 events; 3 answers, 0 of them recovered, 2 winners, 1 parked; 35 faults\n- fault 0"
    ));
    assert!(text.ends_with("- fault 29\n- and 5 more"), "{text}");
}
