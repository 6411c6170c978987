//! `projector erase`: what is gone afterwards, and what is left.

use std::fs;
use std::path::Path;

use async_nats::jetstream::consumer::pull;
use futures_util::StreamExt;
use sandbox::eventually;
use sandbox::servers::Postgres;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::projector::Builder;
use crate::world::{SOON, World, nats};

async fn erase(builder: &Builder, arguments: &[&str]) -> (Option<i32>, Value) {
    let arguments = [&["erase", "--json"], arguments].concat();
    let (code, out) = builder.stdout(&arguments).await;
    let report = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
    (code, report)
}

fn seqs(report: &Value) -> Vec<u64> {
    let events = report["events"].as_array().unwrap();
    events
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect()
}

/// How many files below a directory hold these bytes.
fn holding(dir: &Path, needle: &[u8]) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            count += holding(&path, needle);
        } else if fs::read(&path).is_ok_and(|bytes| bytes.windows(needle.len()).any(|part| part == needle)) {
            count += 1;
        }
    }
    count
}

/// The tables that follow from what the stream holds now, made anew in another database.
async fn rebuilt(world: &World) -> Vec<String> {
    let database = Postgres::shared().await.fresh_database().await;
    let sql = database.connect().await;
    let projector = world
        .projector()
        .set("DATABASE_URL", database.url())
        .set("CONSUMER", "rebuilder")
        .start_ready()
        .await;
    let stream = world.stream().await;
    eventually("everything is projected anew", SOON, async || {
        let consumer = stream
            .consumer_info("rebuilder")
            .await
            .map_err(|e| e.to_string())?;
        if consumer.num_pending == 0 && consumer.num_ack_pending == 0 {
            Ok(())
        } else {
            Err(format!("{} wait", consumer.num_pending))
        }
    })
    .await;
    projector.stop().await;
    stream.delete_consumer("rebuilder").await.unwrap();
    let query = "select a::text from answers a union all select w::text from winners w order by 1";
    sql.query(query, &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect()
}

#[tokio::test]
async fn a_task_is_erased_with_each_of_its_events_and_a_rebuild_does_not_bring_it_back() {
    let nats = nats().await;
    let world = World::on(&nats, Postgres::shared().await.fresh_database().await).await;
    world
        .sql
        .batch_execute(
            "insert into submitted_tasks (task_id, idempotency_key) values ('t', 'k'), ('u', 'k-r1');
             insert into submitted_tasks (idempotency_key, same_as)
                  select 'k', submission_id from submitted_tasks where task_id = 't'",
        )
        .await
        .unwrap();
    let secret = Answer::of("t")
        .key("k")
        .response(r#"{"result":"Whistleblower-4711"}"#);
    world
        .publish(&Answer::of("u").key("k-r1").created("\"2026-11-30T11:00:00Z\""))
        .await;
    world
        .publish(
            &secret
                .clone()
                .status("QUEUED")
                .envelope(r#""note":"Whistleblower-4711","#),
        )
        .await;
    world.publish(&secret).await;
    world.publish(&Answer::of("v")).await;
    world.publish_again(&secret).await;
    world.publish_again(&secret.clone().failed()).await;
    // Under somebody else's name, so it is parked.
    let event = crate::world::event(secret.body());
    let mut headers = event.headers.clone();
    headers.push(("Nats-Msg-Id", "w".into()));
    let subject = world.spec.subjects.of(event.kind).to_owned();
    world.publish_raw(&subject, &headers, event.body).await;
    let _projector = world.start().await;
    world.rows("answers", 3).await;
    world.rows("parked", 1).await;
    world.settled().await;
    let winner: String = world
        .value("select task_id from winners where job_key = 'k'", &[])
        .await;
    assert_eq!(winner, "t");
    assert!(holding(&nats.store_dir(), b"Whistleblower-4711") > 0);

    let (code, plan) = erase(&world.projector(), &["--dry-run", "t"]).await;
    assert_eq!((code, &plan["outcome"]), (Some(0), &json!("planned")));
    assert_eq!(seqs(&plan), [2, 3, 5, 6, 7]);
    assert_eq!(
        (
            world.count("answers").await,
            world.stream().await.cached_info().state.messages
        ),
        (3, 7)
    );

    let (code, report) = erase(&world.projector(), &["t"]).await;
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(seqs(&report), [2, 3, 5, 6, 7]);
    assert_eq!(
        (
            &report["answers"],
            &report["parked"],
            &report["submissions"],
            &report["jobs"]
        ),
        (&json!(1), &json!(1), &json!(2), &json!(["k"]))
    );
    assert_eq!(report["outcome"], "erased");
    assert_eq!(
        holding(&nats.store_dir(), b"Whistleblower-4711"),
        0,
        "its bytes are still on the disk"
    );
    let left: String = world
        .value(
            "select string_agg(task_id, ',' order by task_id) from answers",
            &[],
        )
        .await;
    assert_eq!(left, "u,v");
    let winner: String = world
        .value("select task_id from winners where job_key = 'k'", &[])
        .await;
    assert_eq!(winner, "u");
    assert_eq!(world.count("parked").await, 0);
    let submitted: String = world
        .value("select string_agg(task_id, ',') from submitted_tasks", &[])
        .await;
    assert_eq!(submitted, "u");
    assert_eq!(rebuilt(&world).await, world.tables().await);

    for arguments in [&["t"][..], &["--dry-run", "t"]] {
        let (code, report) = erase(&world.projector(), arguments).await;
        assert_eq!((code, &report["events"]), (Some(1), &json!([])));
    }
    let (code, text) = world.projector().output(&["explain", "t"]).await;
    assert_eq!(code, Some(1), "{text}");
}

/// Nothing of it is left in the row that says how far the database has come, either.
#[tokio::test]
async fn the_floor_does_not_keep_the_id() {
    let world = World::new().await;
    world.publish(&Answer::of("t")).await;
    let projector = world.start().await;
    eventually("the floor is noted", SOON, async || {
        let id: Option<String> = world.value("select max(floor_msg_id) from projection", &[]).await;
        id.as_deref() == Some("t")
    })
    .await;
    projector.stop().await;
    assert_eq!(erase(&world.projector(), &["t"]).await.0, Some(0));
    let id: Option<String> = world.value("select max(floor_msg_id) from projection", &[]).await;
    assert_eq!(id, None);
    // And a projector goes on from there.
    let projector = world.start().await;
    world.publish(&Answer::of("u")).await;
    world.rows("answers", 1).await;
    projector.ready().await;
    assert!(
        !projector.log().contains("another message"),
        "{}",
        projector.log()
    );
}

/// Events count for a job, not rows: a task whose row stands elsewhere can be the next to answer.
#[tokio::test]
async fn the_next_winner_is_the_one_that_a_rebuild_would_give() {
    let world = World::new().await;
    let noon = "\"2026-11-30T12:00:00Z\"";
    world.publish(&Answer::of("zz").key("j").created(noon)).await;
    // Two keys for one task: its greater event names another job, and so its row stands there.
    world
        .publish(&Answer::of("two").key("j").created("\"2026-11-30T11:00:00Z\""))
        .await;
    world
        .publish_again(&Answer::of("two").key("elsewhere").created(noon).response("2"))
        .await;
    world
        .publish(&Answer::of("low").key("j").created("\"2026-11-30T10:00:00Z\""))
        .await;
    // One whose event the stream does not hold any more.
    world
        .publish(&Answer::of("aged").key("j").created("\"2026-11-30T10:30:00Z\""))
        .await;
    let _projector = world.start().await;
    world.rows("answers", 4).await;
    world.settled().await;
    assert_eq!(erase(&world.projector(), &["zz"]).await.0, Some(0));
    let winner: String = world
        .value("select task_id from winners where job_key = 'j'", &[])
        .await;
    assert_eq!(winner, "two");
    assert_eq!(rebuilt(&world).await, world.tables().await);

    world.stream().await.delete_message(5).await.unwrap();
    assert_eq!(erase(&world.projector(), &["two"]).await.0, Some(0));
    let winner: String = world
        .value("select task_id from winners where job_key = 'j'", &[])
        .await;
    assert_eq!(winner, "aged");
    for task in ["aged", "low"] {
        assert_eq!(erase(&world.projector(), &[task]).await.0, Some(0));
    }
    assert_eq!(
        (world.count("answers").await, world.count("winners").await),
        (0, 0)
    );
}

#[tokio::test]
async fn an_erasure_that_was_killed_between_stream_and_rows_is_finished_by_the_next() {
    let world = World::new().await;
    for task in ["t", "u"] {
        world.publish(&Answer::of(task).key("k")).await;
    }
    let _projector = world.start().await;
    world.rows("answers", 2).await;
    world.settled().await;
    // As far as it had come: the events of `u` are gone, its rows are not.
    world.stream().await.delete_message(2).await.unwrap();
    let (code, report) = erase(&world.projector(), &["u"]).await;
    assert_eq!(
        (code, &report["events"], &report["answers"]),
        (Some(0), &json!([]), &json!(1))
    );
    let winner: String = world.value("select task_id from winners", &[]).await;
    assert_eq!(winner, "t");
}

#[tokio::test]
async fn an_event_that_a_projector_may_have_in_hand_is_waited_for() {
    let world = World::new().await;
    world.publish(&Answer::of("t")).await;
    // In the place of a projector that is slow.
    let durable = pull::Config {
        durable_name: Some("projector".to_owned()),
        ..pull::Config::default()
    };
    let consumer = world.stream().await.create_consumer(durable).await.unwrap();
    let mut messages = consumer.fetch().max_messages(1).messages().await.unwrap();
    let in_hand = messages.next().await.unwrap().unwrap();
    let builder = world.projector();
    let (code, report) = erase(&builder, &["--wait", "300ms", "t"]).await;
    assert_eq!((code, &report["outcome"]), (Some(1), &json!("waiting")));
    assert_eq!(world.stream().await.cached_info().state.messages, 1);
    let (waits, ()) = tokio::join!(erase(&builder, &["t"]), async {
        let late = "insert into answers values \
                    ('t', 't', null, 'COMPLETED', null, null, sha256('x'), null, 'webhook', 1, now())";
        world.sql.batch_execute(late).await.unwrap();
        in_hand.double_ack().await.unwrap();
    });
    assert_eq!((waits.0, &waits.1["outcome"]), (Some(0), &json!("erased")));
    assert_eq!(world.count("answers").await, 0);

    // One that is known to be gone is not waited for.
    world.publish(&Answer::of("u")).await;
    let mut messages = consumer.fetch().max_messages(1).messages().await.unwrap();
    let _in_dead_hands = messages.next().await.unwrap().unwrap();
    let (code, report) = erase(&builder, &["--projectors-stopped", "u"]).await;
    assert_eq!((code, &report["outcome"]), (Some(0), &json!("erased")));
}

/// A projector makes a row of it, or finds it there, and acknowledges it: that row must not go while the event stays.
#[tokio::test]
async fn a_result_that_comes_while_the_task_is_erased_goes_as_well() {
    let world = World::new().await;
    let answer = Answer::of("t").key("k");
    world.publish(&answer).await;
    world.publish(&Answer::of("other").key("k").failed()).await;
    let projector = world.start().await;
    world.rows("answers", 2).await;
    world.settled().await;
    let mut other = world.database.connect().await;
    let lock = other.transaction().await.unwrap();
    lock.batch_execute("select from answers where task_id = 't' for update")
        .await
        .unwrap();
    let builder = world.projector();
    let erasing = {
        let builder = builder.clone();
        tokio::spawn(async move { erase(&builder, &["t"]).await })
    };
    // The stream was looked through by then.
    world.somebody_waits().await;
    let late = world
        .publish_again(&answer.clone().created("\"2027-01-01T00:00:00Z\""))
        .await;
    lock.rollback().await.unwrap();
    let (code, report) = erasing.await.unwrap();
    assert_eq!(
        (code, &report["outcome"]),
        (Some(0), &json!("erased")),
        "{report}"
    );
    assert_eq!(seqs(&report), [1, late]);
    assert_eq!(world.stream().await.cached_info().state.messages, 1);
    world.settled().await;
    projector.stop().await;
    let winner: String = world.value("select task_id from winners", &[]).await;
    assert_eq!((world.count("answers").await, winner), (1, "other".to_owned()));
    let (code, text) = builder.stdout(&["verify", "--deep"]).await;
    assert_eq!(code, Some(0), "{text}");
}

#[tokio::test]
async fn while_another_table_holds_on_to_the_row_the_events_stay() {
    let world = World::new().await;
    world.publish(&Answer::of("t")).await;
    let projector = world.start().await;
    world.rows("answers", 1).await;
    world.settled().await;
    projector.stop().await;
    for deferred in ["", " deferrable initially deferred"] {
        let refer = format!(
            "create table notes (task_id text references answers{deferred}); insert into notes values ('t')"
        );
        world.sql.batch_execute(&refer).await.unwrap();
        let (code, text) = world.projector().output(&["erase", "t"]).await;
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("notes"), "{text}");
        assert_eq!(world.stream().await.cached_info().state.messages, 1);
        assert_eq!(world.count("answers").await, 1);
        world.sql.batch_execute("drop table notes").await.unwrap();
    }
    let (code, report) = erase(&world.projector(), &["t"]).await;
    assert_eq!((code, &report["outcome"]), (Some(0), &json!("erased")));
}

#[tokio::test]
async fn bodies_that_only_mention_the_id_are_named_and_go_when_they_are_asked_to() {
    let world = World::new().await;
    world.publish(&Answer::of("t-4711")).await;
    world.publish_body(r#"{"task":{"id":"t-4711"}}"#).await; // no status
    world.publish_body("{\"unreadable\":\"somebody else\"").await;
    world.publish(&Answer::of("u").response(r#""like t-4711""#)).await;
    let _projector = world.start().await;
    world.rows("parked", 2).await;
    world.settled().await;
    let (code, report) = erase(&world.projector(), &["t-4711"]).await;
    assert_eq!(
        (code, seqs(&report), &report["mentions"]),
        (Some(0), vec![1], &json!([2]))
    );
    let (code, text) = world
        .projector()
        .stdout(&["erase", "--dry-run", "--mentions", "t-4711"])
        .await;
    assert_eq!(code, Some(0), "{text}");
    let (code, report) = erase(&world.projector(), &["--mentions", "t-4711"]).await;
    assert_eq!(
        (code, seqs(&report), &report["parked"]),
        (Some(0), vec![2], &json!(1))
    );
    assert_eq!(
        (world.count("answers").await, world.count("parked").await),
        (1, 1)
    );
    assert_eq!(rebuilt(&world).await, world.tables().await);
}

#[tokio::test]
async fn a_stream_that_lets_nothing_be_deleted_is_refused_before_any_row_is_touched() {
    let world = World::new().await;
    world.publish(&Answer::of("t")).await;
    let _projector = world.start().await;
    world.rows("answers", 1).await;
    let mut config = world.stream().await.cached_info().config.clone();
    config.deny_delete = true;
    world.connection.jetstream.update_stream(&config).await.unwrap();
    let (code, text) = world.projector().output(&["erase", "t"]).await;
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("erasing event 1") && text.contains("delete"),
        "{text}"
    );
    assert_eq!(world.count("answers").await, 1);
}

#[tokio::test]
async fn while_a_rebuild_runs_nothing_is_touched() {
    let world = World::new().await;
    for task in ["t", "u"] {
        world.publish(&Answer::of(task)).await;
    }
    let projector = world.start().await;
    world.rows("answers", 2).await;
    world.settled().await;
    projector.stop().await;
    let wrong = "update answers set response = null where task_id = 'u'";
    world.sql.batch_execute(wrong).await.unwrap();
    let mut other = world.database.connect().await;
    let lock = other.transaction().await.unwrap();
    lock.batch_execute("select from answers where task_id = 'u' for update")
        .await
        .unwrap();
    let builder = world.projector();
    let rebuilding = {
        let builder = builder.clone();
        tokio::spawn(async move { builder.stdout(&["rebuild"]).await })
    };
    world.somebody_waits().await;
    let (code, report) = erase(&builder, &["--wait", "300ms", "t"]).await;
    assert_eq!((code, &report["outcome"]), (Some(1), &json!("waiting")));
    assert_eq!(world.stream().await.cached_info().state.messages, 2);
    assert_eq!(world.count("answers").await, 2);
    let (code, plan) = erase(&builder, &["--dry-run", "t"]).await;
    assert_eq!((code, &plan["outcome"]), (Some(0), &json!("planned")));

    let (erased, rebuilt) = tokio::join!(erase(&builder, &["t"]), async {
        lock.rollback().await.unwrap();
        rebuilding.await.unwrap()
    });
    assert_eq!((rebuilt.0, erased.0), (Some(0), Some(0)));
    assert_eq!(erased.1["outcome"], "erased");
    assert_eq!(world.count("answers").await, 1);
}

#[tokio::test]
async fn while_a_change_of_rules_is_not_done_nothing_is_touched() {
    let world = World::new().await;
    world.publish(&Answer::of("t")).await;
    let projector = world.start().await;
    world.rows("answers", 1).await;
    world.settled().await;
    projector.stop().await;
    let changing = "update projection set rules = rules || '{\"changing\": true}'";
    world.sql.batch_execute(changing).await.unwrap();
    let output = world.projector().command(&["erase", "t"]).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("under other rules"), "{said}");
    assert_eq!(world.stream().await.cached_info().state.messages, 1);
    assert_eq!(world.count("answers").await, 1);
}
