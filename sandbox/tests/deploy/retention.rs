//! docs/retention.md, walked through in a deployment: each of its commands is run as it stands there.

use sandbox::{eventually, program::page};
use tokio_postgres::Client;

use crate::{
    SOON,
    delivery::{connect, deliver, migrate},
    deployment::{Deployment, Running},
    read, said,
    walk::{Person, Section, sections_with_commands, well},
};

pub(crate) const PAGE: &str = "docs/retention.md";

const FULL: &str = "When the stream fills up";
const ERASE: &str = "Erasing one task";
pub(crate) const BACKUP: &str = "Backup and restore";

#[test]
fn every_command_of_the_page_is_walked_through_here() {
    assert_eq!(sections_with_commands(&read(PAGE)), [FULL, ERASE, BACKUP]);
}

/// A result with some weight to it.
fn result(task: &str, key: &str) -> String {
    let text = "Three makers come up most often. ".repeat(60);
    format!(
        r#"{{"task":{{"id":"{task}","status":"COMPLETED","createdAt":"2026-11-30T12:00:00Z","idempotencyKey":"{key}"}},"response":{{"result":"{task} {text}"}}}}"#
    )
}

pub(crate) async fn sent(ingress: &Running<'_>, task: &str, key: &str) -> u16 {
    let path = &ingress.deployment.compose.services["ingress"].environment["HOOK_PATH"];
    deliver(ingress.public.addr(), path, &result(task, key)).await
}

/// The one text that a query gives.
pub(crate) async fn text(client: &Client, query: &str) -> Option<String> {
    client.query_one(query, &[]).await.unwrap().get(0)
}

pub(crate) async fn becomes(client: &Client, query: &str, expected: &str) {
    eventually(&format!("{query} gives {expected}"), SOON, async || {
        let found = text(client, query).await.unwrap_or_default();
        if found == expected { Ok(()) } else { Err(found) }
    })
    .await;
}

pub(crate) const TASKS: &str = "select string_agg(task_id, ' ' order by task_id) from answers";
const WINNERS: &str = "select string_agg(task_id, ' ' order by task_id) from winners";

#[tokio::test]
async fn a_stream_that_fills_up_warns_refuses_and_takes_more_once_it_is_given_room() {
    let deployment = Deployment::start().await;
    migrate(&deployment);
    let ingress = deployment.run_with("ingress", &[("STREAM_MAX_BYTES", "102400")]);
    ingress.is_healthy().await;
    let readiness = async || page(ingress.admin.addr(), "/readyz").await.unwrap();
    // Over half of it at once, then a little at a time, so that a look at the stream falls between 80 % and full.
    let mut taken = 0;
    let mut used = 0;
    while used < 80 {
        for _ in 0..if taken == 0 { 24 } else { 2 } {
            assert_eq!(sent(&ingress, &format!("task-{taken}"), "").await, 204);
            taken += 1;
        }
        used = eventually("the gauge follows", SOON, async || {
            let (_, metrics) = page(ingress.admin.addr(), "/metrics").await.unwrap();
            Some(percent(&metrics)).filter(|now| *now > used)
        })
        .await;
    }
    let (status, body) = readiness().await;
    assert_eq!(status, 200, "{body}");
    let warning = format!("ready\nwarning: stream: {used} % of its room is taken");
    assert!(body.starts_with(&warning), "{body}");
    loop {
        match sent(&ingress, &format!("task-{taken}"), "").await {
            204 => taken += 1,
            503 => break,
            other => panic!("{other}"),
        }
    }
    eventually("it is unready", SOON, async || {
        readiness().await == (503, "stream: the stream is full\n".to_owned())
    })
    .await;

    let mut person = Person::beside(&deployment);
    person.replace("20GiB", "204800");
    let mut section = Section::of(PAGE, FULL);
    let changed = well(&section.run(&person, "--stream-max-bytes 20GiB"));
    assert!(changed.contains("max_bytes is 102400, not 204800"), "{changed}");
    eventually("it is taken", SOON, async || {
        sent(&ingress, "late", "").await == 204
    })
    .await;
    eventually("it is ready", SOON, async || {
        readiness().await == (200, "ready\n".to_owned())
    })
    .await;
    let changed = well(&section.run(&person, "--stream-max-age 90d"));
    assert!(changed.contains("max_age is 0ns, not 7776000s"), "{changed}");

    // Nothing that was there is gone, and what was refused came back by itself.
    let _projector = deployment.run("projector");
    let client = connect(&deployment).await;
    becomes(
        &client,
        "select count(*)::text from answers",
        &(taken + 1).to_string(),
    )
    .await;
}

