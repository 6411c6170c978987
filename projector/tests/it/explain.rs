//! `projector explain`: what is told of tasks and jobs.

use std::collections::BTreeSet;

use sandbox::eventually;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::world::{SOON, World, event};

const DOC: &str = include_str!("../../../docs/explain.md");

async fn explain(world: &World, arguments: &[&str]) -> (Option<i32>, Value) {
    let arguments = [&["explain", "--json"], arguments].concat();
    let (code, out) = world.projector().stdout(&arguments).await;
    let story = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
    (code, story)
}

/// Sequence, standing and rule of each event.
fn standings(story: &Value) -> Vec<(u64, String, Option<String>)> {
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let events = story["events"].as_array().unwrap();
    events
        .iter()
        .map(|event| {
            let rule = text(&event["rule"]).or_else(|| text(&event["reason"]));
            (
                event["seq"].as_u64().unwrap(),
                text(&event["standing"]).unwrap(),
                rule,
            )
        })
        .collect()
}

fn standing(seq: u64, standing: &str, rule: Option<&str>) -> (u64, String, Option<String>) {
    (seq, standing.to_owned(), rule.map(ToOwned::to_owned))
}

/// Task, place and rule of each contender of the first job.
fn places(story: &Value) -> Vec<(String, String, Option<String>)> {
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let tasks = story["jobs"][0]["tasks"].as_array().unwrap();
    tasks
        .iter()
        .map(|one| {
            (
                text(&one["task_id"]).unwrap(),
                text(&one["place"]).unwrap(),
                text(&one["rule"]),
            )
        })
        .collect()
}

/// Waits until the database says that it holds everything.
async fn floor_is(world: &World, seq: u64) {
    eventually("the floor is noted", SOON, async || {
        let floor: Option<i64> = world.value("select max(floor_seq) from projection", &[]).await;
        if floor == i64::try_from(seq).ok() {
            Ok(())
        } else {
            Err(floor)
        }
    })
    .await;
}

