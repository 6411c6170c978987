//! What the tables and views promise, on a real server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use postgres::{Client, NoTls};
use sandbox::servers::Postgres;
use schemas::delivery::{FinalStatus, TaskId};
use schemas::digest::ResponseDigest;
use schemas::event::Via;
use schemas::job_key::{Rules, job_key};
use schemas::projection::{Answer, Tables, fold};
use schemas::winner::Provenance;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

/// Runs `test` on a migrated database, on a thread that may block.
async fn on_a_database(test: impl FnOnce(&mut Client) + Send + 'static) {
    let database = Postgres::shared().await.fresh_database().await;
    let url = database.url();
    let run = move || test(&mut Client::connect(&url, NoTls).unwrap());
    tokio::task::spawn_blocking(run).await.unwrap();
}

#[tokio::test]
async fn every_table_view_and_column_says_what_it_is() {
    on_a_database(|client| {
        let silent = client
            .query(
                "select c.relname || coalesce('.' || a.attname, '')
                   from pg_class c
                   left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and c.relkind = 'r'
                  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v')
                    and c.relname <> 'refinery_schema_history'
                    and (col_description(c.oid, a.attnum) is null and a.attnum is not null
                         or obj_description(c.oid, 'pg_class') is null)",
                &[],
            )
            .unwrap();
        let silent: Vec<String> = silent.iter().map(|row| row.get(0)).collect();
        assert!(silent.is_empty(), "without a comment: {silent:?}");
    })
    .await;
}

const INSERT_ANSWER: &str = "insert into answers
    (task_id, job_key, idempotency_key, status, created_at, response, response_digest, via, stream_seq, received_at)
    values ($1, $2, $3, $4, $5, $6::text::jsonb, $7, $8, $9, $10)";
const INSERT_WINNER: &str =
    "insert into winners (job_key, task_id, status, created_at, stream_seq) values ($1, $2, $3, $4, $5)";

fn seq(seq: u64) -> i64 {
    i64::try_from(seq).unwrap()
}

fn store(client: &mut Client, tables: &Tables, response: impl Fn(&Answer) -> String) {
    let mut transaction = client.transaction().unwrap();
    for row in tables.answers.values() {
        transaction
            .execute(
                INSERT_ANSWER,
                &[
                    &row.task_id.as_str(),
                    &row.job_key,
                    &row.idempotency_key,
                    &row.status.as_str(),
                    &row.created_at,
                    &response(row),
                    &&row.digest.as_bytes()[..],
                    &row.via.as_str(),
                    &seq(row.provenance.stream_seq),
                    &row.provenance.received_at,
                ],
            )
            .unwrap();
    }
    for (job, winner) in &tables.winners {
        let rank = &winner.rank;
        let values: [&(dyn postgres::types::ToSql + Sync); 5] = [
            job,
            &rank.task_id.as_str(),
            &rank.status.as_str(),
            &rank.created_at,
            &seq(winner.stream_seq),
        ];
        transaction.execute(INSERT_WINNER, &values).unwrap();
    }
    transaction.commit().unwrap();
}

const MIDNIGHT: OffsetDateTime = datetime!(2026-11-30 0:00 UTC);

fn answer(task: u64, key: Option<String>, status: FinalStatus, created_at: OffsetDateTime) -> Answer {
    let task_id: TaskId = format!("task-{task}").parse().unwrap();
    Answer {
        job_key: job_key(Rules::default(), key.as_deref(), &task_id).to_owned(),
        task_id,
        idempotency_key: key,
        status,
        created_at: Some(created_at),
        digest: ResponseDigest::of(None),
        problems: vec![],
        via: Via::Webhook,
        provenance: Provenance {
            received_at: MIDNIGHT,
            stream_seq: task,
        },
    }
}

/// The way of finding the answers that the tables replace: the latest COMPLETED task of each job.
const LATEST_COMPLETED: &str = "select distinct on (job_key) job_key, task_id, response::text from answers
    where status = 'COMPLETED' order by job_key, created_at desc";
const REPORTED: &str = "select job_key, task_id, response::text from reported_answers";

