//! `projector parked`: listing, showing and trying again.

use std::process::Stdio;

use async_nats::HeaderMap;
use sandbox::eventually;
use schemas::event::{Kind, MsgId};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::projector::Builder;
use crate::world::{SOON, World};

/// Objects, one a line.
fn lines(out: &str) -> Vec<Value> {
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

async fn retry(builder: &Builder, arguments: &[&str]) -> (Option<i32>, Vec<Value>) {
    let arguments = [&["parked", "retry", "--json"], arguments].concat();
    let (code, out) = builder.stdout(&arguments).await;
    (code, lines(&out))
}

/// An event that an older version could not read, and this one can.
async fn quarantined(world: &World, answer: &Answer) -> u64 {
    filed(
        world,
        answer,
        Kind::Quarantine,
        &MsgId::of_quarantine(&answer.body()),
    )
    .await
}

async fn filed(world: &World, answer: &Answer, kind: Kind, id: &MsgId) -> u64 {
    let headers = [
        ("Nats-Msg-Id", id.as_str().to_owned().into()),
        ("Answers-Via", "webhook".into()),
    ];
    let subject = world.spec.subjects.of(kind).to_owned();
    world.publish_raw(&subject, &headers, answer.body()).await
}

/// What an older version would have noted about it.
async fn park(world: &World, seq: u64, reason: &str) {
    let event = world.stream().await.get_raw_message(seq).await.unwrap();
    let created = world.stream().await.cached_info().created;
    world
        .sql
        .execute(
            "insert into parked values (date_trunc('microseconds', $1::timestamptz), $2, $3, null, $4, null, $5, $6)",
            &[
                &created,
                &i64::try_from(seq).unwrap(),
                &event.subject.as_str(),
                &reason,
                &event.payload.as_ref(),
                &event.time,
            ],
        )
        .await
        .unwrap();
}

/// A database whose row of the stream is there, so that its rows are known to follow it, and no projector that runs.
async fn followed(world: &World) {
    world.start().await.stop().await;
}

#[tokio::test]
async fn parked_events_are_listed_by_reason_and_task_and_shown_with_their_bodies() {
    let world = World::new().await;
    world.publish_body("{\"task\":\x1b[31m").await;
    world.publish_body(&b"\xff\xfe\n"[..]).await;
    let moved = Answer::of("moved");
    filed(
        &world,
        &moved,
        Kind::Failed,
        &MsgId::of_task(&"moved".parse().unwrap()),
    )
    .await;
    let projector = world.start().await;
    world.rows("parked", 3).await;
    projector.stop().await;
    let builder = world.projector();

    let (code, text) = builder.stdout(&["parked", "list"]).await;
    assert_eq!(code, Some(0));
    for words in [
        "3 parked: 1 invalid_utf8, 1 malformed_json, 1 subject_disagrees",
        "moved",
        "SEQ",
    ] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
    let (_, out) = builder.stdout(&["parked", "list", "--json"]).await;
    let reasons: Vec<_> = lines(&out).iter().map(|row| row["reason"].clone()).collect();
    assert_eq!(reasons, ["malformed_json", "invalid_utf8", "subject_disagrees"]);
    assert_eq!(lines(&out)[2]["task_id"], "moved");
    let (_, out) = builder
        .stdout(&["parked", "list", "--json", "--reason", "invalid_utf8"])
        .await;
    assert_eq!(lines(&out)[0]["stream_seq"], 2);
    let (_, out) = builder
        .stdout(&["parked", "list", "--json", "--task", "moved"])
        .await;
    assert_eq!(lines(&out).len(), 1);
    let (_, text) = builder.stdout(&["parked", "list", "--limit", "2"]).await;
    assert!(text.contains("and 1 later ones"), "{text}");
    let (_, text) = builder
        .stdout(&["parked", "list", "--reason", "no_such_reason"])
        .await;
    assert_eq!(text, "nothing is parked\n");

    let (code, text) = builder.stdout(&["parked", "show", "1"]).await;
    assert_eq!(code, Some(0));
    assert!(
        text.contains("malformed_json") && text.contains(r#"{"task":\u{1b}[31m"#),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "{text:?}");
    let (_, out) = builder.stdout(&["parked", "show", "1", "--json"]).await;
    assert_eq!(lines(&out)[0]["body"], "{\"task\":\x1b[31m");
    let (_, out) = builder.stdout(&["parked", "show", "2", "--json"]).await;
    assert_eq!(lines(&out)[0]["body_base64"], "//4K");
    let raw = builder
        .command(&["parked", "show", "2", "--raw"])
        .output()
        .await
        .unwrap();
    assert_eq!(raw.stdout, b"\xff\xfe\n");
    let (code, text) = builder.output(&["parked", "show", "99"]).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("nothing is parked with sequence 99"), "{text}");
}

#[tokio::test]
async fn what_this_build_can_read_becomes_a_row_and_the_rest_stays_with_its_reason() {
    let world = World::new().await;
    followed(&world).await;
    let read = quarantined(&world, &Answer::of("now").key("k-r1")).await;
    let open = Answer::of("open").status("PROCESSING");
    let open = filed(
        &world,
        &open,
        Kind::Quarantine,
        &MsgId::of_quarantine(&open.body()),
    )
    .await;
    let broken = world.publish_body("{\"task\":").await;
    let moved = Answer::of("moved");
    let moved = filed(
        &world,
        &moved,
        Kind::Failed,
        &MsgId::of_task(&"moved".parse().unwrap()),
    )
    .await;
    for seq in [read, open, broken, moved] {
        park(&world, seq, "bad_field_type").await;
    }
    let builder = world.projector();
    let (code, reports) = retry(&builder, &[]).await;
    assert_eq!(code, Some(1), "{reports:#?}");
    let outcomes: Vec<_> = reports.iter().map(|report| report["outcome"].clone()).collect();
    assert_eq!(outcomes, ["projected", "not_final", "parked", "parked"]);
    assert_eq!(
        (&reports[0]["changed"], &reports[0]["source"]),
        (&json!(true), &json!("stream"))
    );
    assert_eq!(reports[2]["reason"], "malformed_json");
    assert_eq!(reports[3]["reason"], "subject_disagrees");

    // As the live projector writes it.
    let tables = world.tables().await;
    assert_eq!(
        (world.count("answers").await, world.count("winners").await),
        (1, 1)
    );
    let job: String = world
        .value("select job_key from winners where task_id = 'now'", &[])
        .await;
    assert_eq!(job, "k");
    let projector = world.start().await;
    world.settled().await;
    assert_eq!(world.tables().await, tables);
    let parked: Vec<(i64, String, Option<String>)> = world
        .sql
        .query("select stream_seq, reason, task_id from parked order by 1", &[])
        .await
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect();
    let expected = [
        (i64::try_from(broken).unwrap(), "malformed_json".to_owned(), None),
        (
            i64::try_from(moved).unwrap(),
            "subject_disagrees".to_owned(),
            Some("moved".to_owned()),
        ),
    ];
    assert_eq!(parked, expected);
    projector.stop().await;

    let (code, text) = builder.output(&["parked", "retry", &read.to_string()]).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains(&format!("nothing is parked with sequence {read}")),
        "{text}"
    );
    let (code, text) = builder
        .output(&["parked", "retry", "--reason", "bad_field_type"])
        .await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("0 off the list, 0 stay parked"), "{text}");
}

