//! The database: away, restarted, mute, restored from an older state.

use std::time::Duration;

use sandbox::eventually;
use sandbox::servers::{Link, Postgres};
use tokio::time::Instant;

use crate::answer::Answer;
use crate::pooler::Pooler;
use crate::world::{SOON, World, postgres, shared_nats};

fn answers(prefix: &str, count: usize) -> Vec<Answer> {
    (0..count)
        .map(|number| Answer::of(&format!("{prefix}{number}")))
        .collect()
}

#[tokio::test]
async fn an_outage_of_the_database_parks_and_drops_nothing_and_redelivers_nothing_meanwhile() {
    let (mut server, database) = postgres().await;
    let world = World::on(shared_nats().await, database).await;
    let builder = world
        .projector()
        .set("STATEMENT_TIMEOUT", "300ms")
        .set("ACK_WAIT", "1500ms");
    let projector = builder.start_ready().await;
    world.publish_all(answers("a", 10)).await;
    world.rows("answers", 10).await;
    server.kill();
    world.publish_all(answers("b", 50)).await;
    world.publish_body("no json").await;
    projector.unready("database").await;
    projector.unready("batches").await;
    let begun = Instant::now();
    eventually("more than the ack wait has passed", SOON, async || {
        begun.elapsed() > Duration::from_secs(3)
    })
    .await;
    assert_eq!(projector.get("/livez").await.map(|(status, _)| status), Some(200));
    assert_eq!(
        projector.metric("projector_messages_redelivered_total").await,
        0.0
    );
    assert!(projector.log().lines().count() < 25, "{}", projector.log());
    server.restart().await;
    let world = World {
        sql: world.database.connect().await,
        ..world
    };
    world.rows("answers", 60).await;
    world.rows("parked", 1).await;
    projector.ready().await;
}

#[tokio::test]
async fn a_projector_started_before_its_database_begins_when_that_is_there() {
    let (mut server, database) = postgres().await;
    let world = World::on(shared_nats().await, database).await;
    server.kill();
    let projector = world.projector().start();
    projector.unready("database").await;
    world.publish_all(answers("a", 3)).await;
    server.restart().await;
    let world = World {
        sql: world.database.connect().await,
        ..world
    };
    world.rows("answers", 3).await;
    projector.ready().await;
}

#[tokio::test]
async fn killed_sessions_cost_a_few_tries() {
    let world = World::new().await;
    let projector = world.start().await;
    for round in 0..3 {
        world.publish_all(answers(&format!("{round}-"), 20)).await;
        world.rows("answers", (round + 1) * 20).await;
        let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                     where application_name = 'projector' and datname = current_database()";
        assert!(world.value::<i64>(kill, &[]).await >= 1);
    }
    world.publish_all(answers("last", 20)).await;
    world.rows("answers", 80).await;
    let tries = projector.metric("projector_transaction_retries_total").await;
    assert!(tries <= 6.0, "{tries} tries");
    projector.ready().await;
}

#[tokio::test]
async fn a_mute_link_to_the_database_is_given_up_and_holds_no_locks() {
    let world = World::new().await;
    let mut link = Link::to(Postgres::shared().await.addr()).await;
    let projector = world
        .projector()
        .set("DATABASE_URL", world.database.url_via(&link))
        .set("STATEMENT_TIMEOUT", "500ms")
        .start_ready()
        .await;
    // A statement of the projector waits for this row, with others of its batch locked, when the link goes mute.
    world.publish(&Answer::of("b")).await;
    world.rows("answers", 1).await;
    let mut other = world.database.connect().await;
    let holding = other.transaction().await.unwrap();
    holding
        .batch_execute("select 1 from answers for update")
        .await
        .unwrap();
    world
        .publish_all([
            Answer::of("a"),
            Answer::of("b").created("\"2026-11-30T13:00:00Z\"").response("2"),
        ])
        .await;
    let again = Answer::of("b").created("\"2026-11-30T13:00:00Z\"").response("2");
    world.publish_again(&again).await;
    let sessions = |state: &str| {
        format!(
            "select count(*) from pg_stat_activity where application_name = 'projector'
                and datname = current_database() and {state}"
        )
    };
    let waiting = sessions("wait_event_type = 'Lock'");
    eventually("a statement waits for the row", SOON, async || {
        world.value::<i64>(&waiting, &[]).await > 0
    })
    .await;
    link.mute().await;
    let locks = "select count(*) from pg_locks join pg_stat_activity using (pid)
                  where application_name = 'projector' and datname = current_database() and locktype <> 'virtualxid'";
    eventually(
        "no session of it holds or awaits a lock",
        SOON,
        async || match world.value::<i64>(locks, &[]).await {
            0 => Ok(()),
            held => Err(held),
        },
    )
    .await;
    projector.unready("database").await;
    holding.rollback().await.unwrap();
    link.restore().await;
    world.rows("answers", 2).await;
    world.settled().await;
    let newest: String = world
        .value("select response::text from answers where task_id = 'b'", &[])
        .await;
    assert_eq!(newest, "2");
    projector.ready().await;
}

