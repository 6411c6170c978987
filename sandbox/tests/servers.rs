//! The private servers do what their names say, with real clients.

#![cfg(test)] // for clippy: what is allowed in tests is allowed in their helpers too

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use async_nats::jetstream;
use sandbox::{
    eventually,
    servers::{Database, Link, NatsOptions, NatsServer, Postgres, PostgresOptions},
};

const SOON: Duration = Duration::from_secs(10);

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

async fn with_a_message(server: &NatsServer) {
    let jetstream = jetstream::new(async_nats::connect(server.url()).await.unwrap());
    let config = jetstream::stream::Config {
        name: "LOG".to_owned(),
        subjects: vec!["log".to_owned()],
        ..Default::default()
    };
    jetstream.create_stream(config).await.unwrap();
    jetstream
        .publish("log", "one".into())
        .await
        .unwrap()
        .await
        .unwrap();
}

async fn messages(server: &NatsServer) -> u64 {
    let jetstream = jetstream::new(async_nats::connect(server.url()).await.unwrap());
    jetstream
        .get_stream("LOG")
        .await
        .unwrap()
        .cached_info()
        .state
        .messages
}

#[tokio::test]
async fn a_broker_syncs_before_it_acknowledges_and_takes_large_messages() {
    let server = NatsServer::start_with(NatsOptions {
        monitor: true,
        ..NatsOptions::default()
    })
    .await
    .unwrap();
    let client = async_nats::connect(server.url()).await.unwrap();
    assert_eq!(client.server_info().max_payload, 8 << 20);
    assert!(
        get(&format!("{}/jsz", server.monitor_url().unwrap()))
            .await
            .contains(r#""sync_always": true"#)
    );
}

#[tokio::test]
async fn a_killed_broker_comes_back_on_its_port_with_its_messages() {
    let mut server = NatsServer::start().await;
    with_a_message(&server).await;
    let (url, pid) = (server.url(), server.pid());
    server.kill();
    assert_eq!(server.pid(), None);
    assert!(async_nats::connect(&url).await.is_err());
    server.restart().await;
    assert_ne!(server.pid(), pid);
    assert_eq!((server.url(), messages(&server).await), (url, 1));
}

#[tokio::test]
async fn a_stopped_broker_comes_back_and_its_directory_goes_with_it() {
    let mut server = NatsServer::start().await;
    with_a_message(&server).await;
    server.stop().await;
    server.restart().await;
    assert_eq!(messages(&server).await, 1);
    let store = server.store_dir();
    assert!(store.exists() && server.log().exists());
    drop(server);
    assert!(!store.parent().unwrap().exists());
}

#[tokio::test]
async fn a_frozen_broker_answers_once_it_goes_on() {
    let server = NatsServer::start().await;
    let jetstream = jetstream::new(async_nats::connect(server.url()).await.unwrap());
    server.pause();
    let answer = jetstream.query_account();
    tokio::pin!(answer);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), &mut answer)
            .await
            .is_err()
    );
    server.resume();
    tokio::time::timeout(SOON, answer).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_broker_that_cannot_start_says_why() {
    let options = NatsOptions {
        extra: "no such setting".to_owned(),
        ..NatsOptions::default()
    };
    let error = NatsServer::start_with(options).await.unwrap_err().to_string();
    assert!(
        error.contains("ended by itself") && error.contains("Parse error"),
        "{error}"
    );
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
async fn a_cut_link_resets_and_refuses_until_it_is_restored() {
    let database = Postgres::shared().await.fresh_database().await;
    let mut link = Link::to(Postgres::shared().await.addr()).await;
    let url = database.url_via(&link);
    let (session, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    session.simple_query("select 1").await.unwrap();
    link.cut().await;
    let ended = tokio::time::timeout(SOON, connection)
        .await
        .unwrap()
        .unwrap()
        .unwrap_err();
    assert!(format!("{ended:?}").contains("ConnectionReset"), "{ended:?}");
    let refused = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .err()
        .unwrap();
    assert!(
        format!("{refused:?}").contains("ConnectionRefused"),
        "{refused:?}"
    );
    link.restore().await;
    let _session = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_mute_link_keeps_connections_and_passes_what_it_held_back() {
    let server = NatsServer::start().await;
    let mut link = Link::to(server.addr()).await;
    let jetstream = jetstream::new(async_nats::connect(link.nats_url()).await.unwrap());
    link.mute().await;
    let answer = jetstream.query_account();
    tokio::pin!(answer);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), &mut answer)
            .await
            .is_err()
    );
    let silent = tokio::net::TcpStream::connect(link.addr()).await.unwrap();
    assert!(
        tokio::time::timeout(Duration::from_millis(50), silent.readable())
            .await
            .is_err()
    );
    link.restore().await;
    tokio::time::timeout(SOON, answer).await.unwrap().unwrap();
    // The broker speaks first.
    tokio::time::timeout(SOON, silent.readable())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_slow_link_delays_both_ways() {
    let server = NatsServer::start().await;
    let link = Link::to(server.addr()).await;
    let client = async_nats::connect(link.nats_url()).await.unwrap();
    link.delay(Duration::from_millis(40));
    let start = tokio::time::Instant::now();
    let inbox = client.new_inbox();
    let mut echo = client.subscribe(inbox.clone()).await.unwrap();
    client.publish(inbox, "there and back".into()).await.unwrap();
    futures_util::StreamExt::next(&mut echo).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(80));
}