/// The row of its task is of a greater event already: the event is in, and changes nothing.
#[tokio::test]
async fn a_lesser_event_is_off_the_list_and_leaves_the_row_alone() {
    let world = World::new().await;
    followed(&world).await;
    let old = quarantined(&world, &Answer::of("t").created("\"2026-11-29T12:00:00Z\"")).await;
    park(&world, old, "bad_field_type").await;
    world.publish(&Answer::of("t")).await;
    let _projector = world.start().await;
    world.rows("answers", 1).await;
    world.settled().await;
    let before = world.tables().await;
    let (code, reports) = retry(&world.projector(), &[&old.to_string()]).await;
    assert_eq!(
        (code, &reports[0]["changed"]),
        (Some(0), &json!(false)),
        "{reports:#?}"
    );
    assert_eq!(world.tables().await, before);
    assert_eq!(world.count("parked").await, 0);
}

#[tokio::test]
async fn what_the_stream_does_not_hold_any_more_is_read_from_the_kept_body_where_that_is_enough() {
    let world = World::new().await;
    followed(&world).await;
    let gone = quarantined(&world, &Answer::of("gone")).await;
    park(&world, gone, "bad_field_type").await;
    // Its id is not kept, and it was the id that was wrong.
    let renamed = Answer::of("renamed");
    let renamed = filed(
        &world,
        &renamed,
        Kind::Completed,
        &MsgId::of_task(&"x".parse().unwrap()),
    )
    .await;
    park(&world, renamed, "msg_id_disagrees").await;
    let stream = world.stream().await;
    for seq in [gone, renamed] {
        stream.delete_message(seq).await.unwrap();
    }
    // Of an older stream, on which this sequence was another event.
    let later = quarantined(&world, &Answer::of("later")).await;
    park(&world, later, "bad_field_type").await;
    world
        .sql
        .execute(
            "insert into parked select '2020-01-01', $1, subject, null, reason, null, \
             convert_to(replace(convert_from(body, 'UTF8'), 'later', 'older'), 'UTF8'), '2020-01-02' \
             from parked where stream_seq = $1",
            &[&i64::try_from(later).unwrap()],
        )
        .await
        .unwrap();
    let (_, out) = world.projector().stdout(&["parked", "list", "--json"]).await;
    let older: Vec<_> = lines(&out)
        .iter()
        .map(|row| row["is_of_older_stream"].clone())
        .collect();
    assert_eq!(older, [true, false, false, false]);
    let (_, text) = world
        .projector()
        .stdout(&["parked", "show", &later.to_string()])
        .await;
    assert!(text.contains("older one than the rows follow"), "{text}");

    let (code, reports) = retry(&world.projector(), &[]).await;
    let told: Vec<_> = reports
        .iter()
        .map(|report| {
            (
                report["task_id"].clone(),
                report["outcome"].clone(),
                report["source"].clone(),
            )
        })
        .collect();
    let expected = [
        (json!("older"), json!("projected"), json!("kept_body")),
        (json!("gone"), json!("projected"), json!("kept_body")),
        (Value::Null, json!("parked"), json!("kept_body")),
        (json!("later"), json!("projected"), json!("stream")),
    ];
    assert_eq!(told, expected);
    assert_eq!(code, Some(1));
    let received: String = world
        .value(
            "select received_at::date::text from answers where task_id = 'older'",
            &[],
        )
        .await;
    assert_eq!(received, "2020-01-02");
    let reason: String = world.value("select reason from parked", &[]).await;
    assert_eq!(reason, "msg_id_disagrees");
}