#[tokio::test]
async fn behind_a_pooler_that_gives_each_transaction_another_session_everything_works() {
    let world = World::new().await;
    let pooler = Pooler::start(&world.database, 3).await;
    let builder = world.projector().set("DATABASE_URL", pooler.url());
    let projectors = [builder.start_ready().await, builder.start_ready().await];
    for round in 0..20 {
        world.publish_all(answers(&format!("{round}-"), 5)).await;
        world.publish_body(format!("no json {round}")).await;
        world.rows("answers", (round + 1) * 5).await;
    }
    world.settled().await;
    world.rows("parked", 20).await;
    for projector in projectors {
        assert_eq!(projector.metric("projector_transaction_retries_total").await, 0.0);
        let log = projector.stop().await;
        assert!(!log.contains("not well"), "{log}");
    }
    assert!(pooler.switches() > 40, "{} switches", pooler.switches());
}

#[tokio::test]
async fn several_projectors_on_the_same_few_tasks_never_deadlock() {
    let world = World::new().await;
    let builder = world.projector().set("BATCH_MESSAGES", 20);
    let projectors = [
        builder.start_ready().await,
        builder.start_ready().await,
        builder.start_ready().await,
    ];
    let mut published = 0;
    for hour in 1..24 {
        for minute in 0..20 {
            let task = format!("t{}", (hour * 7 + minute * 3) % 5);
            let answer = Answer::of(&task)
                .key(&format!("job{}", minute % 3))
                .created(&format!("\"2026-11-29T{hour:02}:{minute:02}:00Z\""))
                .response(format!("[{hour},{minute}]"));
            world.publish_again(&answer).await;
            published += 1;
        }
    }
    world.settled().await;
    let mut handled = 0.0;
    let mut working = 0;
    for projector in &projectors {
        let own = projector.metric("projector_rows_applied_total").await
            + projector.metric("projector_events_unchanged_total").await;
        handled += own;
        working += i32::from(own > 0.0);
        assert_eq!(projector.metric("projector_transaction_retries_total").await, 0.0);
    }
    assert!(handled >= f64::from(published), "{handled}");
    assert!(working >= 2, "{working} projectors worked");
    assert_eq!(world.count("parked").await, 0);
    let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
    assert_eq!(world.value::<i64>(deadlocks, &[]).await, 0);
    // The latest of each task and of each job.
    let wrong =
        "select count(*) from answers a where a.response <> (select jsonb_build_array(max(h), max(m)) from (
                   select h, m from generate_series(1, 23) h, generate_series(0, 19) m
                    where 't' || ((h * 7 + m * 3) % 5) = a.task_id order by h desc, m desc limit 1) newest)";
    assert_eq!(world.value::<i64>(wrong, &[]).await, 0);
    let winners = "select count(*) from winners where created_at >= '2026-11-29 23:17:00+00'";
    assert_eq!(world.value::<i64>(winners, &[]).await, 3);
}

#[tokio::test]
async fn a_database_restored_from_an_older_state_gets_what_it_lost() {
    let world = World::new().await;
    let projector = world.start().await;
    world.publish_all(answers("a", 30)).await;
    world.rows("answers", 30).await;
    projector.stop().await;
    let backup = format!("{}_restored", world.database.name());
    let server = sql(Postgres::shared().await.url()).await;
    drop(world.sql);
    eventually("nobody is connected to the database", SOON, async || {
        let copy = format!("create database {backup} template {}", world.database.name());
        server.batch_execute(&copy).await
    })
    .await;

    let world = World {
        sql: world.database.connect().await,
        ..world
    };
    let projector = world.start().await;
    world.publish_all(answers("b", 20)).await;
    world.rows("answers", 50).await;
    world.settled().await;
    projector.stop().await;

    // The backup takes the place of the database: its rows of `b` are gone, and their messages acknowledged.
    let restored_url = world.database.url().replace(world.database.name(), &backup);
    let restored = sql(restored_url.clone()).await;
    let builder = world.projector().set("DATABASE_URL", &restored_url);
    let projectors = [
        builder.start_ready().await,
        builder.start_ready().await,
        builder.start_ready().await,
    ];
    eventually("all rows are there again", SOON, async || {
        let count: i64 = restored
            .query_one("select count(*) from answers", &[])
            .await
            .unwrap()
            .get(0);
        if count == 50 { Ok(()) } else { Err(count) }
    })
    .await;
    let mut rewinds = 0.0;
    for projector in projectors {
        rewinds += projector.metric("projector_consumer_rewinds_total").await;
        projector.stop().await;
    }
    assert_eq!(rewinds, 1.0, "one projector starts the consumer anew for all");
    drop(restored);
    let _ = server
        .batch_execute(&format!("drop database {backup} with (force)"))
        .await;
}