/// A process that is killed cannot clean up after itself: this test binary, run again as that process.
#[tokio::test]
async fn servers_of_a_killed_process_end_with_it_and_leave_no_directory() {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_owner_of_two_servers", "--nocapture"])
        .env("SANDBOX_OWNER", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let left: Vec<PathBuf> = lines
        .filter_map(|line| line.strip_prefix("left: ").map(PathBuf::from))
        .take(4)
        .collect();
    assert!(
        left.len() == 4 && left.iter().all(|path| path.exists()),
        "{left:?}"
    );
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("processes and directories are gone", SOON, async || {
        let there: Vec<_> = left.iter().filter(|path| path.exists()).collect();
        if there.is_empty() {
            Ok(())
        } else {
            Err(format!("{there:?}"))
        }
    })
    .await;
}

/// Does nothing unless it is started by the test above, which kills it while it waits.
#[tokio::test]
async fn the_owner_of_two_servers() {
    #[expect(
        clippy::disallowed_methods,
        reason = "it is how the test above speaks to this process"
    )]
    let started_by_the_test = std::env::var_os("SANDBOX_OWNER").is_some();
    if !started_by_the_test {
        return;
    }
    let nats = NatsServer::start().await;
    let postgres = Postgres::shared().await;
    nats.pause(); // even a frozen one ends
    for (pid, log) in [(nats.pid(), nats.log()), (postgres.pid(), postgres.log())] {
        println!("left: /proc/{}", pid.unwrap());
        println!("left: {}", log.parent().unwrap().display());
    }
    std::future::pending::<()>().await;
}

/// `scripts/servers` with `directories` in front of PATH, each holding a nats-server that claims to be of a version.
fn script(versions: &[&str], nats_server: Option<&str>) -> (bool, String, Vec<PathBuf>) {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let claim = |version: &&str| {
        let directory = dir.path().join(version);
        let program = directory.join("nats-server");
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(&program, format!("#!/bin/sh\necho nats-server: v{version}\n")).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        program
    };
    let programs: Vec<PathBuf> = versions.iter().map(claim).collect();
    let directories = programs
        .iter()
        .map(|program| program.parent().unwrap().display().to_string());
    let prepend = directories.map(|directory| directory + ":").collect::<String>();
    // The shell knows its own PATH, so that this test need not.
    let run = r#"PATH="$1$PATH" exec "$2""#;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/servers");
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", run, "sh", &prepend, path])
        .env_remove("NATS_SERVER");
    if let Some(named) = nats_server {
        command.env("NATS_SERVER", named);
    }
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8(said).unwrap(),
        programs,
    )
}

#[test]
fn the_script_takes_the_first_server_on_the_path_that_is_new_enough() {
    let (found, said, programs) = script(&["2.9.10", "2.11.99", "2.12.0", "2.15.1"], None);
    assert!(
        found && said.contains(&format!("({})", programs[2].display())),
        "{said}"
    );
    let (found, said, programs) = script(&["10.0.1"], None);
    assert!(
        found && said.contains(&format!("({})", programs[0].display())),
        "{said}"
    );
}

#[test]
fn the_script_says_in_one_line_that_a_named_server_is_none() {
    let (found, said, _) = script(&[], Some("/nowhere/nats-server"));
    assert!(!found);
    assert_eq!(
        said,
        "servers: NATS_SERVER names /nowhere/nats-server, which is no program\n"
    );
}

async fn get(url: &str) -> String {
    use http_body_util::BodyExt;
    let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
        .build_http::<http_body_util::Empty<bytes::Bytes>>();
    let answer = client.get(url.parse().unwrap()).await.unwrap();
    String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}
