//! The SQL, the Rust rule and the provider's own query agree, over generated histories.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::projector::decode::{Decoded, Decoder, Message};
use ::projector::rows::{Folded, ResultRow};
use ::projector::statements;
use bytes::Bytes;
use database::{Connector, Database, DatabaseError, Limits};
use proptest::prelude::*;
use proptest::test_runner::{Config as Runs, TestRunner};
use sandbox::servers::Postgres;
use schemas::delivery::{self, Delivery};
use schemas::event::{MsgId, Subjects, Via};
use schemas::job_key::Rules;
use schemas::projection::{Answer as Event, fold};
use time::macros::datetime;
use time::{Duration as Span, OffsetDateTime};
use tokio_postgres::Client;

use crate::answer::Answer;

const START: OffsetDateTime = datetime!(2026-11-30 12:00:00.000000123 UTC);

/// One event of a history, by small numbers, so that ranks tie often.
#[derive(Debug, Clone)]
struct Told {
    task: u8,
    completed: bool,
    created: Option<u8>,
    response: u8,
    key: u8,
    /// Events may share a stream timestamp.
    seconds: u8,
}

impl Told {
    fn answer(&self) -> Answer {
        let key = ["", "a", "a-r1", "b", "b-r2", "c"][usize::from(self.key)];
        let mut answer = Answer::of(&format!("t{}", self.task)).key(key);
        if !self.completed {
            answer = answer.failed();
        }
        let created = match self.created {
            Some(hour) => format!("\"2026-11-30T{hour:02}:00:00.123456789Z\""),
            None => "null".to_owned(),
        };
        answer
            .created(&created)
            .response(format!("{{\"v\":{}}}", self.response))
    }

    fn time(&self) -> OffsetDateTime {
        START + Span::seconds(self.seconds.into())
    }
}

fn told() -> impl Strategy<Value = Told> {
    let created = prop_oneof![Just(None), (1..4_u8).prop_map(Some)];
    (0..4_u8, any::<bool>(), created, 0..3_u8, 0..6_u8, 0..3_u8).prop_map(
        |(task, completed, created, response, key, seconds)| Told {
            task,
            completed,
            created,
            response,
            key,
            seconds,
        },
    )
}

/// Events, and for each projector the batches it applies: every event at least once, in any order.
fn history() -> impl Strategy<Value = (Vec<Told>, Vec<Vec<Vec<usize>>>)> {
    proptest::collection::vec(told(), 1..16).prop_flat_map(|events| {
        let all: Vec<usize> = (0..events.len()).chain(0..events.len()).collect();
        let cuts = proptest::collection::vec(1..5_usize, 32);
        (Just(events), Just(all).prop_shuffle(), cuts).prop_map(|(events, order, cuts)| {
            let mut projectors = vec![Vec::new(); 3];
            let mut rest = order.as_slice();
            for (turn, cut) in cuts.into_iter().enumerate() {
                let (batch, behind) = rest.split_at(cut.min(rest.len()));
                projectors[turn % 3].push(batch.to_vec());
                rest = behind;
            }
            projectors[0].push(rest.to_vec());
            (events, projectors)
        })
    })
}

fn decode(decoder: &Decoder, told: &Told, seq: u64) -> ResultRow {
    let body = told.answer().body();
    let kind = if told.completed {
        "answers.result.completed"
    } else {
        "answers.result.failed"
    };
    let message = Message {
        subject: kind.to_owned(),
        msg_id: Some(
            MsgId::of_task(&format!("t{}", told.task).parse().unwrap())
                .as_str()
                .to_owned(),
        ),
        via: Some(if seq.is_multiple_of(2) {
            Via::Webhook
        } else {
            Via::Reconciler
        }),
        unreadable: None,
        seq,
        time: told.time(),
        body,
    };
    match decoder.decode(message) {
        Decoded::Result(row) => *row,
        other => panic!("{other:?}"),
    }
}

fn oracle(told: &Told, seq: u64, rules: Rules) -> Event {
    let body: Bytes = told.answer().body();
    let Ok(Delivery::Result(result)) = delivery::read(&body) else {
        panic!("no result")
    };
    let via = if seq.is_multiple_of(2) {
        Via::Webhook
    } else {
        Via::Reconciler
    };
    Event::of(&result, rules, via, told.time(), seq)
}

async fn apply(database: &Database, rows: &[ResultRow], batches: &[Vec<usize>]) {
    for batch in batches {
        let folded = Folded::of(batch.iter().map(|&index| &rows[index]), std::iter::empty());
        // A deadlock would be an error here.
        database
            .transaction(async |client, _| statements::apply(client, START, &folded).await)
            .await
            .unwrap_or_else(|error: DatabaseError| panic!("{error:?}"));
    }
}

type AnswerColumns = (
    String,
    Option<String>,
    String,
    Option<OffsetDateTime>,
    Vec<u8>,
    Option<String>,
    String,
    OffsetDateTime,
    i64,
);

async fn answers(sql: &Client) -> BTreeMap<String, AnswerColumns> {
    let query = "select task_id, job_key, idempotency_key, status, created_at, response_digest, problem, via, received_at, stream_seq from answers";
    let rows = sql.query(query, &[]).await.unwrap();
    rows.iter()
        .map(|r| {
            (
                r.get(0),
                (
                    r.get(1),
                    r.get(2),
                    r.get(3),
                    r.get(4),
                    r.get(5),
                    r.get(6),
                    r.get(7),
                    r.get(8),
                    r.get(9),
                ),
            )
        })
        .collect()
}

