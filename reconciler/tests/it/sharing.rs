//! Several reconcilers, and the edges of a sweep.

use std::collections::HashMap;
use std::time::Duration;

use database::{Connector, Database, Limits};
use reconciler::submissions::{Claim, Claimed, Submissions};
use sandbox::api::Fault;
use sandbox::eventually;

use crate::world::{SOON, World};

fn calls_by_task(world: &World) -> HashMap<String, usize> {
    let mut calls = HashMap::new();
    for call in world.asked() {
        *calls.entry(call.task.unwrap()).or_default() += 1;
    }
    calls
}

#[tokio::test]
async fn several_share_the_work_and_ask_for_nothing_twice() {
    let world = World::new().await;
    let _projector = world.project();
    let tasks: Vec<String> = (0..300).map(|_| world.finished()).collect();
    for task in &tasks {
        world.submit(task).await;
    }
    // Longer than the projection may take: until then nothing is due again.
    let builder = world
        .reconciler()
        .set("CHECK_INTERVAL", "10m")
        .set("MAX_CHECK_INTERVAL", "30m");
    let reconcilers = [builder.start(), builder.start(), builder.start()];
    // And one that is called by hand beside them.
    let once = builder.output(&["once"]).await;
    world.rows("submitted_tasks where state = 'SETTLED'", 300).await;
    let calls = calls_by_task(&world);
    assert_eq!(calls.len(), 300);
    assert!(calls.values().all(|calls| *calls == 1), "{calls:?}");
    assert_eq!(world.count("answers").await, 300);
    assert_eq!(world.events().await, 300);
    assert!(matches!(once.code, Some(0 | 1)), "{once:?}");
    let mut shares = 0;
    for reconciler in &reconcilers {
        if reconciler
            .metric(r#"reconciler_appends_total{outcome="stored"}"#)
            .await
            > 0.0
        {
            shares += 1;
        }
    }
    assert!(shares > 1, "one did all of the work");
}

/// However many are due: it is planned for its limit.
#[tokio::test]
async fn a_claim_reads_few_more_rows_than_it_takes() {
    let world = World::new().await;
    let fill = "insert into submitted_tasks (task_id, next_check_at)
                select 'task-' || n, now() - n * interval '1 second' from generate_series(1, 20000) n;
                analyze submitted_tasks";
    world.sql.batch_execute(fill).await.unwrap();
    let limits = Limits {
        statement: Duration::from_secs(10),
        connect: Duration::from_secs(5),
    };
    let url = world.database.url().parse().unwrap();
    let submissions = Submissions::new(
        Database::new(url, Connector::Plain, "test", 1, limits),
        "http://provider",
    );
    for _ in 0..5 {
        let claim = Claim {
            most: 2,
            lease: Duration::from_secs(60),
            floor: 0,
            last_seq: 0,
            kept: Duration::from_secs(86_400),
        };
        let claimed = submissions.claim(claim).await.unwrap();
        assert!(matches!(claimed, Claimed::Due(due) if due.len() == 2));
    }
    // The server counts what a session did when it ends, at the latest.
    drop(submissions);
    let counted = "select n_tup_upd, seq_tup_read + idx_tup_fetch from pg_stat_user_tables where relname = 'submitted_tasks'";
    let read = eventually("the claims are counted", SOON, async || {
        let row = world.sql.query_one(counted, &[]).await.unwrap();
        let (updated, read): (i64, i64) = (row.get(0), row.get(1));
        (updated == 10).then_some(read)
    })
    .await;
    assert!(read < 200, "{read}");
}

/// No place in an order of times is remembered from sweep to sweep.
#[tokio::test]
async fn submissions_of_one_moment_and_ones_committed_late_are_all_asked_for() {
    let world = World::new().await;
    let _projector = world.project();
    let tasks: Vec<String> = (0..50).map(|_| world.finished()).collect();
    let insert = "insert into submitted_tasks (task_id, created_at, next_check_at)
                  select unnest($1::text[]), '2026-11-30 12:00Z', now() - interval '1 minute'";
    let (same, late) = tasks.split_at(40);
    world.sql.execute(insert, &[&same]).await.unwrap();
    // Not yet committed, with stamps older than all the others.
    let mut other = world.database.connect().await;
    let open = other.transaction().await.unwrap();
    let older = insert.replace("1 minute", "1 hour");
    open.execute(&older, &[&late]).await.unwrap();
    let _reconciler = world.reconciler().set("SWEEP_LIMIT", 7).start();
    world.rows("submitted_tasks where state = 'SETTLED'", 40).await;
    open.commit().await.unwrap();
    world.rows("submitted_tasks where state = 'SETTLED'", 50).await;
}

#[tokio::test]
async fn what_is_settled_while_it_is_asked_for_stays_settled() {
    let world = World::new().await;
    let _projector = world.project();
    let (number, task) = world.finished_briefly();
    world
        .api
        .faults()
        .task(&task, Fault::Drip(Duration::from_millis(1)));
    world.submit(&task).await;
    let first = world
        .reconciler()
        .set("REQUEST_TIMEOUT", "20s")
        .set("SWEEP_INTERVAL", "1h")
        .start();
    world.is_asked_about(&task, 1).await;
    world.deliver(number).await;
    let second = world.start().await;
    world.becomes(&task, "SETTLED").await;
    second.stop().await;
    // The answer came after it was settled: a copy on the stream, and the row as it was.
    eventually("the answer is a duplicate", SOON, async || {
        first
            .try_metric(r#"reconciler_appends_total{outcome="duplicate"}"#)
            .await
            == Some(1.0)
    })
    .await;
    assert_eq!(world.state(&task).await, "SETTLED");
    let via: String = world.value("select via from answers", &[]).await;
    assert_eq!(via, "webhook");
}

/// Whoever was too slow finds that the row is not its own any more.
#[tokio::test]
async fn a_claim_that_ended_is_not_written_over() {
    let world = World::new().await;
    let (_, task) = world.queued(None);
    world
        .api
        .faults()
        .task(&task, Fault::Drip(Duration::from_millis(5)));
    world.submit(&task).await;
    let reconciler = world.reconciler().set("REQUEST_TIMEOUT", "20s").start();
    world.is_asked_about(&task, 1).await;
    world
        .sql
        .batch_execute(
            "update submitted_tasks set next_check_at = now() + interval '1 day', last_error = 'by another'",
        )
        .await
        .unwrap();
    reconciler.metric_is("reconciler_open_answers_total", 1.0).await;
    let (_, other) = world.queued(None);
    world.submit(&other).await;
    world.is_asked_about(&other, 2).await;
    let error: Option<String> = world.of(&task, "last_error").await;
    assert_eq!(error.as_deref(), Some("by another"));
}

#[tokio::test]
async fn no_more_calls_than_allowed_are_under_way() {
    let world = World::new().await;
    for _ in 0..15 {
        let (_, task) = world.queued(None);
        world
            .api
            .faults()
            .task(&task, Fault::Drip(Duration::from_micros(100)));
        world.submit(&task).await;
    }
    let _reconciler = world.reconciler().set("MAX_IN_FLIGHT", 3).start();
    eventually("all are asked for", SOON, async || {
        calls_by_task(&world).len() == 15
    })
    .await;
    assert!(
        world.api.most_calls_at_once() <= 3,
        "{}",
        world.api.most_calls_at_once()
    );
}
