//! A rebuild is where the rules of the job key may change.

use sandbox::eventually;
use schemas::job_key::Rules;

use super::{history, run, tables_are_the_fold};
use crate::answer::Answer;
use crate::world::{SOON, World};

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
    assert!(rebuilt.repaired("answers")[1] > 50, "{rebuilt:?}");
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
    eventually("it waits for the rows", SOON, async || {
        let waiting = "select count(*) from pg_locks l join pg_stat_activity a using (pid)
                        where not l.granted and a.datname = current_database()";
        match world.value::<i64>(waiting, &[]).await {
            0 => Err("nobody waits"),
            _ => Ok(()),
        }
    })
    .await;
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
