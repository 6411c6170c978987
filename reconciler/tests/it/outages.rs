//! A reconciler that dies, a broker or a database that is away: nothing is lost.

use std::time::Duration;

use nix::sys::signal::Signal;
use sandbox::api::Fault;
use sandbox::eventually;
use sandbox::servers::{Link, Postgres};

use crate::world::{SOON, World, nats, shared_nats};

/// The lease stands for the one that is gone, and ends by itself.
#[tokio::test]
async fn a_kill_between_fetch_and_append_loses_nothing() {
    let mut link = Link::to(shared_nats().await.addr()).await;
    let database = Postgres::shared().await.fresh_database().await;
    let world = World::on(link.nats_url(), database).await;
    let (_, task) = world.finished_briefly();
    let builder = world
        .reconciler()
        .set("REQUEST_TIMEOUT", "20s")
        .set("PUBLISH_TIMEOUT", "20s")
        .set("LEASE", "6m")
        .set("NATS_PING_INTERVAL", "30s");
    let reconciler = builder.start_ready().await;
    world
        .api
        .faults()
        .task(&task, Fault::Drip(Duration::from_millis(1)));
    world.submit(&task).await;
    world.is_asked_about(&task, 1).await;
    // The answer is on its way, and what is appended will not arrive.
    link.mute().await;
    eventually("the provider has answered", SOON, async || {
        world.asked().last().and_then(|call| call.status)
    })
    .await;
    let answered = r#"reconciler_calls_total{reply="answered"}"#;
    reconciler.metric_is(answered, 1.0).await;
    reconciler.crash().await;
    // What was on its way goes with the connection.
    link.cut().await;
    link.restore().await;
    assert_eq!(world.events().await, 0);
    assert!(
        world
            .of::<bool>(&task, "next_check_at > now() + interval '5 minutes'")
            .await
    );

    let _projector = world.project();
    let _reconciler = builder.start_ready().await;
    let (_, other) = world.queued(None);
    world.submit(&other).await;
    world.is_asked_about(&other, 2).await;
    assert_eq!(world.asked_about(&task), 1, "it is still another's");
    // As when the lease is over.
    world
        .sql
        .execute(
            "update submitted_tasks set next_check_at = now() where task_id = $1",
            &[&task],
        )
        .await
        .unwrap();
    world.becomes(&task, "SETTLED").await;
}

/// The event is on the stream, and nobody noted it: the broker knows it when it is appended again.
#[tokio::test]
async fn a_kill_between_append_and_note_stores_nothing_twice() {
    let mut link = Link::to(shared_nats().await.addr()).await;
    let database = Postgres::shared().await.fresh_database().await;
    let world = World::on(link.nats_url(), database).await;
    let (_, task) = world.finished_briefly();
    let builder = world
        .reconciler()
        .set("REQUEST_TIMEOUT", "20s")
        .set("PUBLISH_TIMEOUT", "20s")
        .set("NATS_PING_INTERVAL", "30s");
    let reconciler = builder.start_ready().await;
    world
        .api
        .faults()
        .task(&task, Fault::Drip(Duration::from_millis(1)));
    world.submit(&task).await;
    world.is_asked_about(&task, 1).await;
    link.hold_answers().await;
    let direct = stream::connect::Settings::for_url(shared_nats().await.url());
    let direct = stream::connect::connect(&direct, "test").await.unwrap();
    eventually("the event is stored", SOON, async || {
        let stream = direct.jetstream.get_stream(&world.spec.name).await.unwrap();
        stream.cached_info().state.messages == 1
    })
    .await;
    reconciler.crash().await;
    link.restore().await;
    assert_eq!(world.of::<Option<i64>>(&task, "appended_seq").await, None);

    world
        .sql
        .batch_execute("update submitted_tasks set next_check_at = now()")
        .await
        .unwrap();
    let _projector = world.project();
    let _reconciler = builder.start_ready().await;
    world.becomes(&task, "SETTLED").await;
    assert_eq!(world.events().await, 1);
}

