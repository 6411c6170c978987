use async_nats::jetstream::stream;
use http::Uri;
use time::OffsetDateTime;
use time::macros::datetime;

use super::*;
use crate::provider::secrets::Secret;
use crate::provider::task::Task;
use crate::provider::{Provider, Settings};
use crate::seed::Seed;
use crate::servers::{NatsServer, Postgres};
use crate::workload;

const SCHEMA: &str = include_str!("../../../../schemas/sql/V1__answers.sql");

const INSERT: &str = "
insert into answers (task_id, job_key, status, created_at, response, response_digest, via, stream_seq, received_at)
values ($1, $1, $2, $3, $4, sha256(''), 'webhook', $5, $6)";

/// More than one fetch of tasks, none of which has a key.
fn tasks() -> Vec<Task> {
    let settings = Settings::loopback(Uri::from_static("http://localhost/"));
    let mut provider = Provider::new(settings, Secret::generate(Seed(7), 0), Seed(7));
    let mut planned = workload::plan(Seed(7), FETCH + 20, datetime!(2026-11-30 12:00 UTC));
    planned
        .iter_mut()
        .for_each(|task| task.request.idempotency_key = None);
    workload::play(&mut provider, planned);
    provider.tasks().to_vec()
}

/// Puts each task on a new stream; the sequences and times that they got.
async fn fill_stream(nats: &NatsServer, tasks: &[Task]) -> Vec<(i64, OffsetDateTime)> {
    let jetstream = jetstream::new(async_nats::connect(nats.url()).await.unwrap());
    let settings = stream::Config {
        name: STREAM.to_owned(),
        subjects: vec!["answers.>".to_owned()],
        ..Default::default()
    };
    let stream = jetstream.create_stream(settings).await.unwrap();
    let durable = pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        ..Default::default()
    };
    stream.create_consumer(durable).await.unwrap();
    let mut stored = Vec::new();
    for task in tasks {
        let subject = format!("answers.result.{}", task.status.as_str().to_lowercase());
        let seq = jetstream
            .publish(subject, task.body())
            .await
            .unwrap()
            .await
            .unwrap()
            .sequence;
        stored.push((
            i64::try_from(seq).unwrap(),
            stream.get_raw_message(seq).await.unwrap().time,
        ));
    }
    stored
}

async fn fill_tables(database: &Client, tasks: &[Task], stored: &[(i64, OffsetDateTime)]) {
    let insert = database.prepare(INSERT).await.unwrap();
    for (task, (seq, time)) in tasks.iter().zip(stored) {
        let response: Value = serde_json::from_str(task.response.as_ref().unwrap().get()).unwrap();
        let status = task.status.as_str();
        database
            .execute(
                &insert,
                &[&task.id, &status, &task.created_at, &response, seq, time],
            )
            .await
            .unwrap();
    }
    let win = "insert into winners select job_key, task_id, status, created_at, stream_seq from answers";
    database.batch_execute(win).await.unwrap();
}

#[tokio::test]
async fn the_audit_sees_every_event_and_row_and_every_later_update() {
    let nats = NatsServer::start().await;
    let url = create_database(&Postgres::shared().await.url()).await.unwrap();
    let database = connect(&url).await.unwrap();
    database.batch_execute(SCHEMA).await.unwrap();
    let tasks = tasks();
    let stored = fill_stream(&nats, &tasks).await;
    let evidence = Evidence::open(&nats.url(), &url).await.unwrap();
    fill_tables(&database, &tasks, &stored).await;
    let audit = async || {
        let mut audit = Audit::new(&tasks);
        evidence.read_into(&mut audit).await.unwrap();
        audit.finish()
    };

    let count = tasks.len();
    database
        .batch_execute("insert into submitted_tasks (task_id) values ('a'), ('b'), ('c')")
        .await
        .unwrap();
    database
        .batch_execute("update submitted_tasks set state = 'SETTLED' where task_id = 'c'")
        .await
        .unwrap();
    let progress = evidence.progress().await.unwrap();
    assert_eq!(
        progress,
        Progress {
            rows: count as u64,
            outstanding: count as u64,
            unsettled: 2,
        }
    );
    evidence.let_the_hour_pass().await.unwrap();
    let due = "select array_agg(task_id order by task_id) from submitted_tasks where next_check_at <= now()";
    let due: Vec<String> = database.query_one(due, &[]).await.unwrap().get(0);
    assert_eq!(due, ["a", "b"]);
    let findings = audit().await;
    assert!(findings.is_clean(), "{findings:?}");
    assert_eq!(
        (findings.answered, findings.rows, findings.winners),
        (count, count, count)
    );

    assert_eq!(findings.recovered, 0);

    // An upsert of a copy that has no condition writes the same values once more.
    database
        .execute(
            "update answers set status = status where task_id = $1",
            &[&tasks[3].id],
        )
        .await
        .unwrap();
    assert_eq!(
        audit().await.duplicated,
        [format!("{}: a copy rewrote its row", tasks[3].id)]
    );

    let recovered = "update answers set via = 'reconciler' where task_id = any($1)";
    let some: Vec<&str> = tasks[5..12].iter().map(|task| task.id.as_str()).collect();
    database.execute(recovered, &[&some]).await.unwrap();
    assert_eq!(audit().await.recovered, 7);

    let damage = "delete from answers where task_id = $1";
    database.execute(damage, &[&tasks[FETCH + 10].id]).await.unwrap();
    database
        .batch_execute(
            "insert into parked values (now(), 1, 'answers.quarantine', null, 'x', null, '', now())",
        )
        .await
        .unwrap();
    let findings = audit().await;
    assert_eq!(
        (findings.lost.len(), findings.parked, findings.answered),
        (1, 1, count - 1)
    );
}
