//! What readers of the tables notice of a rebuild: nothing.

use std::time::Duration;

use schemas::job_key::Rules;
use tokio::time::Instant;

use super::{history, run, tables_are_the_fold};
use crate::world::World;

/// The longest that a read may take beside a rebuild; far more than it does, on a busy machine too.
const READ: Duration = Duration::from_secs(2);

// B40
#[tokio::test]
async fn readers_never_wait_and_all_that_hangs_on_the_tables_stays() {
    let world = World::new().await;
    world.publish_all(history(2_000)).await;
    let projector = world.start().await;
    world.rows("answers", 2_000).await;
    world.settled().await;
    let role = format!("reader_{}", world.database.name());
    let hung = format!(
        "create role {role};
         grant select on answers to {role};
         grant select (job_key) on winners to {role};
         create view mine as select task_id, response -> 'result' as result from answers where status = 'COMPLETED';
         create table notes (task_id text collate \"C\" references answers on delete cascade, note text);
         insert into notes select task_id, 'kept' from answers;
         create index answers_received on answers (received_at);
         alter table answers add column note text default 'new';
         update answers set note = 'mine';
         alter table winners add column seen boolean not null default false"
    );
    world.sql.batch_execute(&hung).await.unwrap();

    // A session that has been there for long: statements prepared before, and a snapshot of before.
    let prepared = world.database.connect().await;
    let by_task = prepared
        .prepare("select response_digest, note from answers where task_id = $1")
        .await
        .unwrap();
    let by_job = prepared
        .prepare("select task_id from reported_answers where job_key = $1")
        .await
        .unwrap();
    let mut old = world.database.connect().await;
    let reading = old
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
        .start()
        .await
        .unwrap();
    let seen = async |reading: &tokio_postgres::Transaction<'_>| -> i64 {
        let query = "select count(*) from answers, winners where answers.task_id = winners.task_id and response is not null";
        reading.query_one(query, &[]).await.unwrap().get(0)
    };
    let before = seen(&reading).await;

    let corrupt = "update answers set response = null where task_id like 't1%';
                   update winners set status = 'FAILED';
                   delete from notes where task_id like 't2%'; delete from answers where task_id like 't2%'";
    world.sql.batch_execute(corrupt).await.unwrap();
    let builder = world.projector();
    let mut rebuilding = tokio::spawn(async move { run(&builder, &["rebuild"]).await });
    let (mut longest, mut reads) = (Duration::ZERO, 0_u64);
    let rebuilt = loop {
        let begun = Instant::now();
        prepared.query(&by_task, &[&"t17"]).await.unwrap();
        prepared.query(&by_job, &[&"job3"]).await.unwrap();
        world.sql.query("select count(*) from mine", &[]).await.unwrap();
        longest = longest.max(begun.elapsed());
        reads += 1;
        tokio::select! {
            biased;
            rebuilt = &mut rebuilding => break rebuilt.unwrap(),
            () = tokio::task::yield_now() => {}
        }
    };
    assert_eq!(rebuilt.code, Some(0), "{rebuilt:?}");
    assert!(rebuilt.repaired("answers")[1] > 1_000, "{rebuilt:?}");
    assert!(longest < READ, "the longest of {reads} reads took {longest:?}");
    assert_eq!(seen(&reading).await, before);
    reading.commit().await.unwrap();

    tables_are_the_fold(&world, Rules::default()).await;
    assert_eq!(prepared.query(&by_task, &[&"t17"]).await.unwrap().len(), 1);
    let kept: i64 = world
        .value(
            "select count(*) from answers where note = 'mine' and task_id not like 't2%'",
            &[],
        )
        .await;
    assert_eq!(
        kept,
        world
            .value::<i64>("select count(*) from answers where task_id not like 't2%'", &[])
            .await
    );
    let hangs = format!(
        "select has_table_privilege('{role}', 'answers', 'select')
            and has_column_privilege('{role}', 'winners', 'job_key', 'select')
            and not has_table_privilege('{role}', 'winners', 'select')
            and (select count(*) from pg_constraint where conrelid = 'notes'::regclass and contype = 'f') = 1
            and (select indisvalid from pg_index where indexrelid = 'answers_received'::regclass)
            and (select count(*) from notes) = (select count(*) from answers where task_id not like 't2%')"
    );
    assert!(world.value::<bool>(&hangs, &[]).await);
    projector.ready().await;
    projector.stop().await;
    let drop = format!("drop owned by {role}; drop role {role}");
    world.sql.batch_execute(&drop).await.unwrap();
}