#[tokio::test]
async fn a_task_is_told_from_its_submission_to_its_row_with_every_event_and_what_came_of_it() {
    let world = World::new().await;
    world
        .sql
        .batch_execute(
            "insert into submitted_tasks (task_id, idempotency_key) values ('t 1*>', 'kettles|DE')",
        )
        .await
        .unwrap();
    let answer = Answer::of("t 1*>").key("kettles|DE");
    world.publish(&answer.clone().status("PROCESSING")).await;
    world.publish(&Answer::of("somebody else")).await;
    world.publish(&answer).await;
    world.publish_again(&answer).await;
    world.publish_again(&answer.clone().failed()).await;
    let older = answer
        .clone()
        .created("\"2026-11-30T11:00:00Z\"")
        .response(r#"{"older":1}"#);
    world.publish_again(&older).await;
    let _projector = world.start().await;
    world.rows("answers", 2).await;
    world.settled().await;
    floor_is(&world, 6).await;

    let (code, story) = explain(&world, &["t 1*>"]).await;
    assert_eq!(
        (code, &story["verdict"]),
        (Some(0), &json!("answers")),
        "{story:#}"
    );
    let expected = [
        standing(1, "not_final", None),
        standing(3, "row", None),
        standing(4, "copy", None),
        standing(5, "outranked", Some("status")),
        standing(6, "outranked", Some("created_at")),
    ];
    assert_eq!(standings(&story), expected);
    let first = &story["events"][1];
    assert_eq!(first["via"], "webhook");
    assert_eq!(first["msg_id"], "t%201%2A%3E");
    assert_eq!(first["bytes"], answer.body().len());
    assert_eq!(first["response_digest"].as_str().unwrap().len(), 64);
    assert_eq!(story["events"][2]["against"], 3);
    assert_eq!(story["stream"]["searched"], 6);
    assert_eq!(story["stream"]["floor_seq"], 6);
    assert_eq!(story["submissions"][0]["idempotency_key"], "kettles|DE");
    assert_eq!(story["submissions"][0]["state"], "OPEN");
    assert_eq!(story["answers"][0]["stream_seq"], 3);
    assert_eq!(places(&story), [("t 1*>".to_owned(), "wins".to_owned(), None)]);
    assert!(
        !story.to_string().contains("Three makers"),
        "a response is told unasked"
    );

    let (_, story) = explain(&world, &["--response", "t 1*>"]).await;
    assert_eq!(
        story["events"][1]["response"]["result"]["text"],
        "Three makers come up most often."
    );
    assert_eq!(story["answers"][0]["response"], story["events"][1]["response"]);

    let (code, text) = world.projector().stdout(&["explain", "t 1*>"]).await;
    assert_eq!(code, Some(0));
    for words in [
        "task t 1*>: it has its row and answers its job",
        "among 6 events of",
        "gives the row",
        "a copy of 3",
        "3 is greater, by status",
        "3 is greater, by created_at",
        "not final, counted",
        "wins: the only one",
        "kept; --response prints it",
    ] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
}

#[tokio::test]
async fn a_job_is_told_with_the_rule_that_decided_against_each_of_its_tasks() {
    let world = World::new().await;
    let run = |task: &str| Answer::of(task).key("kettles|DE-r1");
    world.publish(&run("b")).await;
    world.publish(&run("a").key("kettles|DE")).await;
    world.publish(&run("c").created("\"2026-11-30T11:59:59Z\"")).await;
    world
        .publish(&run("d").failed().created("\"2026-11-30T23:00:00Z\""))
        .await;
    world.publish(&Answer::of("e").key("kettles|FR")).await;
    world
        .sql
        .batch_execute(
            "insert into submitted_tasks (idempotency_key) values ('kettles|DE-r7'), ('kettles|DE-r7x')",
        )
        .await
        .unwrap();
    let _projector = world.start().await;
    world.rows("answers", 5).await;
    let place = |task: &str, place: &str, rule: Option<&str>| {
        (task.to_owned(), place.to_owned(), rule.map(ToOwned::to_owned))
    };
    let expected = [
        place("b", "wins", None),
        place("a", "loses", Some("task_id")),
        place("c", "loses", Some("created_at")),
        place("d", "loses", Some("status")),
    ];
    // By its own name, and by the key of one of its runs.
    for key in ["kettles|DE", "kettles|DE-r9"] {
        let (code, story) = explain(&world, &["--job", key]).await;
        assert_eq!(
            (code, &story["verdict"]),
            (Some(0), &json!("answers")),
            "{story:#}"
        );
        assert_eq!(story["job_key"], "kettles|DE");
        assert_eq!(places(&story), expected);
        assert_eq!(story["events"].as_array().unwrap().len(), 4);
        assert_eq!(story["submissions"].as_array().unwrap().len(), 1);
        assert_eq!(story["submissions"][0]["idempotency_key"], "kettles|DE-r7");
    }
    let (_, story) = explain(&world, &["d"]).await;
    assert_eq!(story["verdict"], "outranked");
    let summary = story["summary"].as_str().unwrap();
    assert!(summary.contains("task b answers its job, by status"), "{summary}");
    let (_, text) = world
        .projector()
        .stdout(&["explain", "--job", "kettles|DE"])
        .await;
    for words in [
        "answered by task b (COMPLETED)",
        "loses by task_id",
        "loses by created_at",
        "loses by status",
    ] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
}

#[tokio::test]
async fn what_nobody_knows_is_said_to_be_unknown() {
    let world = World::new().await;
    world.publish(&Answer::of("t-1")).await;
    for (arguments, words) in [
        (
            &["t-"][..],
            "neither the stream nor the tables hold anything of it",
        ),
        (&["--job", "no such job"], "looked through 1 events"),
        (&["--tables-only", "t-1"], "the stream was not looked at"),
    ] {
        let (code, text) = world
            .projector()
            .stdout(&[&["explain"], arguments].concat())
            .await;
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    let (code, story) = explain(&world, &["t-"]).await;
    assert_eq!((code, &story["verdict"]), (Some(1), &json!("unknown")));
    let (code, text) = world.projector().output(&["explain"]).await;
    assert_eq!(code, Some(64), "{text}");
    let (code, text) = world
        .projector()
        .set("STREAM", "NOWHERE")
        .output(&["explain", "t-1"])
        .await;
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("there is no stream NOWHERE"), "{text}");
}

#[tokio::test]
async fn what_waits_for_a_projector_is_pending_and_what_the_tables_lack_is_missing() {
    let world = World::new().await;
    world.publish(&Answer::of("t")).await;
    let (code, story) = explain(&world, &["t"]).await;
    assert_eq!(
        (code, &story["verdict"]),
        (Some(0), &json!("pending")),
        "{story:#}"
    );
    assert_eq!(standings(&story), [standing(1, "pending", None)]);
    assert_eq!(story["stream"]["floor_seq"], Value::Null);

    let projector = world.start().await;
    world.rows("answers", 1).await;
    floor_is(&world, 1).await;
    projector.stop().await;
    let better = Answer::of("t").created("\"2026-11-30T13:00:00Z\"");
    world.publish_again(&better).await;
    let (_, story) = explain(&world, &["t"]).await;
    assert_eq!(story["verdict"], "answers");
    assert_eq!(
        standings(&story),
        [standing(1, "row", None), standing(2, "pending", None)]
    );
    let summary = story["summary"].as_str().unwrap();
    assert!(summary.contains("1 more of its events wait"), "{summary}");

    world.sql.batch_execute("delete from answers").await.unwrap();
    let (code, story) = explain(&world, &["t"]).await;
    assert_eq!(
        (code, &story["verdict"]),
        (Some(0), &json!("inconsistent")),
        "{story:#}"
    );
    assert_eq!(
        standings(&story),
        [standing(1, "missing", None), standing(2, "pending", None)]
    );
}

#[tokio::test]
async fn a_wrong_winner_is_noticed() {
    let world = World::new().await;
    for task in ["a", "b"] {
        world.publish(&Answer::of(task).key("k")).await;
    }
    let _projector = world.start().await;
    world.rows("answers", 2).await;
    world.settled().await;
    world
        .sql
        .batch_execute("update winners set task_id = 'a'")
        .await
        .unwrap();
    let (_, story) = explain(&world, &["--job", "k"]).await;
    assert_eq!(story["verdict"], "inconsistent");
    let (_, text) = world.projector().stdout(&["explain", "b"]).await;
    assert!(text.contains("should answer the job, and does not"), "{text}");
}

/// Whichever task of the job is asked for, and whatever of the row is wrong.
#[tokio::test]
async fn a_row_that_says_something_else_than_its_event_is_noticed() {
    let world = World::new().await;
    for task in ["s", "t"] {
        world.publish(&Answer::of(task).key("k")).await;
    }
    let _projector = world.start().await;
    world.rows("answers", 2).await;
    floor_is(&world, 2).await;
    for wrong in [
        "response_digest = sha256('x')",
        "received_at = received_at - interval '1 day'",
        "created_at = '2020-01-01'",
    ] {
        let kept = "create table kept as select * from answers where task_id = 's'";
        world.sql.batch_execute(kept).await.unwrap();
        let change = format!("update answers set {wrong} where task_id = 's'");
        world.sql.batch_execute(&change).await.unwrap();
        let (code, story) = explain(&world, &["s"]).await;
        assert_eq!(
            (code, &story["verdict"]),
            (Some(0), &json!("inconsistent")),
            "{wrong}"
        );
        assert_eq!(standings(&story), [standing(1, "contradicted", None)], "{wrong}");
        let back = "delete from answers where task_id = 's'; insert into answers select * from kept; drop table kept";
        world.sql.batch_execute(back).await.unwrap();
    }
    // The winner is another than it should be, which the task that is neither has no part in.
    world.publish(&Answer::of("r").key("k")).await;
    world.rows("answers", 3).await;
    let change = "update winners set task_id = 's', stream_seq = 1";
    world.sql.batch_execute(change).await.unwrap();
    let (_, story) = explain(&world, &["r"]).await;
    assert_eq!(story["verdict"], "inconsistent");
}

#[tokio::test]
async fn an_event_that_is_set_aside_is_told_with_its_reason() {
    let world = World::new().await;
    let moved = event(Answer::of("moved").body());
    let mut headers = moved.headers.clone();
    headers.push(("Nats-Msg-Id", "somebody-else".into()));
    let subject = world.spec.subjects.of(moved.kind).to_owned();
    world.publish_raw(&subject, &headers, moved.body).await;
    let _projector = world.start().await;
    world.rows("parked", 1).await;
    let (code, story) = explain(&world, &["moved"]).await;
    assert_eq!((code, &story["verdict"]), (Some(0), &json!("parked")));
    assert_eq!(
        standings(&story),
        [standing(1, "parked", Some("msg_id_disagrees"))]
    );
    assert_eq!(story["events"][0]["readable"], false);
    assert_eq!(story["parked"][0]["reason"], "msg_id_disagrees");
    // The other side of the disagreement, by the header alone.
    let (_, story) = explain(&world, &["somebody-else"]).await;
    assert_eq!(story["events"][0]["task_id"], "moved");
}

#[tokio::test]
async fn the_tables_alone_need_no_broker() {
    let world = World::new().await;
    world.publish(&Answer::of("t").key("k")).await;
    let projector = world.start().await;
    world.rows("answers", 1).await;
    projector.stop().await;
    let nowhere = world.projector().set("NATS_URL", "nats://127.0.0.1:1");
    let (code, out) = nowhere.stdout(&["explain", "--json", "--tables-only", "t"]).await;
    let story: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &story["verdict"]), (Some(0), &json!("answers")));
    assert_eq!((&story["stream"], &story["events"]), (&Value::Null, &json!([])));
}

