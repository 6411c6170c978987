//! From a message to its row, or to where it is set aside.

use schemas::event::Kind;
use tokio_postgres::Row;

use crate::answer::Answer;
use crate::world::World;

async fn row(world: &World, task: &str) -> Row {
    let query =
        "select job_key, idempotency_key, status, created_at::text, response::text, problem, via, stream_seq
                   from answers where task_id = $1";
    world.sql.query_one(query, &[&task]).await.unwrap()
}

#[tokio::test]
async fn an_answer_becomes_one_row_with_its_job_and_its_winner() {
    let world = World::new().await;
    let _projector = world.start().await;
    let seq = world.publish(&Answer::of("t1").key("kettles|DE-r2")).await;
    world.rows("answers", 1).await;
    let row = row(&world, "t1").await;
    assert_eq!(row.get::<_, &str>("job_key"), "kettles|DE");
    assert_eq!(
        row.get::<_, Option<&str>>("idempotency_key"),
        Some("kettles|DE-r2")
    );
    assert_eq!(row.get::<_, &str>("status"), "COMPLETED");
    assert!(row.get::<_, &str>("created_at").starts_with("2026-11-30"));
    assert_eq!(
        row.get::<_, &str>("response"),
        r#"{"result": {"text": "Three makers come up most often."}}"#
    );
    assert_eq!(row.get::<_, Option<&str>>("problem"), None);
    assert_eq!(row.get::<_, &str>("via"), "webhook");
    assert_eq!(row.get::<_, i64>("stream_seq"), i64::try_from(seq).unwrap());
    let winner: String = world
        .value("select task_id from winners where job_key = $1", &[&"kettles|DE"])
        .await;
    assert_eq!(winner, "t1");
}

