//! The migrations, on a real server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::error::Error as _;
use std::thread;
use std::time::{Duration, Instant};

use postgres::error::SqlState;
use postgres::{Client, NoTls};
use refinery::{Migration, Runner};
use sandbox::servers::Postgres;
use schemas::migrate::{self, MigrateError};
use schemas::version::{self, CURRENT, RECONCILER, SchemaMismatch};

/// Runs `test` with the URL of an empty database, on a thread that may block.
async fn on_an_empty_database(name: &str, test: impl FnOnce(&str) + Send + 'static) {
    let server = Postgres::shared().await;
    let (url, name) = (server.url(), name.to_owned());
    tokio::task::spawn_blocking(move || {
        let admin = &mut connect(&url);
        admin
            .batch_execute(&format!("create database {name} template template0"))
            .unwrap();
        let (base, _) = url.rsplit_once('/').unwrap();
        test(&format!("{base}/{name}"));
        admin
            .batch_execute(&format!("drop database {name} with (force)"))
            .unwrap();
    })
    .await
    .unwrap();
}

fn connect(url: &str) -> Client {
    Client::connect(url, NoTls).unwrap()
}

fn migrate(url: &str) -> Vec<i32> {
    migrate::migrate(&mut connect(url)).unwrap().versions
}

/// The version as a program reads it at its start.
fn found(client: &mut Client) -> Option<i32> {
    match client.query_one(version::QUERY, &[]) {
        Ok(row) => row.get(0),
        Err(e) if e.code() == Some(&SqlState::UNDEFINED_TABLE) => None,
        Err(e) => panic!("{e}"),
    }
}

fn all() -> Vec<i32> {
    (1..=CURRENT).collect()
}

#[tokio::test]
async fn an_empty_database_is_brought_to_the_newest_version_and_a_second_run_does_nothing() {
    on_an_empty_database("empty", |url| {
        let client = &mut connect(url);
        assert_eq!(version::check(found(client)), Err(SchemaMismatch::NotMigrated));
        assert_eq!(migrate(url), all());
        assert_eq!(version::check(found(client)), Ok(()));
        assert_eq!(migrate(url), Vec::<i32>::new());
        assert_eq!(found(client), Some(CURRENT));
    })
    .await;
}

/// With rows in it, as a database in use is.
#[tokio::test]
async fn a_database_of_version_1_is_brought_on_with_its_submissions() {
    on_an_empty_database("older", |url| {
        let client = &mut connect(url);
        let first = Migration::unapplied("V1__answers", include_str!("../sql/V1__answers.sql")).unwrap();
        Runner::new(&[first]).run(client).unwrap();
        client
            .batch_execute(
                "insert into submitted_tasks (task_id, idempotency_key, state, checks) values
                   ('a', 'k', 'OPEN', 0), ('b', null, 'LOST', 9), (null, 'l', 'OVERDUE', 0), ('c', null, 'SETTLED', 1)",
            )
            .unwrap();
        assert_eq!(version::check(found(client)), Ok(()));
        assert!(version::check_from(RECONCILER, found(client)).is_err());
        assert_eq!(migrate(url), (2..=CURRENT).collect::<Vec<_>>());
        let kept = "select count(*) from submitted_tasks
                     where not_found = 0 and unusable_answers = 0 and checked_at is null and same_as is null";
        assert_eq!(client.query_one(kept, &[]).unwrap().get::<_, i64>(0), 4);
    })
    .await;
}

#[tokio::test]
async fn a_run_waits_for_the_one_that_holds_the_lock() {
    on_an_empty_database("waiting", |url| {
        let holder = &mut connect(url);
        holder
            .execute("select pg_advisory_lock($1)", &[&migrate::LOCK])
            .unwrap();
        thread::scope(|scope| {
            let run = scope.spawn(|| migrate(url));
            let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted
                and database = (select oid from pg_database where datname = current_database())";
            let deadline = Instant::now() + Duration::from_secs(30);
            while holder.query_one(waiting, &[]).unwrap().get::<_, i64>(0) == 0 {
                assert!(!run.is_finished(), "it did not wait");
                assert!(Instant::now() < deadline, "it neither waits nor ends");
            }
            assert_eq!(found(holder), None);
            holder
                .execute("select pg_advisory_unlock($1)", &[&migrate::LOCK])
                .unwrap();
            assert_eq!(run.join().unwrap(), all());
        });
    })
    .await;
}

#[tokio::test]
async fn of_many_runs_at_once_one_applies_and_the_others_find_nothing_to_do() {
    on_an_empty_database("crowded", |url| {
        let applied: Vec<Vec<i32>> = thread::scope(|scope| {
            let runs: Vec<_> = (0..6).map(|_| scope.spawn(|| migrate(url))).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        assert_eq!(
            applied.iter().filter(|versions| **versions == all()).count(),
            1,
            "{applied:?}"
        );
        assert_eq!(
            applied.iter().filter(|versions| versions.is_empty()).count(),
            5,
            "{applied:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_run_that_fails_leaves_nothing_behind_and_can_be_repeated() {
    on_an_empty_database("failing", |url| {
        let client = &mut connect(url);
        client
            .batch_execute("create table projection (in_the_way int)")
            .unwrap();
        let failed = migrate::migrate(client).unwrap_err();
        assert!(matches!(failed, MigrateError::Apply(_)), "{failed:?}");
        let mut causes = std::iter::successors(failed.source(), |&e| e.source());
        assert!(
            causes.any(|e| e.to_string().contains("already exists")),
            "{failed:?}"
        );

        assert_eq!(version::check(found(client)), Err(SchemaMismatch::NotMigrated));
        let left = client
            .query_one("select to_regclass('answers')::text", &[])
            .unwrap();
        assert_eq!(left.get::<_, Option<&str>>(0), None);
        // From another connection: the lock is free as well.
        client.batch_execute("drop table projection").unwrap();
        assert_eq!(migrate(url), all());
    })
    .await;
}

#[tokio::test]
async fn a_database_with_another_text_of_a_version_is_refused() {
    on_an_empty_database("edited", |url| {
        migrate(url);
        let client = &mut connect(url);
        client
            .batch_execute("update refinery_schema_history set checksum = '1' where version = 1")
            .unwrap();
        let refused = migrate::migrate(client).unwrap_err();
        assert!(matches!(refused, MigrateError::Apply(_)), "{refused:?}");
    })
    .await;
}

#[tokio::test]
async fn two_deployments_share_a_database_in_schemas_of_their_own() {
    on_an_empty_database("shared", |url| {
        let client = &mut connect(url);
        client
            .batch_execute("create schema acme; create schema globex")
            .unwrap();
        for schema in ["acme", "globex"] {
            let url = format!("{url}?options=-csearch_path%3D{schema}");
            assert_eq!(migrate(&url), all());
            assert_eq!(found(&mut connect(&url)), Some(CURRENT));
        }
        assert_eq!(found(client), None);
    })
    .await;
}
