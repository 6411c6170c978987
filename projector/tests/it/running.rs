//! The process: under load, stalled, stopped, killed.

use std::time::Duration;

use nix::sys::signal::Signal;
use sandbox::eventually;
use sandbox::servers::{Link, Postgres};

use crate::answer::Answer;
use crate::world::{SOON, World, postgres, shared_nats};

fn answers(count: usize) -> impl Iterator<Item = Answer> {
    (0..count).map(|number| Answer::of(&format!("t{number}")).key(&format!("job{}", number / 2)))
}

#[tokio::test]
async fn a_backlog_of_30_000_drains_in_bounded_memory() {
    let world = World::new().await;
    world.publish_all(answers(30_000)).await;
    let projector = world.start().await;
    let drained = Duration::from_secs(60);
    eventually("all rows are there", drained, async || {
        match world.count("answers").await {
            30_000 => Ok(()),
            count => Err(count),
        }
    })
    .await;
    assert_eq!(world.count("winners").await, 15_000);
    let memory = projector.peak_memory_mib();
    assert!(memory < 128, "{memory} MiB");
}

#[tokio::test]
async fn a_stalled_loop_is_not_ready_for_a_reason_and_comes_back_by_itself() {
    let world = World::new().await;
    let builder = world
        .projector()
        .set("STATEMENT_TIMEOUT", "300ms")
        .set("ACK_WAIT", "2s");
    let projector = builder.start_ready().await;
    let mut other = world.database.connect().await;
    let lock = other.transaction().await.unwrap();
    lock.batch_execute("lock table answers in access exclusive mode")
        .await
        .unwrap();
    world.publish(&Answer::of("a")).await;
    projector
        .unready("batches: a batch of 1 messages is not committed in time")
        .await;
    assert_eq!(projector.get("/livez").await.map(|(status, _)| status), Some(200));
    lock.rollback().await.unwrap();
    world.rows("answers", 1).await;
    projector.ready().await;
}