#[tokio::test]
async fn copies_leave_the_row_untouched_whatever_their_envelope() {
    let world = World::new().await;
    let projector = world.start().await;
    let answer = Answer::of("t1").key("job");
    world.publish(&answer).await;
    world.rows("answers", 1).await;
    let place = "select (select (ctid, xmin)::text from answers) || (select (ctid, xmin)::text from winners)";
    let before: String = world.value(place, &[]).await;
    world
        .publish_again(
            &answer
                .clone()
                .envelope(r#""sent_at":"2026-12-03T00:00:00Z","attempt":7,"#),
        )
        .await;
    world.settled().await;
    assert_eq!(world.value::<String>(place, &[]).await, before);
    assert_eq!(world.count("answers").await, 1);
    projector.metric_is("projector_rows_applied_total", 1.0).await;
    projector.metric_is("projector_events_unchanged_total", 1.0).await;
}

#[tokio::test]
async fn many_versions_and_copies_of_a_task_in_one_batch_give_the_documented_winner() {
    let world = World::new().await;
    let noon = Answer::of("t1").key("job");
    let one = noon
        .clone()
        .created("\"2026-11-30T13:00:00Z\"")
        .response(r#"{"v":1}"#);
    let best = noon
        .clone()
        .created("\"2026-11-30T13:00:00Z\"")
        .response(r#"{"v":2}"#);
    let answers = [
        noon.clone().failed().created("\"2026-11-30T23:00:00Z\""),
        one,
        best,
        noon.clone(),
    ];
    for answer in &answers {
        world.publish(answer).await;
        world.publish_again(answer).await;
    }
    let projector = world.start().await;
    world.settled().await;
    assert_eq!(world.count("answers").await, 1);
    let row = row(&world, "t1").await;
    assert_eq!(row.get::<_, &str>("status"), "COMPLETED");
    assert!(row.get::<_, &str>("created_at").starts_with("2026-11-30 13"));
    let first = world.tables().await;

    // Late old states change nothing.
    for hour in ["02", "03"] {
        let old = noon
            .clone()
            .created(&format!("\"2026-11-30T{hour}:00:00Z\""))
            .response(r#"{"old":true}"#);
        world.publish_again(&old).await;
    }
    world
        .publish_again(&noon.failed().created("\"2026-11-30T23:30:00Z\""))
        .await;
    world.settled().await;
    assert_eq!(world.tables().await, first);
    assert_eq!(projector.metric("projector_transaction_retries_total").await, 0.0);
}

#[tokio::test]
async fn what_cannot_be_read_or_does_not_agree_with_itself_is_parked_with_its_reason() {
    let world = World::new().await;
    let subjects = &world.spec.subjects;
    let own = |event: schemas::event::Event, id: &str| {
        let mut headers = event.headers.clone();
        headers.push(("Nats-Msg-Id", id.to_owned().into()));
        (headers, event.body)
    };
    let answer = |task: &str| crate::world::event(Answer::of(task).body());
    world.publish_body("{\"task\":").await;
    let (headers, body) = own(answer("moved"), "moved");
    world.publish_raw(subjects.of(Kind::Failed), &headers, body).await;
    let (headers, body) = own(answer("renamed"), "somebody-else");
    world
        .publish_raw(subjects.of(Kind::Completed), &headers, body)
        .await;
    let (_, body) = own(answer("bare"), "bare");
    let bare = [("Nats-Msg-Id", "bare".into())];
    world.publish_raw(subjects.of(Kind::Completed), &bare, body).await;
    let foreign = subjects.all().replace('>', "something.else");
    world.publish_raw(&foreign, &[], "hello").await;
    // Postgres has no text for a NUL.
    let unheld = subjects.all().replace('>', "nul\0");
    world.publish_raw(&unheld, &[], "hello").await;
    world
        .publish_raw(subjects.of(Kind::Completed), &[], r#"{"test":true}"#)
        .await;
    world.publish(&Answer::of("running").status("PROCESSING")).await;
    world.publish(&Answer::of("good")).await;

    let projector = world.start().await;
    world.settled().await;
    let parked = world
        .sql
        .query(
            "select reason, task_id, body from parked order by stream_seq",
            &[],
        )
        .await
        .unwrap();
    let parked: Vec<(String, Option<String>)> = parked.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = [
        ("malformed_json", None),
        ("subject_disagrees", Some("moved")),
        ("msg_id_disagrees", Some("renamed")),
        ("unknown_origin", Some("bare")),
        ("foreign_subject", None),
        ("foreign_subject", None),
        ("subject_disagrees", None),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(r, t)| ((*r).to_owned(), t.map(str::to_owned)))
        .collect();
    assert_eq!(parked, expected);
    let tasks: Vec<String> = world
        .sql
        .query("select task_id from answers", &[])
        .await
        .unwrap()
        .iter()
        .map(|r| r.get(0))
        .collect();
    assert_eq!(tasks, ["good"]);
    assert_eq!(projector.metric("projector_events_nonfinal_total").await, 1.0);
    assert_eq!(projector.metric("projector_events_parked_total").await, 7.0);
    assert_eq!(projector.log().matches("parked a message").count(), 7);
}

#[tokio::test]
async fn text_and_numbers_that_postgres_refuses_are_replaced_or_left_out_and_said() {
    let world = World::new().await;
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let digits = "7".repeat(2_000);
    let replaced = Some("response: NUL or unpaired surrogates replaced by U+FFFD");
    let cases: Vec<(&str, String, Option<&str>, Option<&str>)> = vec![
        (
            "nul",
            r#"{"a\u0000":"b\u0000c"}"#.into(),
            Some("{\"a\u{FFFD}\": \"b\u{FFFD}c\"}"),
            replaced,
        ),
        (
            "lone",
            r#"["\ud83d","\ude00x"]"#.into(),
            Some("[\"\u{FFFD}\", \"\u{FFFD}x\"]"),
            replaced,
        ),
        (
            "pair",
            r#"["\ud83d\ude00","\\u0000 \\ud83d"]"#.into(),
            Some(r#"["😀", "\\u0000 \\ud83d"]"#),
            None,
        ),
        (
            "long",
            "[12345678901234567890,0.1234567890123456789]".into(),
            Some("[12345678901234567890, 0.1234567890123456789]"),
            None,
        ),
        ("zero", "[-0,1E+2,1.50]".into(), Some("[0, 100, 1.50]"), None),
        (
            "1e401",
            "[1e401]".into(),
            None,
            Some("response not kept: a number with an exponent beyond 400"),
        ),
        (
            "1e131071",
            "[1e131071]".into(),
            None,
            Some("response not kept: a number with an exponent beyond 400"),
        ),
        (
            "digits",
            digits,
            None,
            Some("response not kept: a number of more than 1000 characters"),
        ),
        (
            "deep",
            deep(513),
            None,
            Some("response not kept: nested deeper than 512"),
        ),
        (
            "very deep",
            deep(100_000),
            None,
            Some("response not kept: nested deeper than 512"),
        ),
        ("not too deep", deep(512), Some("deep"), None),
    ];
    for (task, response, ..) in &cases {
        world.publish(&Answer::of(task).response(response.clone())).await;
    }
    let hundreds = Answer::of("1e308").response("[1e308,1e400]");
    world.publish(&hundreds).await;
    let _projector = world.start().await;
    world.rows("answers", cases.len() as i64 + 1).await;
    for (task, _, response, problem) in &cases {
        let row = row(&world, task).await;
        let found = row.get::<_, Option<&str>>("response");
        if *task == "not too deep" {
            assert_eq!(found, Some(deep(512).as_str()), "{task}");
        } else {
            assert_eq!(found, *response, "{task}");
        }
        assert_eq!(row.get::<_, Option<&str>>("problem"), *problem, "{task}");
    }
    let kept: String = world
        .value(
            "select (response -> 1)::text from answers where task_id = '1e308'",
            &[],
        )
        .await;
    assert_eq!(kept.len(), 401);
    assert_eq!(world.count("parked").await, 0);
}

#[tokio::test]
async fn odd_event_times_are_null_with_a_problem_and_cannot_freeze_a_job() {
    let world = World::new().await;
    let cases = [
        (
            "\"2126-01-01T00:00:00Z\"",
            None,
            Some("createdAt is over a day ahead of the stream"),
        ),
        (
            "\"10000-01-01T00:00:00Z\"",
            None,
            Some("createdAt is not a timestamp"),
        ),
        ("\"infinity\"", None, Some("createdAt is not a timestamp")),
        (
            "\"0000-00-00T00:00:00Z\"",
            None,
            Some("createdAt is not a timestamp"),
        ),
        ("\"1999-12-31T23:59:59Z\"", None, Some("createdAt is before 2000")),
        (
            "\"2026-11-30T12:00:00\"",
            None,
            Some("createdAt is not a timestamp"),
        ),
        ("1796040000", None, Some("createdAt is not a timestamp")),
        ("1796040000000", None, Some("createdAt is not a timestamp")),
        (
            "\"2016-12-31T23:59:60Z\"",
            Some("2016-12-31 23:59:59.999999+00"),
            None,
        ),
        (
            "\"2026-11-30T12:00:00.1234569999Z\"",
            Some("2026-11-30 12:00:00.123456+00"),
            None,
        ),
        (
            "\"2026-11-30T17:30:00+05:30\"",
            Some("2026-11-30 12:00:00+00"),
            None,
        ),
        ("null", None, None),
    ];
    for (number, (created, ..)) in cases.iter().enumerate() {
        world
            .publish(&Answer::of(&number.to_string()).key("one job").created(created))
            .await;
    }
    let _projector = world.start().await;
    world.rows("answers", cases.len() as i64).await;
    world.sql.batch_execute("set timezone = 'UTC'").await.unwrap();
    for (number, (sent, created, problem)) in cases.iter().enumerate() {
        let row = row(&world, &number.to_string()).await;
        assert_eq!(row.get::<_, Option<&str>>("created_at"), *created, "{sent}");
        assert_eq!(row.get::<_, Option<&str>>("problem"), *problem, "{sent}");
    }
    // The stamp a century ahead does not win; the latest real one does.
    let winner: String = world.value("select task_id from winners", &[]).await;
    assert_eq!(winner, "9");
}

#[tokio::test]
async fn bodies_of_the_largest_size_become_rows() {
    let world = World::new().await;
    let projector = world.projector().set("BATCH_BYTES", 65_536).start_ready().await;
    let text: String = (0..1_000_000)
        .map(|n| char::from(b'a' + (n % 26) as u8))
        .collect();
    let large = format!("[{}]", vec![format!("\"{text}\""); 8].join(","));
    assert!(large.len() > 8_000_000 && large.len() < world.declared.max_body());
    for task in ["big1", "big2"] {
        world.publish(&Answer::of(task).response(large.clone())).await;
    }
    world.publish(&Answer::of("small")).await;
    world.rows("answers", 3).await;
    let length: i32 = world
        .value(
            "select length(response ->> 7) from answers where task_id = 'big1'",
            &[],
        )
        .await;
    assert_eq!(length, 1_000_000);
    projector.ready().await;
}