/// What was fetched while the broker is away is fetched again.
#[tokio::test]
async fn a_broker_that_is_away_loses_nothing_and_the_provider_is_left_alone() {
    let mut server = nats().await;
    let database = Postgres::shared().await.fresh_database().await;
    let world = World::on(server.url(), database).await;
    let reconciler = world
        .reconciler()
        .set("REQUEST_TIMEOUT", "20s")
        .set("PUBLISH_TIMEOUT", "500ms")
        .start_ready()
        .await;
    let (_, slow) = world.finished_briefly();
    world
        .api
        .faults()
        .task(&slow, Fault::Drip(Duration::from_millis(1)));
    world.submit(&slow).await;
    world.is_asked_about(&slow, 1).await;
    server.kill();
    reconciler.unready("stream: ").await;
    let tasks: Vec<String> = (0..20).map(|_| world.finished()).collect();
    for task in &tasks {
        world.submit(task).await;
    }
    // Sweeps go on, and settle what they can.
    let settled = world.finished();
    world.submit(&settled).await;
    let insert =
        "insert into answers (task_id, job_key, status, response_digest, via, stream_seq, received_at)
                  values ($1, 'j', 'COMPLETED', sha256(''), 'webhook', 1, now())";
    world.sql.execute(insert, &[&settled]).await.unwrap();
    world.becomes(&settled, "SETTLED").await;
    assert!(reconciler.lives().await);
    let due = "submitted_tasks where state = 'OPEN' and next_check_at <= now()";
    world.rows(due, 21).await;
    assert!(world.asked().len() <= 2, "{}", world.asked().len());

    server.restart().await;
    let _projector = world.project();
    world.rows("submitted_tasks where state = 'SETTLED'", 22).await;
    reconciler.ready().await;
    assert_eq!(world.count("answers").await, 22);
}

#[tokio::test]
async fn a_database_that_is_away_loses_nothing() {
    let mut postgres = Postgres::start().await;
    let database = postgres.fresh_database().await;
    let world = World::on(shared_nats().await.url(), database).await;
    let projector = world.project();
    let reconciler = world.start().await;
    let first = world.finished();
    world.submit(&first).await;
    world.becomes(&first, "SETTLED").await;
    postgres.kill();
    reconciler.unready("database: ").await;
    assert!(reconciler.lives().await);
    postgres.restart().await;
    reconciler.ready().await;
    let sql = world.database.connect().await;
    let second = world.finished();
    sql.execute(
        "insert into submitted_tasks (task_id, next_check_at) values ($1, now())",
        &[&second],
    )
    .await
    .unwrap();
    eventually("it goes on", SOON, async || {
        let query = "select state from submitted_tasks where task_id = $1";
        let row = sql.query_one(query, &[&second]).await.unwrap();
        row.get::<_, String>(0) == "SETTLED"
    })
    .await;
    let lines = reconciler.stop().await.lines().count();
    assert!(lines < 60, "{lines} lines");
    projector.stop().await;
}

/// It may be started before everything else.
#[tokio::test]
async fn it_waits_for_the_broker_and_for_the_database() {
    let mut link = Link::to(shared_nats().await.addr()).await;
    let postgres = Postgres::shared().await;
    let mut rows = Link::to(postgres.addr()).await;
    let world = World::on(link.nats_url(), postgres.fresh_database().await).await;
    let task = world.finished();
    world.submit(&task).await;
    link.cut().await;
    rows.cut().await;
    let builder = world
        .reconciler()
        .set("DATABASE_URL", world.database.url_via(&rows));
    let reconciler = builder.start();
    reconciler.unready("database: connecting").await;
    rows.restore().await;
    reconciler.unready("stream: starting").await;
    assert_eq!(world.api.calls().len(), 0);
    link.restore().await;
    world.row_is(&task, "appended_seq", Some(1_i64)).await;
    reconciler.ready().await;
}

#[tokio::test]
async fn a_stop_with_calls_under_way_is_quick_and_gives_them_back() {
    let world = World::new().await;
    let tasks: Vec<String> = (0..8).map(|_| world.finished()).collect();
    for task in &tasks {
        world.api.faults().task(task, Fault::Silence);
        world.submit(task).await;
    }
    let mut reconciler = world.reconciler().set("REQUEST_TIMEOUT", "60s").start();
    eventually("all are under way", SOON, async || world.asked().len() == 8).await;
    reconciler.signal(Signal::SIGTERM);
    reconciler.signal(Signal::SIGTERM);
    let status = reconciler.ended(Duration::from_secs(5)).await;
    assert_eq!(status.code(), Some(0), "{}", reconciler.log());
    let as_before = "submitted_tasks where checks = 0 and next_check_at <= now() and last_error is null";
    assert_eq!(world.count(as_before).await, 8);
}

#[tokio::test]
async fn a_stop_while_the_database_is_mute_is_quick_too() {
    let postgres = Postgres::shared().await;
    let mut rows = Link::to(postgres.addr()).await;
    let world = World::on(shared_nats().await.url(), postgres.fresh_database().await).await;
    let builder = world
        .reconciler()
        .set("DATABASE_URL", world.database.url_via(&rows));
    let mut reconciler = builder.start_ready().await;
    rows.mute().await;
    let task = world.finished();
    world.submit(&task).await;
    reconciler.signal(Signal::SIGTERM);
    let status = reconciler.ended(Duration::from_secs(8)).await;
    assert_eq!(status.code(), Some(0), "{}", reconciler.log());
}