/// After a lost end a stream gives sequences out again: what stands there now is not what was parked.
#[tokio::test]
async fn another_event_under_the_same_sequence_is_not_taken_for_the_parked_one() {
    let world = World::new().await;
    followed(&world).await;
    let seq = quarantined(&world, &Answer::of("now there")).await;
    park(&world, seq, "bad_field_type").await;
    let body = Answer::of("parked then").body();
    world
        .sql
        .execute("update parked set body = $1", &[&body.as_ref()])
        .await
        .unwrap();
    let (code, reports) = retry(&world.projector(), &[]).await;
    assert_eq!((code, &reports[0]["source"]), (Some(0), &json!("kept_body")));
    let tasks: String = world
        .value("select string_agg(task_id, ',') from answers", &[])
        .await;
    assert_eq!(tasks, "parked then");
}

/// A value that Postgres refuses, with a trigger in the place of a version that does.
#[tokio::test]
async fn what_the_database_refuses_stays_until_it_does_not() {
    let world = World::new().await;
    world
        .sql
        .batch_execute(
            "create function refuse() returns trigger language plpgsql as $$ begin
               if new.task_id = 'refused' then raise exception 'no such number' using errcode = '22003'; end if;
               return new; end $$;
             create trigger refuse before insert on answers for each row execute function refuse()",
        )
        .await
        .unwrap();
    world.publish(&Answer::of("refused")).await;
    let _projector = world.start().await;
    world.rows("parked", 1).await;
    let (code, reports) = retry(&world.projector(), &[]).await;
    assert_eq!(code, Some(1));
    assert_eq!(reports[0]["reason"], "database_refuses");
    assert_eq!(reports[0]["detail"], "22003: no such number");
    let (_, out) = world.projector().stdout(&["explain", "--json", "refused"]).await;
    let story: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&story["verdict"], &story["events"][0]["readable"]),
        (&json!("parked"), &json!(true))
    );

    world
        .sql
        .batch_execute("drop trigger refuse on answers")
        .await
        .unwrap();
    let (code, _) = retry(&world.projector(), &[]).await;
    assert_eq!(code, Some(0));
    assert_eq!(
        (world.count("answers").await, world.count("parked").await),
        (1, 0)
    );
}

