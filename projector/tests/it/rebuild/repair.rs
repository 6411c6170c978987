//! Tables that somebody changed, put right.

use futures_util::{FutureExt, StreamExt};
use schemas::job_key::Rules;

use super::{dump, history, run, tables_are_the_fold};
use crate::answer::Answer;
use crate::projector::Projector;
use crate::world::{World, event};

/// A world with rows of everything, and nothing under way.
async fn world(results: usize) -> (World, Projector) {
    let world = World::new().await;
    world.publish_all(history(results)).await;
    for answer in history(results).step_by(11) {
        world.publish_again(&answer).await;
    }
    for number in 0..20 {
        world.publish_body(format!("no json {number}")).await;
    }
    for number in 0..5 {
        world
            .publish(&Answer::of(&format!("open{number}")).status("PROCESSING"))
            .await;
    }
    let projector = world.start().await;
    world.rows("answers", i64::try_from(results).unwrap()).await;
    world.rows("parked", 20).await;
    world.settled().await;
    (world, projector)
}

/// What an operator with a shell, a bad script and a bad day can do.
const CORRUPT: &str = r#"
delete from answers where task_id in (select 't' || n from generate_series(100, 110) n);
delete from winners where job_key in (select job_key from winners order by job_key limit 7);
delete from parked where stream_seq in (select stream_seq from parked order by 1 limit 3);

update answers set response = '{"result":{"text":"forged","n":1}}' where task_id in ('t20', 't21', 't22');
update answers set created_at = created_at + interval '1 day' where task_id in ('t23', 't24', 't25');
update answers set stream_seq = stream_seq + 1 where task_id in ('t26', 't27');
update answers set received_at = '2000-01-01' where task_id = 't29';
update answers set status = case status when 'FAILED' then 'COMPLETED' else 'FAILED' end where task_id = 't28';
update winners set task_id = 'nobody' where job_key in (select job_key from winners order by job_key desc limit 5);
update parked set reason = 'because' where stream_seq in (select stream_seq from parked order by 1 desc limit 2);

insert into answers
  select 'ghost' || n, 'ghost' || n, null, status, created_at, response, response_digest, null, via, 1000000 + n, received_at
    from answers, generate_series(1, 4) n where task_id = 't1';
insert into answers
  select 'extra' || n, 'extra' || n, null, status, created_at, response, response_digest, null, via, n, now()
    from answers, generate_series(1, 6) n where task_id = 't1';
insert into winners select 'ghost' || n, 'ghost' || n, 'COMPLETED', now(), 1000000 + n from generate_series(1, 3) n;
insert into winners select 'extra' || n, 'extra' || n, 'COMPLETED', now(), n from generate_series(1, 2) n;
insert into parked select stream_created, n, subject, null, 'because', null, body, parked_at
  from (select * from parked limit 1) p, (values (1), (2), (1000000)) s (n);
"#;

#[tokio::test]
async fn rows_deleted_changed_and_invented_are_counted_and_put_right_under_load() {
    let (world, _first) = world(600).await;
    let _second = world.start().await;
    let (load, live) = super::under_load::Load::start(&world);
    world.sql.batch_execute(CORRUPT).await.unwrap();
    let builder = world.projector();

    let shallow = run(&builder, &["verify"]).await;
    assert_eq!(shallow.code, Some(1), "{shallow:?}");
    assert_eq!(shallow.found("answers"), [11, 7, 6, 4, 0], "{shallow:?}");
    let deep = run(&builder, &["verify", "--deep"]).await;
    assert_eq!(deep.code, Some(1), "{deep:?}");
    let found = [[11, 10, 6, 4, 0], [7, 5, 2, 3, 0], [3, 2, 2, 1, 0]];
    let tables = ["answers", "winners", "parked"];
    assert_eq!(tables.map(|table| deep.found(table)), found, "{deep:?}");

    let rebuilt = run(&builder, &["rebuild"]).await;
    assert_eq!(tables.map(|table| rebuilt.found(table)), found, "{rebuilt:?}");
    // Rows behind the end may be all that is left of an end that was lost.
    let without_invented =
        found.map(|[missing, wrong, not_on_stream, _, _]| [missing, wrong, not_on_stream, 0, 0]);
    assert_eq!(
        tables.map(|table| rebuilt.repaired(table)),
        without_invented,
        "{rebuilt:?}"
    );
    assert_eq!(rebuilt.code, Some(1), "{rebuilt:?}");

    let pruned = run(&builder, &["rebuild", "--prune"]).await;
    assert_eq!(pruned.code, Some(0), "{pruned:?}");
    let invented = found.map(|[_, _, _, invented, _]| [0, 0, 0, invented, 0]);
    assert_eq!(tables.map(|table| pruned.found(table)), invented, "{pruned:?}");
    assert_eq!(tables.map(|table| pruned.repaired(table)), invented, "{pruned:?}");

    load.stop(live).await;
    world.settled().await;
    let clean = run(&builder, &["verify", "--deep"]).await;
    assert_eq!(clean.code, Some(0), "{clean:?}");
    assert_eq!(tables.map(|table| clean.found(table)), [[0; 5]; 3], "{clean:?}");
    tables_are_the_fold(&world, Rules::default()).await;
    assert_eq!(world.count("parked").await, 20);
}