#[tokio::test]
async fn one_row_that_the_database_refuses_is_parked_and_the_others_of_its_batch_are_not() {
    let world = World::new().await;
    // As an index on an expression of the response can do.
    let refuse = "create function refuse() returns trigger language plpgsql as $$ begin
                    if new.response ->> 'odd' is not null then
                      raise exception 'no such number' using errcode = 'numeric_value_out_of_range';
                    end if;
                    return new; end $$;
                  create trigger refuse before insert on answers for each row execute function refuse()";
    world.sql.batch_execute(refuse).await.unwrap();
    let odd = |number: usize| number % 50 == 7;
    let all = (0..200).map(|number| {
        let response = if odd(number) { r#"{"odd":1}"# } else { "1" };
        Answer::of(&format!("t{number}")).response(response)
    });
    world.publish_all(all).await;
    let projector = world.start().await;
    world.rows("answers", 196).await;
    world.rows("parked", 4).await;
    let reason: (String, String) = {
        let row = world
            .sql
            .query_one("select reason, detail from parked limit 1", &[])
            .await
            .unwrap();
        (row.get(0), row.get(1))
    };
    assert_eq!(
        reason,
        ("database_refuses".to_owned(), "22003: no such number".to_owned())
    );
    let tries = projector.metric("projector_transaction_retries_total").await;
    assert!(tries < 4.0 * 9.0, "{tries} tries for 4 bad rows of 200");
    world.settled().await;
    projector.ready().await;
}

#[tokio::test]
async fn a_constraint_of_somebody_else_is_an_outage_and_parks_nothing() {
    let world = World::new().await;
    world
        .sql
        .batch_execute("alter table answers add constraint odd check (task_id <> 'odd')")
        .await
        .unwrap();
    let projector = world.start().await;
    world.publish_all([Answer::of("odd"), Answer::of("even")]).await;
    projector.unready("batches").await;
    projector.unready("odd").await;
    let log = projector.log();
    assert!(
        !log.contains("COMPLETED"),
        "what is in the row is not logged: {log}"
    );
    assert_eq!(world.count("parked").await, 0);
    world
        .sql
        .batch_execute("alter table answers drop constraint odd")
        .await
        .unwrap();
    world.rows("answers", 2).await;
    projector.ready().await;
    assert_eq!(world.count("parked").await, 0);
}

#[tokio::test]
async fn a_stop_under_load_finishes_what_is_in_hand_and_a_second_signal_is_harmless() {
    let world = World::new().await;
    world.publish_all(answers(3_000)).await;
    let mut projector = world.projector().set("BATCH_MESSAGES", 100).start();
    eventually("it has begun", SOON, async || world.count("answers").await > 100).await;
    projector.signal(Signal::SIGTERM);
    projector.signal(Signal::SIGTERM);
    let status = projector.ended(Duration::from_secs(10)).await;
    assert_eq!(status.code(), Some(0), "{}", projector.log());
    // Everything that was committed is acknowledged: nothing waits to be delivered again.
    let committed = world.count("answers").await;
    let consumer = world.consumer().await.unwrap();
    assert_eq!(consumer.num_ack_pending, 0);
    assert_eq!(
        consumer.ack_floor.stream_sequence,
        u64::try_from(committed).unwrap()
    );
    assert!(committed < 3_000, "it was stopped too late to tell");
    let _next = world.start().await;
    world.rows("answers", 3_000).await;
}

#[tokio::test]
async fn after_a_kill_the_next_one_goes_on_and_changes_nothing_twice() {
    let world = World::new().await;
    world.publish_all(answers(2_000)).await;
    let builder = world
        .projector()
        .set("BATCH_MESSAGES", 100)
        .set("STATEMENT_TIMEOUT", "500ms")
        .set("ACK_WAIT", "2s");
    for least in [100, 500] {
        let projector = builder.start();
        eventually("it is at work", SOON, async || {
            world.count("answers").await > least
        })
        .await;
        projector.crash().await;
    }
    let before = world.tables().await;
    let _last = builder.start_ready().await;
    world.rows("answers", 2_000).await;
    world.settled().await;
    let after: std::collections::HashSet<String> = world.tables().await.into_iter().collect();
    let changed: Vec<_> = before
        .iter()
        .filter(|row| {
            row.contains("COMPLETED,\"2026") && row.matches(',').count() > 6 && !after.contains(*row)
        })
        .collect();
    assert!(changed.is_empty(), "{changed:?}");
    assert_eq!(world.count("parked").await, 0);
}

#[tokio::test]
async fn a_stop_during_an_outage_of_the_database_does_not_wait_for_it() {
    let (mut server, database) = postgres().await;
    let world = World::on(shared_nats().await, database).await;
    let mut projector = world.start().await;
    server.kill();
    world.publish(&Answer::of("a")).await;
    projector.unready("batches").await;
    projector.signal(Signal::SIGTERM);
    let status = projector.ended(Duration::from_secs(8)).await;
    assert_eq!(status.code(), Some(0), "{}", projector.log());
}

#[tokio::test]
async fn a_stop_while_the_link_to_the_database_is_mute_ends_within_the_grace() {
    let world = World::new().await;
    let mut link = Link::to(Postgres::shared().await.addr()).await;
    let mut projector = world
        .projector()
        .set("DATABASE_URL", world.database.url_via(&link))
        .set("STOP_GRACE", "6s")
        .start_ready()
        .await;
    link.mute().await;
    world.publish(&Answer::of("a")).await;
    eventually("it is in hand", SOON, async || {
        world
            .consumer()
            .await
            .is_some_and(|consumer| consumer.num_ack_pending == 1)
    })
    .await;
    projector.signal(Signal::SIGTERM);
    let status = projector.ended(Duration::from_secs(6)).await;
    assert_eq!(status.code(), Some(0), "{}", projector.log());
}