/// Killed at any moment and run beside itself and beside a projector, it ends with what one undisturbed run gives.
#[tokio::test]
async fn a_retry_may_be_killed_and_run_twice_at_once() {
    let world = World::new().await;
    followed(&world).await;
    let count = 300;
    for number in 0..count {
        let seq = quarantined(
            &world,
            &Answer::of(&format!("t{number}")).key(&format!("k{}", number % 20)),
        )
        .await;
        park(&world, seq, "bad_field_type").await;
    }
    let builder = world.projector();
    for _ in 0..2 {
        let mut child = builder
            .command(&["parked", "retry"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let before = world.count("parked").await;
        eventually("it has begun", SOON, async || {
            world.count("parked").await < before
        })
        .await;
        child.kill().await.unwrap();
        // Whatever was done was done whole.
        let halves: i64 = world
            .value(
                "select count(*) from parked p where exists \
                 (select from answers a where a.stream_seq = p.stream_seq)",
                &[],
            )
            .await;
        assert_eq!(halves, 0);
    }
    let _projector = world.start().await;
    let (one, other) = tokio::join!(retry(&builder, &[]), retry(&builder, &[]));
    assert_eq!((one.0, other.0), (Some(0), Some(0)));
    assert_eq!(
        (world.count("answers").await, world.count("parked").await),
        (count, 0)
    );
    assert_eq!(world.count("winners").await, 20);
    let wrong: i64 = world
        .value(
            "select count(*) from winners w where exists \
             (select from answers a where a.job_key = w.job_key and a.task_id > w.task_id)",
            &[],
        )
        .await;
    assert_eq!(wrong, 0);
}

#[tokio::test]
async fn an_event_that_is_taken_off_the_list_meanwhile_is_not_brought_in() {
    let world = World::new().await;
    followed(&world).await;
    let seq = quarantined(&world, &Answer::of("t")).await;
    park(&world, seq, "bad_field_type").await;
    let mut other = world.database.connect().await;
    let erasing = other.transaction().await.unwrap();
    erasing.batch_execute("delete from parked").await.unwrap();
    let builder = world.projector();
    let (retried, ()) = tokio::join!(retry(&builder, &[]), async {
        world.somebody_waits().await;
        erasing.commit().await.unwrap();
    });
    assert_eq!((retried.0, &retried.1[0]["outcome"]), (Some(0), &json!("gone")));
    assert_eq!(
        (world.count("answers").await, world.count("parked").await),
        (0, 0)
    );
}

#[tokio::test]
async fn while_a_rebuild_changes_the_rules_nothing_is_brought_in() {
    let world = World::new().await;
    followed(&world).await;
    let seq = quarantined(&world, &Answer::of("t")).await;
    park(&world, seq, "bad_field_type").await;
    let changing = "update projection set rules = rules || '{\"changing\": true}'";
    world.sql.batch_execute(changing).await.unwrap();
    let builder = world.projector();
    let output = builder.command(&["parked", "retry"]).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("under other rules"), "{said}");
    assert_eq!(
        (world.count("answers").await, world.count("parked").await),
        (0, 1)
    );
}

/// A projector of this build reads what an older one filed as unreadable or not final, so a rebuild gives the same rows as a
/// retry.
#[tokio::test]
async fn a_projector_reads_what_an_older_version_filed_unread() {
    let world = World::new().await;
    quarantined(&world, &Answer::of("a")).await;
    let early = Answer::of("b");
    filed(&world, &early, Kind::NonFinal, &MsgId::of_nonfinal(&early.body())).await;
    // Under an id that is not this body's it could be anybody's.
    filed(
        &world,
        &Answer::of("c"),
        Kind::Quarantine,
        &MsgId::of_quarantine(b"x"),
    )
    .await;
    let _projector = world.start().await;
    world.rows("answers", 2).await;
    world.rows("parked", 1).await;
    let reason: String = world.value("select reason || task_id from parked", &[]).await;
    assert_eq!(reason, "subject_disagreesc");
}

/// Headers of a publisher that look like those of a direct read change nothing of what is read.
#[tokio::test]
async fn forged_headers_do_not_move_an_event() {
    let world = World::new().await;
    let event = crate::world::event(Answer::of("t").body());
    let mut headers = HeaderMap::new();
    for (name, value) in &event.headers {
        headers.insert(*name, &**value);
    }
    headers.insert("Nats-Msg-Id", event.msg_id.as_str());
    headers.insert("Nats-Sequence", "77");
    headers.insert("Nats-Subject", "elsewhere");
    let subject = world.spec.subjects.of(event.kind).to_owned();
    let sent = world
        .connection
        .jetstream
        .publish_with_headers(subject, headers, event.body);
    sent.await.unwrap().await.unwrap();
    let (_, out) = world.projector().stdout(&["explain", "--json", "t"]).await;
    let story: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(story["events"][0]["seq"], 1);
    assert_eq!(story["verdict"], "pending");
}