/// Percent of the room that is taken, from the text of the metrics.
fn percent(metrics: &str) -> u64 {
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("ingress_stream_used_ratio "));
    let ratio: f64 = line.unwrap().parse().unwrap();
    (ratio * 100.0) as u64
}

#[tokio::test]
async fn an_age_limit_takes_events_and_leaves_rows() {
    let deployment = Deployment::start().await;
    migrate(&deployment);
    let limits = [("STREAM_MAX_AGE", "3s"), ("DUPLICATE_WINDOW", "1s")];
    let ingress = deployment.run_with("ingress", &limits);
    let projector = deployment.run_with("projector", &limits);
    ingress.is_healthy().await;
    projector.is_healthy().await;
    assert_eq!(sent(&ingress, "aged", "k").await, 204);
    let client = connect(&deployment).await;
    becomes(&client, TASKS, "aged").await;
    let mut person = Person::beside(&deployment);
    as_user(&mut person, "projector");
    eventually("the event is gone and the row is there", SOON, async || {
        let told = person.shell("projector explain aged");
        if said(&told).contains("does not hold the event that its row came from") {
            Ok(())
        } else {
            Err(said(&told))
        }
    })
    .await;
    becomes(&client, WINNERS, "aged").await;
}

pub(crate) fn as_user(person: &mut Person, name: &str) {
    person.set("NATS_API_PREFIX", "ANSWERS.API");
    person.set("NATS_USER", name);
    person.set("NATS_PASSWORD_FILE", format!("deploy/secrets/{name}.password"));
}

#[tokio::test]
async fn a_task_is_erased_and_a_delivery_of_it_brings_it_back() {
    let deployment = Deployment::start().await;
    migrate(&deployment);
    let ingress = deployment.run("ingress");
    let projector = deployment.run("projector");
    ingress.is_healthy().await;
    projector.is_healthy().await;
    for task in ["task-1", "task-2"] {
        assert_eq!(sent(&ingress, task, "kettles|DE").await, 204);
    }
    let client = connect(&deployment).await;
    becomes(&client, TASKS, "task-1 task-2").await;
    becomes(&client, WINNERS, "task-2").await;

    let mut person = Person::beside(&deployment);
    person.set("TASK", "task-2");
    // Whoever runs it as a service cannot.
    as_user(&mut person, "projector");
    let refused = person.shell(r#"projector erase "$TASK""#);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("only `eraser` has"), "{}", said(&refused));
    becomes(&client, TASKS, "task-1 task-2").await;

    let mut section = Section::of(PAGE, ERASE);
    let plan = well(&section.run(&person, "--dry-run"));
    assert!(
        plan.contains("this would be erased") && plan.contains("winner of job kettles|DE"),
        "{plan}"
    );
    let done = section.run(&person, r#"projector erase "$TASK""#);
    assert!(well(&done).contains("task task-2 is erased"), "{}", said(&done));
    let check = section.run(&person, r#"projector explain "$TASK""#);
    assert_eq!(check.status.code(), Some(1), "{}", said(&check));
    assert_eq!(text(&client, TASKS).await.as_deref(), Some("task-1"));
    assert_eq!(text(&client, WINNERS).await.as_deref(), Some("task-1"));

    // This process took it a moment ago: it answers from memory, and stores nothing.
    assert_eq!(sent(&ingress, "task-2", "kettles|DE").await, 204);
    // Another one asks the broker, which remembers the id and has nothing to show for it.
    drop(ingress);
    let ingress = deployment.run("ingress");
    ingress.is_healthy().await;
    assert_eq!(sent(&ingress, "task-2", "kettles|DE").await, 204);
    becomes(&client, TASKS, "task-1 task-2").await;
    as_user(&mut person, "eraser");
    let again = person.shell(r#"projector erase --json "$TASK""#);
    assert!(well(&again).contains("\"msg_id\": \"task-2#"), "{}", said(&again));
    // Both of its ids are remembered now, until the window has passed.
    drop(ingress);
    let ingress = deployment.run("ingress");
    ingress.is_healthy().await;
    assert_eq!(sent(&ingress, "task-2", "kettles|DE").await, 503);
    assert_eq!(text(&client, TASKS).await.as_deref(), Some("task-1"));
}
