//! Rows as an application, or an operator's hand, may write them: none holds up the others.

use sandbox::api::Fault;
use sandbox::eventually;

use crate::world::{SOON, World};

#[tokio::test]
async fn no_values_of_one_row_hold_up_the_others() {
    let world = World::new().await;
    let _projector = world.project();
    world
        .sql
        .batch_execute(
            "insert into submitted_tasks (task_id, idempotency_key, created_at, next_check_at, checks) values
               ('early', null, now(), '-infinity', 0),
               ('before-christ', null, '4713-01-01 00:00Z BC', '4713-01-01 00:00Z BC', 0),
               ('never', null, now(), 'infinity', 0),
               ('often', null, now(), now(), 2147483647),
               ('less-than-never', null, now(), now(), -2147483648),
               ('future', 'k', 'infinity', now(), 0),
               ('past', 'k', '-infinity', now(), 0),
               (null, 'answered|DE', '294276-12-31 23:59:59Z', now(), 0),
               (null, 'k', '-infinity', now(), 0);
             insert into submitted_tasks (task_id, next_check_at, not_found, unusable_answers)
             values ('counted-out', now(), 2147483647, 2147483647)",
        )
        .await
        .unwrap();
    let (number, _) = world.finished_with_key(Some("answered|DE"));
    world.declare().await;
    world.deliver(number).await;
    let task = world.finished();
    world.submit(&task).await;
    let reconciler = world.start().await;
    world.becomes(&task, "SETTLED").await;
    for odd in [
        "early",
        "before-christ",
        "often",
        "less-than-never",
        "future",
        "past",
        "counted-out",
    ] {
        world.is_asked_about(odd, 1).await;
    }
    assert_eq!(world.asked_about("never"), 0);
    for form in [&["report"][..], &["report", "--json"]] {
        let report = world.reconciler().output(form).await;
        assert_eq!(report.code, Some(0), "{report:?}");
        assert!(report.stdout.contains("before-christ"), "{report:?}");
    }
    let log = reconciler.stop().await;
    assert!(!log.contains("not well"), "{log}");
}

/// What the README says to do.
#[tokio::test]
async fn a_lost_task_is_asked_for_again_when_somebody_says_so() {
    let world = World::new().await;
    let _projector = world.project();
    let task = world.finished();
    let lost = "insert into submitted_tasks (task_id, created_at, state, checked_at, not_found)
                values ($1, now() - interval '30h', 'LOST', now(), $2)";
    let unknown = world.queued(None).1;
    world.sql.execute(lost, &[&task, &0]).await.unwrap();
    world.sql.execute(lost, &[&unknown, &5]).await.unwrap();
    let reconciler = world.start().await;
    let again = "update submitted_tasks set state = 'OPEN', next_check_at = now() where task_id = $1";
    for lost in [&task, &unknown] {
        world.sql.execute(again, &[lost]).await.unwrap();
    }
    world.becomes(&task, "SETTLED").await;
    world.is_asked_about(&unknown, 1).await;
    world.becomes(&unknown, "LOST").await;
    reconciler.stop().await;
}

/// By hand, as for maintenance of the provider's.
#[tokio::test]
async fn a_pause_without_an_end_lasts_until_it_is_taken_back() {
    let world = World::new().await;
    let (_, task) = world.queued(None);
    let pause = "insert into provider_pause values ($1, 'infinity', 'maintenance')";
    world.sql.execute(pause, &[&world.api.url()]).await.unwrap();
    world.submit(&task).await;
    let reconciler = world.reconciler().start();
    let closed = r#"reconciler_closed{reason="throttled"}"#;
    reconciler.metric_is(closed, 1.0).await;
    assert_eq!(world.asked().len(), 0);
    world
        .sql
        .batch_execute("delete from provider_pause")
        .await
        .unwrap();
    world.is_asked_about(&task, 1).await;
    let log = reconciler.stop().await;
    assert!(!log.contains("not well"), "{log}");
}

/// What the provider says goes into a column and onto a terminal.
#[tokio::test]
async fn a_status_of_unprintable_letters_is_noted_and_printed_harmlessly() {
    let world = World::new().await;
    let body = br#"{"task":{"id":"t","status":"A\u0000\u001b[2JB"}}"#;
    world.api.faults().all(Fault::Body(body.as_slice().into()));
    world.submit("t").await;
    let odd = "insert into submitted_tasks (task_id, state) values (E'odd\\x1b[2J', 'LOST')";
    world.sql.batch_execute(odd).await.unwrap();
    let reconciler = world.start().await;
    eventually("the status is noted", SOON, async || {
        let noted: Option<String> = world.of("t", "last_error").await;
        noted.filter(|noted| noted.contains(r"A\0\u{1b}[2JB"))
    })
    .await;
    let report = world.reconciler().output(&["report"]).await;
    assert!(report.stdout.contains(r"odd\u{1b}[2J"), "{report:?}");
    assert!(!report.stdout.contains('\u{1b}'), "{report:?}");
    let log = reconciler.stop().await;
    assert!(!log.contains("not well"), "{log}");
}
