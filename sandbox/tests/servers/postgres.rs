//! Database servers and databases.

use std::{fs, time::Duration};

use sandbox::{
    eventually,
    servers::{Database, Postgres, PostgresOptions},
};

use crate::SOON;

async fn count(database: &Database) -> i64 {
    database
        .connect()
        .await
        .query_one("select count(*) from facts", &[])
        .await
        .unwrap()
        .get(0)
}

async fn with_a_fact(database: &Database) {
    let client = database.connect().await;
    client
        .batch_execute("create table facts (n int); insert into facts values (1)")
        .await
        .unwrap();
}

#[tokio::test]
async fn a_fresh_database_holds_the_schema_of_this_build_and_no_rows() {
    let database = Postgres::shared().await.fresh_database().await;
    let client = database.connect().await;
    let found: Option<i32> = client
        .query_one(schemas::version::QUERY, &[])
        .await
        .unwrap()
        .get(0);
    schemas::version::check(found).unwrap();
    let rows: i64 = client
        .query_one("select count(*) from answers", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(rows, 0);
}

#[tokio::test]
async fn databases_of_the_shared_server_are_apart_and_go_when_dropped() {
    let server = Postgres::shared().await;
    let (one, two) = (server.fresh_database().await, server.fresh_database().await);
    with_a_fact(&one).await;
    with_a_fact(&two).await;
    one.connect()
        .await
        .execute("insert into facts values (2)", &[])
        .await
        .unwrap();
    assert_eq!((count(&one).await, count(&two).await), (2, 1));
    let name = one.name().to_owned();
    drop(one);
    let client = two.connect().await;
    eventually("the database is gone", SOON, async || {
        client
            .query("select 1 from pg_database where datname = $1", &[&name])
            .await
            .unwrap()
            .is_empty()
    })
    .await;
}

/// Each test has its own runtime; the shared server must outlive the one it was started in.
#[tokio::test]
async fn the_shared_server_serves_every_runtime_of_the_process() {
    let here = Postgres::shared().await.addr();
    let there = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async { Postgres::shared().await.fresh_database().await.url() })
    });
    assert!(there.join().unwrap().contains(&here.to_string()));
}

#[tokio::test]
async fn a_killed_database_server_comes_back_on_its_port_with_its_rows() {
    let options = PostgresOptions {
        durable: true,
        extra: "work_mem = '7MB'".to_owned(),
        ..PostgresOptions::default()
    };
    let mut server = Postgres::start_with(options).await.unwrap();
    let database = server.fresh_database().await;
    with_a_fact(&database).await;
    let session = database.connect().await;
    server.kill();
    eventually("the session ends", SOON, async || session.is_closed()).await;
    server.restart().await;
    assert_eq!(count(&database).await, 1);
    let session = database.connect().await;
    let shown: Vec<String> = futures_util::future::join_all(["fsync", "work_mem"].map(async |name| {
        session
            .query_one(&format!("show {name}"), &[])
            .await
            .unwrap()
            .get::<_, String>(0)
    }))
    .await;
    assert_eq!(shown, ["on", "7MB"]);
}

#[tokio::test]
async fn a_killed_database_server_leaves_no_shared_memory_behind() {
    let mut server = Postgres::start().await;
    let lock = server.log().parent().unwrap().join("data/postmaster.pid");
    let segment = fs::read_to_string(lock).unwrap();
    let segment = segment
        .lines()
        .nth(6)
        .unwrap()
        .split_whitespace()
        .last()
        .unwrap()
        .to_owned();
    // The second column of each line is the segment.
    let is_there = || {
        let all = fs::read_to_string("/proc/sysvipc/shm").unwrap();
        all.lines()
            .any(|line| line.split_whitespace().nth(1) == Some(&*segment))
    };
    assert!(is_there());
    server.kill();
    assert!(is_there());
    drop(server);
    assert!(!is_there());
}

#[tokio::test]
async fn a_stopped_database_server_comes_back_and_a_frozen_one_goes_on() {
    let mut server = Postgres::start().await;
    let database = server.fresh_database().await;
    with_a_fact(&database).await;
    server.stop().await;
    server.restart().await;
    let session = database.connect().await;
    server.pause();
    let answer = session.query_one("select n from facts", &[]);
    tokio::pin!(answer);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), &mut answer)
            .await
            .is_err()
    );
    server.resume();
    let row = tokio::time::timeout(SOON, answer).await.unwrap().unwrap();
    assert_eq!(row.get::<_, i32>(0), 1);
}

#[tokio::test]
async fn an_older_state_that_is_put_back_holds_what_it_held_then() {
    let mut server = Postgres::start_with(PostgresOptions {
        backups: true,
        ..PostgresOptions::default()
    })
    .await
    .unwrap();
    let database = server.fresh_database().await;
    with_a_fact(&database).await;
    let backup = server.back_up().await.unwrap();
    let add = "insert into facts values (2)";
    database.connect().await.execute(add, &[]).await.unwrap();
    assert_eq!(count(&database).await, 2);
    server.put_back(&backup).await.unwrap();
    assert_eq!(count(&database).await, 1);
    // It goes on from there, and can be put back again, from a crash too.
    database.connect().await.execute(add, &[]).await.unwrap();
    server.kill();
    server.put_back(&backup).await.unwrap();
    assert_eq!(count(&database).await, 1);
}