#[tokio::test]
async fn a_crash_of_the_database_server_loses_nothing_and_is_said() {
    let (mut server, database) = postgres().await;
    let world = World::on(shared_nats().await, database).await;
    let projector = world.start().await;
    world.publish_all(answers("a", 30)).await;
    world.rows("answers", 30).await;
    server.restart().await;
    world.publish_all(answers("b", 30)).await;
    let world = World {
        sql: world.database.connect().await,
        ..world
    };
    world.rows("answers", 60).await;
    eventually("the claim is renewed", SOON, async || {
        projector
            .log()
            .contains("the database was restarted, restored or replaced")
    })
    .await;
    projector.ready().await;
}

#[tokio::test]
async fn an_older_state_put_back_into_the_tables_is_noticed_and_then_done_with() {
    let world = World::new().await;
    let projector = world.start().await;
    let other = world.start().await;
    world.publish_all(answers("a", 30)).await;
    world.rows("answers", 30).await;
    // Both have seen how far it had come: one that has not cannot tell that it went back.
    projector.metric_is("projector_floor", 30.0).await;
    other.metric_is("projector_floor", 30.0).await;
    world
        .sql
        .batch_execute(
            "begin; delete from answers where stream_seq > 10; update projection set floor_seq = 10, floor_msg_id = 'a9'; commit",
        )
        .await
        .unwrap();
    world.rows("answers", 30).await;
    projector.ready().await;
    eventually("the floor rises again", SOON, async || {
        match world.value::<i64>("select floor_seq from projection", &[]).await {
            30 => Ok(()),
            floor => Err(floor),
        }
    })
    .await;
}

#[tokio::test]
async fn the_floor_is_what_is_committed_and_acknowledged() {
    let world = World::new().await;
    let projector = world.start().await;
    world.publish_all(answers("a", 7)).await;
    projector.metric_is("projector_floor", 7.0).await;
    let row = world
        .sql
        .query_one("select floor_seq, floor_msg_id, rules::text from projection", &[])
        .await
        .unwrap();
    let found: (i64, String, String) = (row.get(0), row.get(1), row.get(2));
    assert_eq!(
        found,
        (7, "a6".to_owned(), r#"{"rerun_suffix": true}"#.to_owned())
    );
    // Written once more at the end, so that a stop leaves nothing to do again.
    let slow = world.projector().set("FLOOR_INTERVAL", "1h").start_ready().await;
    projector.stop().await;
    world.publish(&Answer::of("last")).await;
    world.rows("answers", 8).await;
    slow.stop().await;
    assert_eq!(
        world.value::<i64>("select floor_seq from projection", &[]).await,
        8
    );
}

#[tokio::test]
async fn another_stream_under_the_same_name_is_reported_and_projected() {
    let world = World::new().await;
    let projector = world.start().await;
    world.publish_all(answers("a", 3)).await;
    world.rows("answers", 3).await;
    world
        .connection
        .jetstream
        .delete_stream(&world.spec.name)
        .await
        .unwrap();
    stream::declare::declare(&world.connection, &world.spec)
        .await
        .unwrap();
    world.publish_all(answers("b", 3)).await;
    world.rows("answers", 6).await;
    projector
        .unready("stream: the rows came from a stream created at")
        .await;
    // The documented way to accept it.
    world.sql.batch_execute("delete from projection").await.unwrap();
    projector.ready().await;
    world.publish(&Answer::of("c")).await;
    world.rows("answers", 7).await;
}

#[tokio::test]
async fn a_stream_that_lost_its_end_is_reported_and_projected_from_its_beginning() {
    let world = World::new().await;
    let projector = world.start().await;
    world.publish_all(answers("a", 5)).await;
    projector.metric_is("projector_floor", 5.0).await;
    projector.stop().await;
    for (change, words) in [
        (
            "update projection set floor_msg_id = 'another'",
            "the stream holds another message",
        ),
        ("update projection set floor_seq = 99", "it has lost its end"),
    ] {
        world
            .sql
            .batch_execute(&format!("{change}; truncate answers"))
            .await
            .unwrap();
        let projector = world.projector().start();
        projector.unready(words).await;
        world.rows("answers", 5).await;
        projector.stop().await;
    }
}

#[tokio::test]
async fn a_consumer_that_stands_for_another_database_gets_no_acknowledgment() {
    let world = World::new().await;
    let _projector = world
        .projector()
        .set("FLOOR_INTERVAL", "1h") // nobody looks at the consumer meanwhile
        .start_ready()
        .await;
    world.publish(&Answer::of("before")).await;
    world.settled().await;
    let mut config = world.consumer().await.unwrap().config;
    config
        .metadata
        .insert("answerlog.claim".to_owned(), "another database".to_owned());
    let claimed = world.stream().await.update_consumer(config).await;
    claimed.expect("metadata can be changed");
    // What is delivered behind an event shows that its acknowledgment would have arrived.
    for (number, task) in (2..).zip(["taken", "behind it"]) {
        world.publish(&Answer::of(task)).await;
        world.rows("answers", number).await;
    }
    let consumer = world.consumer().await.unwrap();
    assert_eq!(consumer.ack_floor.stream_sequence, 1);
    assert_eq!(consumer.num_ack_pending, 2);
}

async fn sql(url: String) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(async { connection.await.unwrap_or_default() });
    client
}