#[tokio::test]
async fn of_all_events_of_a_task_exactly_one_gives_the_row_whatever_they_are() {
    let world = World::new().await;
    let mut expected = BTreeSet::new();
    for number in 0..60_u32 {
        let task = format!("t{}", number % 7);
        let answer = Answer::of(&task)
            .key(&format!("k{}", number % 3))
            .created(&format!("\"2026-11-30T12:00:0{}Z\"", number % 4))
            .response(format!("{}", number % 5));
        let answer = if number % 2 == 0 { answer.failed() } else { answer };
        world.publish_again(&answer).await;
        expected.insert(task);
    }
    let _projector = world.start().await;
    world.rows("answers", 7).await;
    world.settled().await;
    floor_is(&world, world.stream().await.cached_info().state.last_sequence).await;
    for task in expected {
        let (_, story) = explain(&world, &[&task]).await;
        let rows = standings(&story)
            .iter()
            .filter(|(_, standing, _)| standing == "row")
            .count();
        assert_eq!(rows, 1, "{story:#}");
        let verdict = story["verdict"].as_str().unwrap();
        assert!(["answers", "outranked"].contains(&verdict), "{story:#}");
        let wins: i64 = world
            .value("select count(*) from winners where task_id = $1", &[&task])
            .await;
        assert_eq!(verdict == "answers", wins > 0, "{story:#}");
    }
}

/// What programs may rely on is written down.
#[tokio::test]
async fn every_field_of_the_json_is_documented() {
    let world = World::new().await;
    world
        .sql
        .batch_execute("insert into submitted_tasks (task_id) values ('a')")
        .await
        .unwrap();
    for task in ["a", "b"] {
        world.publish(&Answer::of(task).key("k")).await;
    }
    world.publish_again(&Answer::of("a").key("k").failed()).await;
    world.publish_body("no json").await;
    let _projector = world.start().await;
    world.rows("answers", 2).await;
    world.rows("parked", 1).await;
    world
        .sql
        .batch_execute("update parked set task_id = 'a'")
        .await
        .unwrap();
    let (_, story) = explain(&world, &["--response", "a"]).await;
    let mut names = BTreeSet::new();
    fields(&story, &mut names);
    assert!(names.len() > 40, "{names:?}");
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !DOC.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "docs/explain.md does not name {missing:?}");
}

/// The names of all fields, but for those of responses.
fn fields(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                names.insert(name.clone());
                if name != "response" {
                    fields(value, names);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| fields(value, names)),
        _ => {}
    }
}
