//! `projector verify` and `projector rebuild`, as an operator runs them.

mod load;
mod origin;
mod readers;
mod repair;
mod rules;
mod under_load;

use std::collections::BTreeMap;
use std::time::Duration;

use schemas::delivery::{self, Delivery};
use schemas::event::Received;
use schemas::job_key::Rules;
use schemas::projection::{Answer as Event, Tables, fold};
use serde_json::Value;
use stream::Reader;
use stream::connect::Settings;
use tokio_postgres::Client;

use crate::answer::Answer;
use crate::projector::Builder;
use crate::world::World;

/// How long a command may take, on a busy machine too.
const LONG: Duration = Duration::from_secs(120);

/// What a command found, and its exit code.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    report: Value,
    said: String,
}

impl Ran {
    /// A number of the report, by its path.
    fn number(&self, path: &str) -> u64 {
        let value = self.report.pointer(path).and_then(Value::as_u64);
        value.unwrap_or_else(|| panic!("no {path} in {self:?}"))
    }

    /// What was found in a table: missing, wrong, not on the stream, invented, unproven.
    fn found(&self, table: &str) -> [u64; 5] {
        self.counts(&format!("/{table}/found"))
    }

    /// What was put right in it.
    fn repaired(&self, table: &str) -> [u64; 5] {
        self.counts(&format!("/{table}/repaired"))
    }

    fn counts(&self, path: &str) -> [u64; 5] {
        ["missing", "wrong", "not_on_stream", "invented", "unproven"]
            .map(|finding| self.number(&format!("{path}/{finding}")))
    }
}

/// Runs `verify` or `rebuild` to its end.
async fn run(builder: &Builder, arguments: &[&str]) -> Ran {
    let arguments = [arguments, &["--json"]].concat();
    let output = tokio::time::timeout(LONG, builder.command(&arguments).output());
    let output = output.await.expect("the command ends").unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ran {
        code: output.status.code(),
        report: serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        said,
    }
}

/// The tables are what the stream comes to by the rule's own function.
async fn tables_are_the_fold(world: &World, rules: Rules) {
    let (events, responses) = events(world, rules).await;
    let tables = fold(events);
    assert_eq!(answers(&world.sql).await, expected_answers(&tables));
    assert_eq!(winners(&world.sql).await, expected_winners(&tables));
    let tasks: Vec<&str> = tables.answers.keys().map(|task| task.as_str()).collect();
    let texts: Vec<Option<&str>> = tables
        .answers
        .values()
        .map(|row| responses[&row.provenance.stream_seq].as_deref())
        .collect();
    let query = "select a.task_id from answers a join unnest($1::text[], $2::text[]) e (task_id, response) using (task_id)
                  where a.response is distinct from e.response::jsonb";
    let unlike = world.sql.query(query, &[&tasks, &texts]).await.unwrap();
    assert!(
        unlike.is_empty(),
        "{} responses are not those of the events",
        unlike.len()
    );
}

/// Every result on the stream, and the text of its response.
async fn events(world: &World, rules: Rules) -> (Vec<Event>, BTreeMap<u64, Option<String>>) {
    let reader = Reader::new(&world.connection, &world.spec.name);
    let last = reader.state().await.unwrap().unwrap().last_seq;
    let mut scan = reader.scan(&Settings::for_url(&world.nats_url), 1, last);
    let (mut events, mut responses) = (Vec::new(), BTreeMap::new());
    while let Some(read) = scan.next().await.unwrap() {
        for event in read {
            let Ok(Delivery::Result(result)) = delivery::read(&event.body) else {
                continue;
            };
            let via = Received::from_headers(event.header_pairs()).via.unwrap();
            responses.insert(
                event.seq,
                result.response.map(|response| response.get().to_owned()),
            );
            events.push(Event::of(&result, rules, via, event.time, event.seq));
        }
    }
    (events, responses)
}

fn expected_answers(tables: &Tables) -> Vec<String> {
    let rows = tables.answers.values().map(|row| {
        format!(
            "{} {} {:?} {} {:?} {} {:?} {} {} {}",
            row.task_id,
            row.job_key,
            row.idempotency_key,
            row.status.as_str(),
            row.created_at.map(|at| at.unix_timestamp_nanos()),
            row.digest,
            row.problem(),
            row.via,
            row.provenance.received_at.unix_timestamp_nanos(),
            row.provenance.stream_seq,
        )
    });
    rows.collect()
}

async fn answers(sql: &Client) -> Vec<String> {
    let query = "select task_id, job_key, idempotency_key, status, created_at, encode(response_digest, 'hex'), problem, via,
                        received_at, stream_seq from answers order by task_id";
    let rows = sql.query(query, &[]).await.unwrap();
    let rows = rows.iter().map(|row| {
        let moment = |at: time::OffsetDateTime| at.unix_timestamp_nanos();
        format!(
            "{} {} {:?} {} {:?} {} {:?} {} {} {}",
            row.get::<_, String>(0),
            row.get::<_, String>(1),
            row.get::<_, Option<String>>(2),
            row.get::<_, String>(3),
            row.get::<_, Option<time::OffsetDateTime>>(4).map(moment),
            row.get::<_, String>(5),
            row.get::<_, Option<String>>(6),
            row.get::<_, String>(7),
            moment(row.get(8)),
            row.get::<_, i64>(9),
        )
    });
    rows.collect()
}

fn expected_winners(tables: &Tables) -> Vec<String> {
    let rows = tables.winners.iter().map(|(job, winner)| {
        let rank = &winner.rank;
        let created = rank.created_at.map(|at| at.unix_timestamp_nanos());
        format!(
            "{job} {} {} {created:?} {}",
            rank.task_id,
            rank.status.as_str(),
            winner.stream_seq
        )
    });
    rows.collect()
}

async fn winners(sql: &Client) -> Vec<String> {
    let query = "select job_key, task_id, status, created_at, stream_seq from winners order by job_key";
    let rows = sql.query(query, &[]).await.unwrap();
    let rows = rows.iter().map(|row| {
        let created = row.get::<_, Option<time::OffsetDateTime>>(3);
        format!(
            "{} {} {} {:?} {}",
            row.get::<_, String>(0),
            row.get::<_, String>(1),
            row.get::<_, String>(2),
            created.map(|at| at.unix_timestamp_nanos()),
            row.get::<_, i64>(4)
        )
    });
    rows.collect()
}

/// Every column of every row.
async fn dump(sql: &Client) -> Vec<String> {
    let query =
        "select 'answer ' || a::text from answers a union all select 'winner ' || w::text from winners w
                 union all select 'parked ' || p::text from parked p order by 1";
    let rows = sql.query(query, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Results of every kind that the rule decides about: tasks that share a job, failures, reruns, tasks without a key.
fn history(count: usize) -> impl Iterator<Item = Answer> {
    (0..count).map(|number| {
        let answer = Answer::of(&format!("t{number}"))
            .created(&format!(
                "\"2026-11-30T{:02}:00:00.{:03}Z\"",
                number % 24,
                number % 7
            ))
            .response(format!(
                r#"{{"result":{{"text":"answer {number}","n":{number}.50}}}}"#
            ));
        let answer = match number % 5 {
            0 => answer,
            1 => answer.key(&format!("job{}", number / 10)),
            2 => answer.key(&format!("job{}-r1", number / 10)),
            3 => answer.key(&format!("job{}", number / 3)),
            _ => answer.key(&format!("job{number}")),
        };
        if number % 7 == 3 { answer.failed() } else { answer }
    })
}
