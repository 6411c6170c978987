//! The first load of an empty database, and how a projector goes on from there.

use std::time::Duration;

use sandbox::eventually;
use sandbox::servers::Postgres;
use schemas::job_key::Rules;

use super::{LONG, dump, history, run, tables_are_the_fold};
use crate::answer::Answer;
use crate::world::{SOON, World, nats};

#[tokio::test]
async fn empty_tables_are_filled_and_a_projector_begins_behind_that() {
    let world = World::new().await;
    world.publish_all(history(2_500)).await;
    // Copies in the same stretch of the stream and in others.
    for answer in history(2_500).step_by(100) {
        world.publish_again(&answer).await;
    }
    world.publish_body("no json").await;
    let builder = world.projector();
    let pending = run(&builder, &["verify"]).await;
    assert_eq!(pending.code, Some(0), "{pending:?}");
    assert_eq!(pending.number("/answers/found/pending"), 2_500);

    let loaded = run(&builder, &["rebuild"]).await;
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    assert_eq!(loaded.report["loaded"], true);
    assert_eq!(loaded.number("/replayed/events"), 2_526);
    let rows = async |table: &str| u64::try_from(world.count(table).await).unwrap();
    for table in ["answers", "winners", "parked"] {
        assert_eq!(
            loaded.number(&format!("/{table}/rows")),
            rows(table).await,
            "{table}"
        );
    }
    tables_are_the_fold(&world, Rules::default()).await;
    assert_eq!(world.count("parked").await, 1);

    let before = dump(&world.sql).await;
    let projector = world.start().await;
    world.publish(&Answer::of("new")).await;
    world.rows("answers", 2_501).await;
    world.settled().await;
    assert_eq!(projector.metric("projector_rows_applied_total").await, 1.0);
    assert_eq!(projector.metric("projector_events_unchanged_total").await, 0.0);
    let after = dump(&world.sql).await;
    assert_eq!(after.len(), before.len() + 2);
    projector.ready().await;
}

#[tokio::test]
async fn projectors_may_fill_the_tables_at_the_same_time() {
    let world = World::new().await;
    world.publish_all(history(3_000)).await;
    let _projectors = [world.start().await, world.start().await];
    let loaded = run(&world.projector(), &["rebuild"]).await;
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    world.rows("answers", 3_000).await;
    world.settled().await;
    tables_are_the_fold(&world, Rules::default()).await;
}

#[tokio::test]
async fn a_first_load_that_was_killed_is_gone_on_with() {
    let world = World::new().await;
    world.publish_all(history(4_000)).await;
    let builder = world.projector();
    let mut child = builder.command(&["rebuild"]).spawn().unwrap();
    eventually("some rows are there", SOON, async || {
        world.count("answers").await > 0
    })
    .await;
    child.kill().await.unwrap();
    let rebuilt = run(&builder, &["rebuild"]).await;
    assert_eq!(rebuilt.code, Some(0), "{rebuilt:?}");
    tables_are_the_fold(&world, Rules::default()).await;
}

/// As after a first load that was killed, or beside a projector that was started before it.
#[tokio::test]
async fn tables_with_few_rows_are_filled_and_what_was_wrong_in_them_is_put_right() {
    let world = World::new().await;
    world.publish_all(history(2_000)).await;
    let builder = world.projector();
    assert_eq!(run(&builder, &["rebuild"]).await.code, Some(0));
    let lose = "delete from answers where stream_seq > 50; delete from winners where stream_seq > 30;
                update answers set created_at = '2026-12-24', response = null where task_id = 't7';
                insert into answers select 'extra', 'extra', null, status, created_at, response, response_digest, null, via, 2, now()
                  from answers where task_id = 't1'";
    world.sql.batch_execute(lose).await.unwrap();
    let rebuilt = run(&builder, &["rebuild"]).await;
    assert_eq!(rebuilt.code, Some(0), "{rebuilt:?}");
    assert_eq!(rebuilt.report["loaded"], true, "{rebuilt:?}");
    assert_eq!(rebuilt.number("/answers/rows"), 2_001, "{rebuilt:?}");
    assert_eq!(rebuilt.found("answers"), [0, 1, 1, 0, 0], "{rebuilt:?}");
    assert_eq!(rebuilt.repaired("answers"), [0, 1, 1, 0, 0], "{rebuilt:?}");
    tables_are_the_fold(&world, Rules::default()).await;
}

#[tokio::test]
async fn what_the_database_refuses_is_told_when_tables_with_few_rows_are_filled() {
    let world = World::new().await;
    world.publish_all(history(200)).await;
    let builder = world.projector();
    assert_eq!(run(&builder, &["rebuild"]).await.code, Some(0));
    let refuse = "create function refuse() returns trigger language plpgsql as $$ begin
                    raise exception 'no such number' using errcode = 'numeric_value_out_of_range'; end $$;
                  create trigger refuse before insert on answers for each row when (new.task_id = 't70') execute function refuse();
                  delete from answers where stream_seq > 5; delete from winners where stream_seq > 5";
    world.sql.batch_execute(refuse).await.unwrap();
    let rebuilt = run(&builder, &["rebuild"]).await;
    assert_eq!(rebuilt.report["loaded"], true, "{rebuilt:?}");
    assert_eq!(
        (rebuilt.code, rebuilt.number("/refused")),
        (Some(1), 1),
        "{rebuilt:?}"
    );
    assert_eq!(rebuilt.report["equal"], false, "{rebuilt:?}");
}