#[tokio::test]
async fn what_is_right_is_left_alone() {
    let (world, projector) = world(200).await;
    projector.stop().await;
    let versions = "select a.task_id || ' ' || a.xmin || ' ' || a.ctid from answers a order by 1";
    let before = world.sql.query(versions, &[]).await.unwrap();
    let (code, text) = world.projector().stdout(&["rebuild"]).await;
    assert_eq!(code, Some(0));
    assert!(text.contains("the tables are what the stream says now"), "{text}");
    let after = world.sql.query(versions, &[]).await.unwrap();
    let texts = |rows: &[tokio_postgres::Row]| rows.iter().map(|row| row.get(0)).collect::<Vec<String>>();
    assert_eq!(texts(&before), texts(&after));
}

/// The row is wrong in such a way that it stands above everything that comes: a projector compares, finds it greater, and
/// acknowledges the event.
#[tokio::test]
async fn an_event_that_a_wrong_row_kept_out_while_the_rebuild_ran_is_not_lost() {
    let (world, _projector) = world(60).await;
    let raise = "update answers set created_at = '2030-01-01' where task_id in ('t23', 't24')";
    world.sql.batch_execute(raise).await.unwrap();
    let mut other = world.database.connect().await;
    let lock = other.transaction().await.unwrap();
    lock.batch_execute("select from answers where task_id = 't23' for update")
        .await
        .unwrap();
    let rebuilding = {
        let builder = world.projector();
        tokio::spawn(async move { run(&builder, &["rebuild"]).await })
    };
    world.somebody_waits().await;
    // Greater than the row should be, less than it is.
    let newer = Answer::of("t24")
        .created("\"2026-11-30T06:00:00Z\"")
        .response(r#"{"result":"newer"}"#);
    let seq = world.publish_event(event(newer.body()).into_divergent()).await;
    world.settled().await;
    lock.rollback().await.unwrap();
    let rebuilt = rebuilding.await.unwrap();
    assert_eq!(rebuilt.code, Some(0), "{rebuilt:?}");
    assert!(rebuilt.number("/replayed/end") < seq, "{rebuilt:?}");
    tables_are_the_fold(&world, Rules::default()).await;
    let found: i64 = world
        .value("select stream_seq from answers where task_id = 't24'", &[])
        .await;
    assert_eq!(found.unsigned_abs(), seq);
}

#[tokio::test]
async fn two_rebuilds_of_a_quiet_stream_agree_in_every_column_however_the_rows_came() {
    let (world, projector) = world(300).await;
    projector.stop().await;
    world.sql.batch_execute(CORRUPT).await.unwrap();
    let builder = world.projector();
    assert_eq!(run(&builder, &["rebuild", "--prune"]).await.code, Some(0));
    let repaired = dump(&world.sql).await;
    world
        .sql
        .batch_execute("truncate answers, winners, parked")
        .await
        .unwrap();
    let loaded = run(&builder, &["rebuild"]).await;
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    assert_eq!(loaded.report["loaded"], true);
    assert_eq!(dump(&world.sql).await, repaired);
}

#[tokio::test]
async fn a_row_that_another_table_refers_to_stays_and_is_told() {
    let (world, projector) = world(40).await;
    projector.stop().await;
    let refer = "insert into answers select 'extra', 'extra', null, status, created_at, response, response_digest, null, via, 2,
                        now() from answers where task_id = 't1';
                 insert into answers select 'other', 'other', null, status, created_at, response, response_digest, null, via, 3,
                        now() from answers where task_id = 't1';
                 create table notes (task_id text collate \"C\" references answers);
                 insert into notes values ('extra'), ('t2')";
    world.sql.batch_execute(refer).await.unwrap();
    let rebuilt = run(&world.projector(), &["rebuild"]).await;
    assert_eq!(rebuilt.code, Some(1), "{rebuilt:?}");
    assert_eq!(rebuilt.number("/referenced"), 1);
    assert_eq!(rebuilt.repaired("answers"), [0, 0, 1, 0, 0]);
    let left = world.count("answers").await;
    assert_eq!(left, 41);
}

#[tokio::test]
async fn a_winner_that_another_table_refers_to_stays_and_is_told() {
    let (world, projector) = world(40).await;
    projector.stop().await;
    let refer = "insert into winners values ('extra', 'extra', 'COMPLETED', now(), 2), ('other', 'other', 'COMPLETED', now(), 3);
                 create table notes (job_key text collate \"C\" references winners on delete restrict);
                 insert into notes values ('extra')";
    world.sql.batch_execute(refer).await.unwrap();
    let rebuilt = run(&world.projector(), &["rebuild"]).await;
    assert_eq!(rebuilt.code, Some(1), "{rebuilt:?}");
    assert_eq!(rebuilt.number("/referenced"), 1);
    assert_eq!(rebuilt.repaired("winners"), [0, 0, 1, 0, 0]);
}

/// As a constraint of the database's own: an index on an expression of the response.
#[tokio::test]
async fn a_row_that_the_database_refuses_is_parked_and_does_not_count_as_missing() {
    let (world, projector) = world(40).await;
    projector.stop().await;
    let refuse = "create function refuse() returns trigger language plpgsql as $$ begin
                    if new.response #>> '{result,text}' = 'answer 7' then
                      raise exception 'no such number' using errcode = 'numeric_value_out_of_range';
                    end if;
                    return new; end $$;
                  create trigger refuse before insert on answers for each row execute function refuse();
                  create table kept as select * from answers where task_id = 't7';
                  delete from answers where task_id in ('t6', 't7', 't8')";
    world.sql.batch_execute(refuse).await.unwrap();
    let rebuilt = run(&world.projector(), &["rebuild"]).await;
    assert_eq!(rebuilt.code, Some(1), "{rebuilt:?}");
    assert_eq!(rebuilt.repaired("answers"), [2, 0, 0, 0, 0], "{rebuilt:?}");
    assert_eq!(rebuilt.number("/refused"), 1);
    let reason: String = world
        .value(
            "select reason || ': ' || detail from parked where task_id = 't7'",
            &[],
        )
        .await;
    assert_eq!(reason, "database_refuses: 22003: no such number");
    let verified = run(&world.projector(), &["verify", "--deep"]).await;
    assert_eq!(verified.number("/refused"), 1);
    assert_eq!(verified.found("answers"), [0; 5], "{verified:?}");

    // The first load says so too.
    let empty = "create table winners_kept as select * from winners; create table answers_kept as select * from answers;
                 create table parked_kept as select * from parked; truncate answers, winners, parked";
    world.sql.batch_execute(empty).await.unwrap();
    let loaded = run(&world.projector(), &["rebuild"]).await;
    assert_eq!(
        (loaded.code, loaded.number("/refused")),
        (Some(1), 1),
        "{loaded:?}"
    );
    let back = "truncate answers, winners, parked; insert into answers select * from answers_kept;
                insert into winners select * from winners_kept; insert into parked select * from parked_kept";
    world.sql.batch_execute(back).await.unwrap();

    // Taken after all, by a projector that tried later.
    let taken = "drop trigger refuse on answers; insert into answers select * from kept";
    world.sql.batch_execute(taken).await.unwrap();
    let rebuilt = run(&world.projector(), &["rebuild"]).await;
    assert_eq!(rebuilt.code, Some(0), "{rebuilt:?}");
    assert_eq!(rebuilt.repaired("answers"), [0; 5], "{rebuilt:?}");
    assert_eq!(rebuilt.repaired("parked"), [0, 0, 1, 0, 0], "{rebuilt:?}");
    assert_eq!(
        (world.count("answers").await, world.count("parked").await),
        (40, 20)
    );
}

/// Whoever changed the reason of a parked message, or parked one that was none, must not cost the result.
#[tokio::test]
async fn a_result_that_the_database_refuses_is_listed_even_where_something_else_was_parked_already() {
    let (world, projector) = world(40).await;
    projector.stop().await;
    let refuse = "create function refuse() returns trigger language plpgsql as $$ begin
                    raise exception 'no such number' using errcode = 'numeric_value_out_of_range'; end $$;
                  create trigger refuse before insert on answers for each row when (new.task_id in ('t7', 't8'))
                    execute function refuse();
                  insert into parked select p.stream_created, a.stream_seq, p.subject, null, 'because', null, 'body', p.parked_at
                    from answers a, (select * from parked limit 1) p where a.task_id = 't7';
                  delete from answers where task_id in ('t7', 't8')";
    world.sql.batch_execute(refuse).await.unwrap();
    for _ in 0..2 {
        let rebuilt = run(&world.projector(), &["rebuild"]).await;
        assert_eq!(rebuilt.number("/refused"), 2, "{rebuilt:?}");
        let listed: i64 = world
            .value(
                "select count(*) from parked where task_id in ('t7', 't8') and reason = 'database_refuses'",
                &[],
            )
            .await;
        assert_eq!(listed, 2, "{rebuilt:?}");
    }
}

/// Of two tasks of a job the database refuses the greater one; so the other one wins the job, whatever was lost.
#[tokio::test]
async fn a_task_that_the_database_refuses_does_not_win_its_job() {
    let world = World::new().await;
    let refuse = "create function refuse() returns trigger language plpgsql as $$ begin
                    raise exception 'no such number' using errcode = 'numeric_value_out_of_range'; end $$;
                  create trigger refuse before insert on answers for each row when (new.task_id like 'z%')
                    execute function refuse()";
    world.sql.batch_execute(refuse).await.unwrap();
    let same_time = |task: &str| Answer::of(task).created("\"2026-11-30T06:00:00Z\"");
    for task in ["a1", "z1"] {
        world.publish(&same_time(task).key("two")).await;
    }
    world.publish(&same_time("z2").key("one")).await;
    let projector = world.start().await;
    world.rows("parked", 2).await;
    world.settled().await;
    projector.stop().await;
    let live = dump(&world.sql).await;

    world
        .sql
        .batch_execute("truncate answers, winners, parked; insert into winners values ('other', 'a0', 'FAILED', null, 1)")
        .await
        .unwrap();
    let rebuilt = run(&world.projector(), &["rebuild"]).await;
    assert_eq!(
        (rebuilt.code, rebuilt.number("/refused")),
        (Some(1), 2),
        "{rebuilt:?}"
    );
    assert_eq!(dump(&world.sql).await, live, "{rebuilt:?}");

    // As a rebuild that did not know better has left them.
    let crown =
        "update winners set task_id = 'z1', stream_seq = p.stream_seq from parked p where p.task_id = 'z1';
                 insert into winners select 'one', 'z2', status, created_at, p.stream_seq
                   from winners w, parked p where w.job_key = 'two' and p.task_id = 'z2'";
    world.sql.batch_execute(crown).await.unwrap();
    let verified = run(&world.projector(), &["verify"]).await;
    assert_eq!(verified.code, Some(1), "{verified:?}");
    assert_eq!(verified.found("winners"), [0, 1, 1, 0, 0], "{verified:?}");
    let rebuilt = run(&world.projector(), &["rebuild"]).await;
    assert_eq!(rebuilt.code, Some(0), "{rebuilt:?}");
    assert_eq!(dump(&world.sql).await, live, "{rebuilt:?}");
}

#[tokio::test]
async fn rows_far_apart_are_put_right_by_going_through_the_stream_once() {
    let (world, projector) = world(4_000).await;
    projector.stop().await;
    let asked = format!("$JS.API.STREAM.MSG.GET.{}", world.spec.name);
    let mut single = world.connection.client.subscribe(asked).await.unwrap();
    let made = format!("$JS.API.CONSUMER.CREATE.{}.>", world.spec.name);
    let mut consumers = world.connection.client.subscribe(made).await.unwrap();
    world.connection.client.flush().await.unwrap();
    let lose = "delete from answers where stream_seq % 100 = 7; update answers set response = null where stream_seq % 100 = 9;
                delete from parked where stream_seq % 3 = 0";
    world.sql.batch_execute(lose).await.unwrap();
    let rebuilt = run(&world.projector(), &["rebuild"]).await;
    assert_eq!(rebuilt.code, Some(0), "{rebuilt:?}");
    let [missing, wrong, ..] = rebuilt.repaired("answers");
    assert!(missing > 35 && wrong > 35, "{rebuilt:?}");
    tables_are_the_fold(&world, Rules::default()).await;
    let count = |subscriber: &mut async_nats::Subscriber| {
        std::iter::from_fn(|| subscriber.next().now_or_never().flatten()).count()
    };
    world.connection.client.flush().await.unwrap();
    let (single, consumers) = (count(&mut single), count(&mut consumers));
    assert!(single > 0 && single < 20, "{single} events were read one by one");
    // The replay before the comparison, the one for what is due, and the one of this test itself.
    assert_eq!(consumers, 3, "the stream was gone through {consumers} times");
}

/// As after a broker that was restored from a backup older than the rows: it gives sequences out again, and a row of before
/// names an event that is younger than itself.
#[tokio::test]
async fn rows_of_an_end_that_the_stream_lost_are_kept_until_they_are_pruned() {
    let (world, projector) = world(40).await;
    projector.stop().await;
    let end = world.stream().await.get_info().await.unwrap().state.last_sequence;
    let nonfinal = end;
    let unread: i64 = world.value("select max(stream_seq) from parked", &[]).await;
    let beyond = end + 100;
    let lose = format!(
        r#"insert into answers
             select 'paid' || n, 'paid' || n, null, status, created_at, response, sha256('paid'), null, via, n, received_at
               from answers, unnest(array[10, 11, {nonfinal}, {unread}, {beyond}]) n where task_id = 't0';
           insert into winners select job_key, task_id, status, created_at, stream_seq from answers where task_id like 'paid%';
           insert into parked select stream_created, 12, subject, null, reason, null, 'lost', (select min(received_at) from answers)
             from parked limit 1;
           update parked set body = 'lost', parked_at = (select min(received_at) from answers) where stream_seq = {unread} - 1;
           update answers set received_at = (select min(received_at) from answers) where task_id = 't30';
           delete from projection"#
    );
    world.sql.batch_execute(&lose).await.unwrap();
    let builder = world.projector();
    let kept = run(&builder, &["rebuild"]).await;
    assert_eq!(kept.code, Some(1), "{kept:?}");
    assert_eq!(kept.found("answers"), [0, 1, 0, 1, 4], "{kept:?}");
    assert_eq!(kept.found("winners"), [0, 0, 0, 1, 4], "{kept:?}");
    assert_eq!(kept.found("parked"), [0, 0, 0, 0, 2], "{kept:?}");
    assert_eq!(kept.repaired("answers"), [0, 1, 0, 0, 0], "{kept:?}");
    assert_eq!(
        (world.count("answers").await, world.count("parked").await),
        (45, 21)
    );

    let pruned = run(&builder, &["rebuild", "--prune"]).await;
    assert_eq!(pruned.code, Some(0), "{pruned:?}");
    tables_are_the_fold(&world, Rules::default()).await;
    let clean = run(&builder, &["verify", "--deep"]).await;
    let tables = ["answers", "winners", "parked"];
    assert_eq!(tables.map(|table| clean.found(table)), [[0; 5]; 3], "{clean:?}");
}

/// What a server says of a statement that takes too long, said of one that has too many rows: the limit itself is long.
#[tokio::test]
async fn what_is_too_slow_in_one_statement_is_done_in_parts() {
    let world = World::new().await;
    world.publish_all(history(120)).await;
    let slow = "create function linger() returns trigger language plpgsql as $$ begin
                  if (select count(*) from n) > 20 then
                    raise exception 'canceling statement due to statement timeout' using errcode = 'query_canceled';
                  end if;
                  return null; end $$";
    world.sql.batch_execute(slow).await.unwrap();
    for table in ["answers", "winners"] {
        for event in ["insert", "update"] {
            let trigger = format!(
                "create trigger linger_{event} after {event} on {table} referencing new table as n
                   for each statement execute function linger()"
            );
            world.sql.batch_execute(&trigger).await.unwrap();
        }
    }
    let builder = world.projector();
    let loaded = run(&builder, &["rebuild"]).await;
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    tables_are_the_fold(&world, Rules::default()).await;

    let corrupt = "set session_replication_role = replica;
                   update answers set response = null; update winners set status = 'FAILED', stream_seq = 1;
                   reset session_replication_role";
    world.sql.batch_execute(corrupt).await.unwrap();
    let rebuilt = run(&builder, &["rebuild"]).await;
    assert_eq!(rebuilt.code, Some(0), "{rebuilt:?}");
    assert_eq!(rebuilt.repaired("answers")[1], 120, "{rebuilt:?}");
    tables_are_the_fold(&world, Rules::default()).await;
}