type WinnerColumns = (String, String, Option<OffsetDateTime>, i64);

async fn winners(sql: &Client) -> BTreeMap<String, WinnerColumns> {
    let rows = sql
        .query(
            "select job_key, task_id, status, created_at, stream_seq from winners",
            &[],
        )
        .await
        .unwrap();
    rows.iter()
        .map(|r| (r.get(0), (r.get(1), r.get(2), r.get(3), r.get(4))))
        .collect()
}

/// Tasks of jobs in the order of the query in the provider's own guide.
async fn by_the_guide(sql: &Client) -> BTreeMap<String, String> {
    let query = "select distinct on (job_key) job_key, task_id from answers where status = 'COMPLETED' order by job_key, created_at desc";
    let rows = sql.query(query, &[]).await.unwrap();
    rows.iter().map(|r| (r.get(0), r.get(1))).collect()
}

async fn reported(sql: &Client) -> BTreeMap<String, String> {
    let rows = sql
        .query("select job_key, task_id from reported_answers", &[])
        .await
        .unwrap();
    rows.iter().map(|r| (r.get(0), r.get(1))).collect()
}

/// Jobs for which the guide's query decides: every event of their tasks names the same job, and the latest time of a completed
/// row is there and stands alone.
fn decided(events: &[Event], tables: &schemas::projection::Tables) -> BTreeSet<String> {
    let mut jobs: BTreeSet<String> = events.iter().map(|event| event.job_key.clone()).collect();
    for event in events {
        for other in events {
            if event.task_id == other.task_id && event.job_key != other.job_key {
                jobs.remove(&event.job_key);
                jobs.remove(&other.job_key);
            }
        }
    }
    jobs.retain(|job| {
        let completed = tables
            .answers
            .values()
            .filter(|row| row.job_key == *job && row.status.as_str() == "COMPLETED");
        let mut times: Vec<_> = completed.map(|row| row.created_at).collect();
        times.sort();
        let times_given = times.iter().all(Option::is_some);
        let latest_alone = times.len() < 2 || times[times.len() - 1] != times[times.len() - 2];
        times_given && latest_alone
    });
    jobs
}

async fn check(database: &Database, sql: &Client, events: &[Told], projectors: &[Vec<Vec<usize>>]) {
    let rules = Rules { rerun_suffix: true };
    let decoder = Decoder {
        subjects: Subjects::new("answers").unwrap(),
        rules,
    };
    let seq = |index: usize| index as u64 + 1;
    let rows: Vec<ResultRow> = events
        .iter()
        .enumerate()
        .map(|(i, told)| decode(&decoder, told, seq(i)))
        .collect();
    sql.batch_execute("truncate answers, winners").await.unwrap();
    let all = projectors.iter().map(|batches| apply(database, &rows, batches));
    futures_util::future::join_all(all).await;

    let events: Vec<Event> = events
        .iter()
        .enumerate()
        .map(|(i, told)| oracle(told, seq(i), rules))
        .collect();
    let tables = fold(events.iter().cloned());
    let expected: BTreeMap<String, AnswerColumns> = tables
        .answers
        .values()
        .map(|row| {
            let columns = (
                row.job_key.clone(),
                row.idempotency_key.clone(),
                row.status.as_str().to_owned(),
                row.created_at,
                row.digest.as_bytes().to_vec(),
                row.problem(),
                row.via.as_str().to_owned(),
                row.provenance.received_at,
                i64::try_from(row.provenance.stream_seq).unwrap(),
            );
            (row.task_id.as_str().to_owned(), columns)
        })
        .collect();
    assert_eq!(answers(sql).await, expected);
    let expected: BTreeMap<String, WinnerColumns> = tables
        .winners
        .iter()
        .map(|(job, winner)| {
            let rank = &winner.rank;
            let seq = i64::try_from(winner.stream_seq).unwrap();
            (
                job.clone(),
                (
                    rank.task_id.as_str().to_owned(),
                    rank.status.as_str().to_owned(),
                    rank.created_at,
                    seq,
                ),
            )
        })
        .collect();
    assert_eq!(winners(sql).await, expected);

    let (guide, reported) = (by_the_guide(sql).await, reported(sql).await);
    for job in decided(&events, &tables) {
        assert_eq!(reported.get(&job), guide.get(&job), "job `{job}`");
    }
}

#[test]
fn any_order_batching_repetition_and_number_of_projectors_give_the_tables_of_the_rule() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let fresh = runtime.block_on(async { Postgres::shared().await.fresh_database().await });
    let sql = runtime.block_on(fresh.connect());
    let limits = Limits {
        statement: Duration::from_secs(10),
        connect: Duration::from_secs(5),
    };
    let database = Database::new(
        fresh.url().parse().unwrap(),
        Connector::Plain,
        "agreement",
        4,
        limits,
    );
    let mut runner = TestRunner::new(Runs {
        cases: 64,
        failure_persistence: None,
        ..Runs::default()
    });
    let result = runner.run(&history(), |(events, projectors)| {
        runtime.block_on(check(&database, &sql, &events, &projectors));
        Ok(())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
}
