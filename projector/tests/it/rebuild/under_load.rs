//! Rebuilds while results come in, killed and run again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::Rng;
use sandbox::eventually;
use sandbox::seed::Seed;
use schemas::job_key::Rules;
use stream::{Connection, StreamSpec};
use tokio::task::JoinHandle;

use super::{LONG, history, run, tables_are_the_fold};
use crate::answer::Answer;
use crate::world::{SOON, World, event, publish};

/// Between two deliveries: fifty a second.
const PAUSE: Duration = Duration::from_millis(20);

/// Results of new tasks, at a steady rate, until it is stopped.
pub(super) struct Load {
    stopping: Arc<AtomicBool>,
}

impl Load {
    pub(super) fn start(world: &World) -> (Self, JoinHandle<u64>) {
        let stopping = Arc::new(AtomicBool::new(false));
        let running = deliver(
            world.connection.clone(),
            world.spec.clone(),
            Arc::clone(&stopping),
        );
        (Self { stopping }, tokio::spawn(running))
    }

    /// Gives how many there were.
    pub(super) async fn stop(self, running: JoinHandle<u64>) -> u64 {
        self.stopping.store(true, Ordering::Relaxed);
        running.await.unwrap()
    }
}

async fn deliver(connection: Connection, spec: StreamSpec, stopping: Arc<AtomicBool>) -> u64 {
    let mut ticks = tokio::time::interval(PAUSE);
    let mut delivered = 0;
    while !stopping.load(Ordering::Relaxed) {
        ticks.tick().await;
        let answer = Answer::of(&format!("live{delivered}")).key(&format!("live{}", delivered / 2));
        publish(&connection, &spec, event(answer.body())).await;
        delivered += 1;
    }
    delivered
}

/// Small things that go wrong with tables, a different one each time.
fn corruption(turn: usize) -> String {
    let task = |offset: usize| format!("t{}", (turn * 13 + offset) % 400);
    format!(
        "delete from answers where task_id in ('{}', '{}');
         update answers set response = null where task_id = '{}';
         update answers set created_at = null, job_key = 'elsewhere' where task_id = '{}';
         delete from winners where job_key in (select job_key from winners offset {turn} limit 2);
         update winners set status = 'FAILED' where job_key in (select job_key from winners offset {turn} limit 1);
         insert into answers select 'ghost{turn}', 'ghost', null, status, created_at, response, response_digest, null, via,
                stream_seq + {turn} * 1000000, received_at from answers limit 1 on conflict do nothing",
        task(1),
        task(2),
        task(3),
        task(5),
    )
}

// B39
#[tokio::test]
async fn a_rebuild_killed_at_any_moment_leaves_right_rows_and_a_new_one_does_the_rest() {
    let world = World::new().await;
    world.publish_all(history(400)).await;
    let _projectors = [world.start().await, world.start().await];
    world.rows("answers", 400).await;
    world.settled().await;
    let (load, live) = Load::start(&world);
    let builder = world.projector();
    let rng = &mut Seed(39).rng("kill", 0);
    let (mut killed, mut ended) = (0, 0);
    for turn in 0..12 {
        world.sql.batch_execute(&corruption(turn)).await.unwrap();
        let mut child = builder.command(&["rebuild", "--prune"]).spawn().unwrap();
        let patience = Duration::from_millis(rng.random_range(20..900));
        match tokio::time::timeout(patience, child.wait()).await {
            Ok(status) => {
                assert_eq!(status.unwrap().code(), Some(0));
                ended += 1;
            }
            Err(_) => {
                child.kill().await.unwrap();
                killed += 1;
            }
        }
    }
    assert!(killed > 0, "none of {ended} was killed");
    let rebuilt = run(&builder, &["rebuild", "--prune"]).await;
    assert_eq!(rebuilt.code, Some(0), "{rebuilt:?}");
    load.stop(live).await;
    world.settled().await;
    tables_are_the_fold(&world, Rules::default()).await;
    let clean = run(&builder, &["verify", "--deep"]).await;
    assert_eq!(clean.code, Some(0), "{clean:?}");
    eventually("nothing is left of the side tables", SOON, async || {
        let temporary = "select count(*) from pg_class where relpersistence = 't'";
        match world.value::<i64>(temporary, &[]).await {
            0 => Ok(()),
            left => Err(left),
        }
    })
    .await;
}

// B39
#[tokio::test]
async fn of_two_at_once_the_second_is_refused() {
    let world = World::new().await;
    world.publish_all(history(20)).await;
    let projector = world.start().await;
    world.rows("answers", 20).await;
    projector.stop().await;
    world
        .sql
        .batch_execute("update answers set response = null where task_id = 't7'")
        .await
        .unwrap();
    let mut other = world.database.connect().await;
    let lock = other.transaction().await.unwrap();
    lock.batch_execute("select from answers where task_id = 't7' for update")
        .await
        .unwrap();
    let builder = world.projector();
    let first = {
        let builder = builder.clone();
        tokio::spawn(async move { run(&builder, &["rebuild"]).await })
    };
    world.somebody_waits().await;
    for command in ["rebuild", "verify"] {
        let second = run(&builder, &[command]).await;
        assert_eq!(second.code, Some(2), "{second:?}");
        assert!(second.said.contains("another verify or rebuild"), "{second:?}");
    }
    lock.rollback().await.unwrap();
    let first = tokio::time::timeout(LONG, first).await.unwrap().unwrap();
    assert_eq!(first.code, Some(0), "{first:?}");
    assert_eq!(first.repaired("answers"), [0, 1, 0, 0, 0]);
}

#[tokio::test]
async fn a_broker_that_restarts_meanwhile_only_holds_it_up() {
    let mut nats = crate::world::nats().await;
    let database = sandbox::servers::Postgres::shared().await.fresh_database().await;
    let world = World::on(&nats, database).await;
    world.publish_all(history(3_000)).await;
    let builder = world.projector();
    let loading = {
        let builder = builder.clone();
        tokio::spawn(async move { run(&builder, &["rebuild"]).await })
    };
    eventually("some rows are there", SOON, async || {
        world.count("answers").await > 0
    })
    .await;
    nats.kill();
    nats.restart().await;
    let loaded = loading.await.unwrap();
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    eventually("the world is connected again", SOON, async || {
        world.connection.is_connected()
    })
    .await;
    tables_are_the_fold(&world, Rules::default()).await;
}
