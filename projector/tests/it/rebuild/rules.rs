//! A rebuild is where the rules of the job key may change.

use schemas::job_key::Rules;

use super::{history, run, tables_are_the_fold};
use crate::answer::Answer;
use crate::world::World;

const KEPT: Rules = Rules { rerun_suffix: false };

#[tokio::test]
async fn rows_are_made_anew_under_other_rules_and_projectors_with_the_old_ones_keep_off() {
    let world = World::new().await;
    world.publish_all(history(300)).await;
    // What the old one has in hand when it is stopped comes back after this time.
    let builder = world
        .projector()
        .set("STATEMENT_TIMEOUT", "500ms")
        .set("ACK_WAIT", "3s");
    let old = builder.start_ready().await;
    world.rows("answers", 300).await;
    world.settled().await;
    let builder = builder.set("RERUN_SUFFIX", "false");
    let refused = run(&builder, &["verify"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.said.contains("rerun_suffix = true"), "{refused:?}");

    let rebuilt = run(&builder, &["rebuild"]).await;
    assert_eq!(rebuilt.code, Some(0), "{rebuilt:?}");
    assert!(rebuilt.number("/rekeyed") > 50, "{rebuilt:?}");
    assert_eq!(rebuilt.found("answers"), [0; 5], "{rebuilt:?}");
    tables_are_the_fold(&world, KEPT).await;

    let rerun = Answer::of("new").key("job5-r2");
    world.publish(&rerun).await;
    old.unready("rerun_suffix = false").await;
    assert_eq!(world.count("answers").await, 300);
    old.stop().await;
    let new = builder.start_ready().await;
    world.rows("answers", 301).await;
    world.settled().await;
    tables_are_the_fold(&world, KEPT).await;
    new.stop().await;
    let verified = run(&builder, &["verify", "--deep"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

/// The rows whose events are gone belong to jobs as well, of which each has one winner.
#[tokio::test]
async fn rows_that_the_stream_can_no_longer_prove_are_made_anew_as_well() {
    let world = World::new().await;
    world.publish_all(history(300)).await;
    let projector = world.start().await;
    world.rows("answers", 300).await;
    world.settled().await;
    projector.stop().await;
    world.stream().await.purge().sequence(200).await.unwrap();
    // Held on to, and with tasks left under either rule.
    let kept = "create table notes (job_key text collate \"C\" references winners); insert into notes values ('job4'), ('job5')";
    world.sql.batch_execute(kept).await.unwrap();
    let of_rule = [
        ("false", "coalesce(idempotency_key, task_id)"),
        (
            "true",
            r"coalesce(regexp_replace(idempotency_key, '^(.+)-r[1-9][0-9]*$', '\1'), task_id)",
        ),
    ];
    for (rerun_suffix, job_key) in of_rule {
        let builder = world.projector().set("RERUN_SUFFIX", rerun_suffix);
        let rebuilt = run(&builder, &["rebuild"]).await;
        assert_eq!(rebuilt.code, Some(0), "{rebuilt:?}");
        assert!(rebuilt.number("/rekeyed") > 50, "{rebuilt:?}");
        assert_eq!(world.count("answers").await, 300);
        let other_jobs = format!("select count(*) from answers where job_key <> {job_key}");
        assert_eq!(world.value::<i64>(&other_jobs, &[]).await, 0, "{rebuilt:?}");
        let other_winners = "select count(*) from (
               select distinct on (job_key) job_key, task_id, status, created_at, stream_seq from answers
                order by job_key, status = 'COMPLETED' desc, coalesce(created_at, '-infinity') desc, task_id desc) f
             full join winners w using (job_key)
             where (f.task_id, f.status, f.created_at, f.stream_seq) is distinct from (w.task_id, w.status, w.created_at, w.stream_seq)";
        assert_eq!(world.value::<i64>(other_winners, &[]).await, 0, "{rebuilt:?}");
        let verified = run(&builder, &["verify", "--deep"]).await;
        assert_eq!(verified.code, Some(0), "{verified:?}");
        assert_eq!(verified.found("answers"), [0, 0, 0, 0, 199], "{verified:?}");
    }
}

#[tokio::test]
async fn a_change_of_rules_that_was_killed_keeps_all_projectors_off_until_it_is_done() {
    let world = World::new().await;
    world.publish_all(history(300)).await;
    let projector = world.start().await;
    world.rows("answers", 300).await;
    world.settled().await;
    projector.stop().await;
    let mut other = world.database.connect().await;
    let lock = other.transaction().await.unwrap();
    lock.batch_execute("select from winners for update")
        .await
        .unwrap();
    let builder = world.projector().set("RERUN_SUFFIX", "false");
    let mut child = builder.command(&["rebuild"]).spawn().unwrap();
    world.somebody_waits().await;
    child.kill().await.unwrap();
    lock.rollback().await.unwrap();

    let new = builder.start();
    new.unready("that takes `projector rebuild` to its end").await;
    let refused = run(&builder, &["verify"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let rebuilt = run(&builder, &["rebuild"]).await;
    assert_eq!(rebuilt.code, Some(0), "{rebuilt:?}");
    new.ready().await;
    tables_are_the_fold(&world, KEPT).await;
}
