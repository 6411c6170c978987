//! "Planned maintenance" of `docs/operations.md`, step by step.

use std::time::Duration;

use failures::world::{Kind, SOON};
use failures::{Setup, Who, World};
use sandbox::eventually;
use sandbox::servers::PostgresOptions;

const RECONCILER: Who = Who::Reconciler(0);
const PROJECTOR: Who = Who::Projector(0);

#[tokio::test]
async fn planned_maintenance_as_the_document_says() {
    let mut world = World::with(Setup {
        ingresses: 2,
        projectors: 2,
        reconcilers: 1,
        // Deliveries that fail are dead within a second or two.
        speed: 2_000.0,
        postgres: Some(PostgresOptions::default()),
        ..Setup::default()
    })
    .await;
    let load = world.load(100);
    world.delivered(100).await;
    let running: Vec<_> = (0..20)
        .map(|n| world.create_task(&format!("running-{n}")))
        .collect();
    let queued: Vec<_> = (0..5).map(|n| world.queue_task(&format!("queued-{n}"))).collect();

    // 1. Stop submitting.
    let ended = load.stop().await;
    // Recorded as an application does: the first check is an hour away.
    let hour = Duration::from_secs(3_600);
    world
        .record(&[ended.clone(), running.clone(), queued].concat(), hour)
        .await;

    // 2. Decide about the queue.
    let cleared = world.ask_provider("DELETE /v1/async/queue").await;
    assert_eq!(cleared["cleared"], 5, "{cleared}");

    // 3. Take it down. What runs at the provider ends meanwhile, and nobody takes its delivery.
    let programs = [Kind::Reconciler, Kind::Ingress, Kind::Projector].map(|kind| world.all(kind));
    for who in programs.concat() {
        world.stop(who).await;
    }
    world.broker.stop().await;
    world.postgres().stop().await;
    for id in &running {
        let outcome = world.answered(0);
        world.end_task(id, outcome);
    }
    eventually("the provider has given up", SOON, async || {
        world.hasten_retries();
        world.pending() == 0
    })
    .await;

    // 4. Do the work; 5. bring it up: servers, schema, programs.
    world.restart_broker().await;
    world.restart_database().await;
    let migrated = world.run(PROJECTOR, &["migrate"]).await;
    assert!(migrated.status.success(), "{migrated:?}");
    for who in [world.all(Kind::Ingress), world.all(Kind::Projector)].concat() {
        world.begin(who);
    }
    for who in [world.all(Kind::Ingress), world.all(Kind::Projector)].concat() {
        world.becomes_ready(who).await;
    }

    // 6. Reconcile: have everything looked at now. What was removed from the queue is left, until it is believed to be gone.
    look_at_all(&world).await;
    let left = world.run(RECONCILER, &["once"]).await;
    assert_eq!(left.status.code(), Some(1), "{left:?}");
    let said = String::from_utf8_lossy(&left.stderr).into_owned() + &String::from_utf8_lossy(&left.stdout);
    assert!(said.contains("5 submissions are outstanding"), "{said}");
    look_at_all(&world).await;
    let once = ["once", "--gone-checks", "1", "--gone-after", "0s"];
    let reconciled = world.run(RECONCILER, &once).await;
    assert!(reconciled.status.success(), "{reconciled:?}");

    // Confirm by status.
    let status = world.ask_provider("GET /v1/async/status").await;
    assert_eq!(
        (&status["queuedTasks"], &status["processingTasks"]),
        (&0.into(), &0.into())
    );
    assert_eq!(world.submissions("GONE").await, 5);
    assert_eq!(world.submissions("SETTLED").await, ended.len() + running.len());
    let report = world.run(RECONCILER, &["report"]).await;
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(report.status.success() && text.contains("GONE"), "{report:?}");

    // 7. Submit again.
    world.start_program(RECONCILER).await;
    let more = world.finish_tasks(20);
    world.record(&more, hour).await;
    let verdict = world.settle_and_judge().await;
    assert_eq!(verdict.answers, ended.len() + running.len() + more.len());
    assert_eq!(verdict.parked, 0);
    world.end().await;
}

/// As the document says: everything that waits is due.
async fn look_at_all(world: &World) {
    let due = "update submitted_tasks set next_check_at = now() where state in ('OPEN', 'OVERDUE')";
    world.sql().await.execute(due, &[]).await.unwrap();
}