/// Of a session of a first load whose command lost the other one may still commit what it has in hand.
#[tokio::test]
async fn both_sessions_of_a_first_load_keep_other_commands_away() {
    let world = World::new().await;
    world.publish_all(history(4_000)).await;
    let locks = "select distinct l.pid, l.objid from pg_locks l
                  where l.locktype = 'advisory' and l.granted and l.classid = any($1::int8[]::oid[])
                    and l.database = (select oid from pg_database where datname = current_database())";
    let kinds: Vec<i64> = vec![0x7265_6275, 0x7265_6276];
    let mut other = world.database.connect().await;
    let lock = other.transaction().await.unwrap();
    lock.batch_execute("lock answers in share mode").await.unwrap();
    let builder = world.projector();
    let mut child = builder.command(&["rebuild"]).spawn().unwrap();
    eventually("two sessions are locked", SOON, async || {
        match world.sql.query(locks, &[&kinds]).await.unwrap().len() {
            2 => Ok(()),
            found => Err(found),
        }
    })
    .await;
    child.kill().await.unwrap();
    lock.rollback().await.unwrap();

    let second = "select pg_advisory_lock(1919246966, to_regclass('projection')::oid::int8::bit(32)::int4)";
    let unlock = second.replace("pg_advisory_lock", "pg_advisory_unlock");
    world.sql.execute(second, &[]).await.unwrap();
    let refused = run(&builder, &["verify"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.said.contains("another verify or rebuild"), "{refused:?}");
    world.sql.execute(&unlock, &[]).await.unwrap();
    let rebuilt = run(&builder, &["rebuild"]).await;
    assert_eq!(rebuilt.code, Some(0), "{rebuilt:?}");
}

#[tokio::test]
async fn memory_does_not_grow_with_the_stream_or_its_largest_bodies() {
    let world = World::new().await;
    world.publish_all(history(20_000)).await;
    let large = format!("\"{}\"", "x".repeat(7 << 20));
    for number in 0..4 {
        let answer = Answer::of(&format!("large{number}")).response(large.clone());
        world.publish(&answer).await;
    }
    for arguments in [&["rebuild"][..], &["verify", "--deep"], &["rebuild"]] {
        takes_little_memory(&world, arguments).await;
    }
    assert_eq!(world.count("answers").await, 20_004);
}

/// All of them come before the first event that there is, and together they are larger than the command may be.
#[tokio::test]
async fn memory_does_not_grow_with_the_rows_whose_events_are_gone() {
    let world = World::new().await;
    world.publish_all(history(2_000)).await;
    assert_eq!(run(&world.projector(), &["rebuild"]).await.code, Some(0));
    world.stream().await.purge().sequence(1_900).await.unwrap();
    let many = "insert into answers
                  select repeat('x', 10000) || n, 'x', null, status, created_at, response, response_digest, null, via, n % 1800 + 1,
                         received_at
                    from answers, generate_series(1, 25000) n where task_id = 't1'";
    world.sql.batch_execute(many).await.unwrap();
    takes_little_memory(&world, &["verify"]).await;
}

/// Runs a command to its good end, and looks how large it was.
async fn takes_little_memory(world: &World, arguments: &[&str]) {
    let mut child = world.projector().command(arguments).spawn().unwrap();
    let pid = child.id().unwrap();
    let mut peak = 0;
    let status = loop {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) >> 10);
        match tokio::time::timeout(Duration::from_millis(5), child.wait()).await {
            Ok(status) => break status.unwrap(),
            Err(_) => continue,
        }
    };
    assert_eq!(status.code(), Some(0), "{arguments:?}");
    assert!(peak > 0 && peak < 200, "{arguments:?} took {peak} MiB");
}

/// The broker writes down what is acknowledged a moment later than it says so, and may lose it altogether; the
/// stream it does not lose.
#[tokio::test]
async fn a_broker_that_lost_its_acknowledgments_does_not_make_the_projectors_begin_again() {
    let mut nats = nats().await;
    let database = Postgres::shared().await.fresh_database().await;
    let world = World::on(&nats, database).await;
    world.publish_all(history(12_000)).await;
    let projector = world.start().await;
    eventually("all rows are there and noted", LONG, async || {
        let floor = "select count(*) from projection where floor_seq = 12000";
        match world.value::<i64>(floor, &[]).await {
            1 => Ok(()),
            _ => Err(world.count("answers").await),
        }
    })
    .await;
    let rewinds = projector.metric("projector_consumer_rewinds_total").await;
    nats.kill();
    let state = nats
        .store_dir()
        .join("jetstream/$G/streams")
        .join(&world.spec.name)
        .join("obs/projector/o.dat");
    std::fs::remove_file(&state).unwrap();
    nats.restart().await;
    eventually("the consumer is past what is projected", SOON, async || {
        let consumer = world.consumer().await.ok_or("no consumer")?;
        match consumer.num_pending {
            0 => Ok(()),
            _ => Err("messages wait"),
        }
    })
    .await;
    world.publish(&Answer::of("new")).await;
    world.rows("answers", 12_001).await;
    assert_eq!(
        projector.metric("projector_consumer_rewinds_total").await,
        rewinds + 1.0
    );
    let again = projector.metric("projector_events_unchanged_total").await;
    assert!(again < 12_000.0, "all of it was projected again: {again}");
    projector.ready().await;
}