#[tokio::test]
async fn reported_answers_are_the_latest_completed_tasks_of_their_jobs() {
    on_a_database(|client| {
        // No two creation times are the same, so that the simple query decides every job.
        let events = (0..600u64).map(|task| {
            let scattered = task.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            let rerun = [String::new(), format!("-r{}", 1 + scattered % 9)];
            let key = format!("job {}|é{}", scattered % 150, rerun[usize::from(task % 3 == 0)]);
            let status = if scattered % 5 < 2 {
                FinalStatus::Failed
            } else {
                FinalStatus::Completed
            };
            let created_at = MIDNIGHT - Duration::microseconds(i64::try_from(scattered).unwrap());
            answer(task, (task % 10 > 0).then_some(key), status, created_at)
        });
        let tables = fold(events);
        store(client, &tables, |row| format!("{{\"of\":\"{}\"}}", row.task_id));

        let mut rows = |query: &str| -> BTreeMap<String, (String, String)> {
            let rows = client.query(query, &[]).unwrap();
            rows.iter()
                .map(|row| (row.get(0), (row.get(1), row.get(2))))
                .collect()
        };
        let reported = rows(REPORTED);
        assert_eq!(reported, rows(LATEST_COMPLETED));
        assert!(reported.len() > 100 && reported.len() < tables.winners.len());
        let failed = client
            .query_one("select count(*) from failed_answers", &[])
            .unwrap();
        let winners = u64::try_from(tables.winners.len() - reported.len()).unwrap();
        assert_eq!(failed.get::<_, i64>(0), seq(winners));
    })
    .await;
}

#[tokio::test]
async fn a_failure_has_the_code_and_the_message_of_its_error() {
    let unknown = ("UNKNOWN", None);
    let cases = [
        (
            r#"{"error":{"code":"A","message":"a"},"code":"B","message":"b"}"#,
            ("A", Some("a")),
        ),
        (r#"{"error":{"code":"A"},"message":"b"}"#, ("A", Some("b"))),
        (r#"{"code":"B","message":"b"}"#, ("B", Some("b"))),
        (
            r#"{"error":"plain words","code":"B"}"#,
            ("B", Some("plain words")),
        ),
        (r#"{"error":{"code":7,"message":null}}"#, unknown),
        (r#"{"error":null}"#, unknown),
        (r#"{"result":{"code":"C"}}"#, unknown),
        ("[\"code\"]", unknown),
        ("\"code\"", unknown),
        ("null", unknown),
        ("{}", unknown),
    ];
    on_a_database(move |client| {
        let events = (0u64..)
            .zip(cases)
            .map(|(i, _)| answer(i, None, FinalStatus::Failed, MIDNIGHT));
        let tables = fold(events);
        let response = |row: &Answer| {
            cases[usize::try_from(row.provenance.stream_seq).unwrap()]
                .0
                .to_owned()
        };
        store(client, &tables, response);
        let query = "select error_code, error_message from failed_answers where task_id = $1";
        for (i, (response, expected)) in cases.into_iter().enumerate() {
            let row = client.query_one(query, &[&format!("task-{i}")]).unwrap();
            assert_eq!((row.get(0), row.get(1)), expected, "{response}");
        }
        client
            .execute("update answers set response = null where task_id = 'task-0'", &[])
            .unwrap();
        let row = client.query_one(query, &[&"task-0"]).unwrap();
        assert_eq!((row.get(0), row.get(1)), unknown, "no response");
    })
    .await;
}

#[tokio::test]
async fn a_submission_needs_an_id_or_a_key_and_starts_open() {
    on_a_database(|client| {
        let refused = client
            .execute("insert into submitted_tasks default values", &[])
            .unwrap_err();
        assert_eq!(refused.code(), Some(&postgres::error::SqlState::CHECK_VIOLATION));
        let insert = "insert into submitted_tasks (task_id, idempotency_key) values ($1, $2)
            returning state, checks, next_check_at - created_at = interval '1 hour'";
        for (id, key) in [(Some("t"), None), (None, Some("k")), (None, Some("k"))] {
            let row = client.query_one(insert, &[&id, &key]).unwrap();
            assert_eq!((row.get(0), row.get(1), row.get(2)), ("OPEN", 0, true));
        }
        let twice = client
            .query_one(insert, &[&Some("t"), &None::<&str>])
            .unwrap_err();
        assert_eq!(twice.code(), Some(&postgres::error::SqlState::UNIQUE_VIOLATION));
    })
    .await;
}
