//! The commands, and what is refused at the start.

use sandbox::api::{Fault, RetryAfter};
use serde_json::Value;

use crate::world::World;

#[tokio::test]
async fn once_ends_with_0_when_everything_is_settled_and_the_provider_has_nothing_left() {
    let world = World::new().await;
    let _projector = world.project();
    let tasks: Vec<String> = (0..30).map(|_| world.finished()).collect();
    for task in &tasks {
        world.submit(task).await;
    }
    // Not yet due for the first time: nothing is wrong with it.
    world.submit_with("young", None, "0s", "-1h").await;
    let output = world.reconciler().output(&["once"]).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(world.count("submitted_tasks where state = 'SETTLED'").await, 30);
    assert!(output.stderr.contains("nothing left to do"), "{output:?}");
}

#[tokio::test]
async fn once_ends_with_1_and_says_what_is_left() {
    let world = World::new().await;
    let _projector = world.project();
    let (_, task) = world.queued(None);
    let output = world.reconciler().output(&["once"]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.stderr.contains("1 tasks queued and 0 running"),
        "{output:?}"
    );
    world.submit(&task).await;
    let output = world
        .reconciler()
        .set("CHECK_INTERVAL", "10m")
        .set("MAX_CHECK_INTERVAL", "10m")
        .output(&["once"])
        .await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.stderr.contains("1 submissions are outstanding"),
        "{output:?}"
    );
    world.api.faults().all(Fault::status(401));
    world
        .sql
        .batch_execute("update submitted_tasks set next_check_at = now()")
        .await
        .unwrap();
    let output = world.reconciler().output(&["once"]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("cannot be asked: denied"), "{output:?}");
}

/// Whoever started it, a person or cron, may start it again later.
#[tokio::test]
async fn once_ends_with_1_when_the_provider_never_answers() {
    let world = World::new().await;
    for number in 0..20 {
        world.submit(&format!("t-{number}")).await;
    }
    world.api.faults().all(Fault::Status(429, RetryAfter::Seconds(1)));
    let output = world.reconciler().output(&["once"]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("cannot be asked: throttled"), "{output:?}");
    world.api.faults().clear();
    world.api.faults().all(Fault::HangUp);
    let output = world.reconciler().output(&["once"]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("cannot be asked: failing"), "{output:?}");
}

#[tokio::test]
async fn the_help_shows_nothing_of_the_environment_that_may_hold_a_password() {
    let world = World::new().await;
    let builder = world
        .reconciler()
        .set("PROVIDER_PROXY", "http://user:hunter2@proxy")
        .set("NATS_URL", "nats://user:hunter2@broker");
    for command in ["run", "once", "report", "record"] {
        let output = builder.output(&[command, "--help"]).await;
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(!format!("{output:?}").contains("hunter2"), "{output:?}");
    }
}

#[tokio::test]
async fn a_backlog_is_called_done_only_after_the_provider_was_asked() {
    let world = World::new().await;
    let _projector = world.project();
    let (_, queued) = world.queued(None);
    let task = world.finished();
    world.submit(&task).await;
    let reconciler = world.start().await;
    world.becomes(&task, "SETTLED").await;
    reconciler
        .metric_is("reconciler_provider_queued_tasks", 1.0)
        .await;
    let now = world.clock.now();
    world.account.with(|provider| provider.clear_queue(now));
    let other = world.finished();
    world.submit(&other).await;
    world.becomes(&other, "SETTLED").await;
    reconciler
        .metric_is("reconciler_provider_queued_tasks", 0.0)
        .await;
    let log = reconciler.stop().await;
    assert!(log.contains("the provider has tasks left to do"), "{log}");
    assert!(log.contains("the provider has nothing left to do"), "{log}");
    assert!(!log.contains(&queued), "{log}");
}

#[tokio::test]
async fn recording_is_idempotent_and_takes_lines() {
    let world = World::new().await;
    let builder = world.reconciler();
    for (new, known) in [(3, 0), (0, 3)] {
        let output = builder
            .output(&["record", "t-1", "t-2=key|DE", "--key", "lost key"])
            .await;
        assert_eq!(output.code, Some(0), "{output:?}");
        let said = format!("recorded {new} submissions, {known} were recorded before");
        assert!(output.stdout.contains(&said), "{output:?}");
    }
    let due: bool = world
        .value(
            "select bool_and(next_check_at - created_at = '1h' and checks = 0) from submitted_tasks",
            &[],
        )
        .await;
    assert!(due);
    // Its id became known by hand.
    builder.output(&["record", "t-3=lost key"]).await;
    assert_eq!(world.count("submitted_tasks").await, 3);
    assert_eq!(
        world
            .of::<Option<String>>("t-3", "idempotency_key")
            .await
            .as_deref(),
        Some("lost key")
    );

    let mut lines: Vec<String> = (0..12_000)
        .map(|number| format!(r#"{{"task_id":"bulk-{number}"}}"#))
        .collect();
    lines.push(r#"{"task_id":"bulk-7"}"#.to_owned());
    lines.push(r#"{"task_id":"old","created_at":"2026-11-30T12:00:00Z"}"#.to_owned());
    lines.push(String::new());
    let output = builder
        .output_with(
            &["record", "--stdin", "--first-check-after", "10m"],
            lines.join("\n").as_bytes(),
        )
        .await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output.stdout.contains("recorded 12001 submissions, 1 were"),
        "{output:?}"
    );
    assert_eq!(world.count("submitted_tasks").await, 12_004);
    let old: bool = world
        .of(
            "old",
            "created_at = '2026-11-30 12:00Z' and next_check_at = '2026-11-30 12:10Z'",
        )
        .await;
    assert!(old);
}

#[tokio::test]
async fn bad_lines_are_named_and_the_others_recorded() {
    let world = World::new().await;
    let lines =
        b"{\"task_id\":\"a\"}\nnonsense\n{\"id\":\"b\"}\n{\"task_id\":\"\xff\"}\n{\"task_id\":\"c\"}\r\n";
    let output = world
        .reconciler()
        .output_with(&["record", "--stdin"], lines)
        .await;
    assert_eq!(output.code, Some(1), "{output:?}");
    for words in ["line 2:", "line 3:", "line 4:", "3 lines were not recorded"] {
        assert!(output.stderr.contains(words), "{output:?}");
    }
    assert_eq!(world.count("submitted_tasks").await, 2);
}

#[tokio::test]
async fn the_report_lists_what_needs_a_look() {
    let world = World::new().await;
    world
        .sql
        .batch_execute(
            "insert into submitted_tasks (task_id, idempotency_key, state, created_at, last_error, unusable_answers, critical_at) values
               ('settled', null, 'SETTLED', now(), null, 0, null),
               ('late', 'k|DE', 'OVERDUE', now() - interval '6h', null, 3, null),
               ('very-late', null, 'OVERDUE', now() - interval '13h', null, 0, now()),
               ('gone', null, 'GONE', now(), 'the provider knows no such task (404)', 0, null),
               ('lost', null, 'LOST', now(), null, 0, null),
               ('large', null, 'TOO_LARGE', now(), 'over', 0, null),
               (null, 'without id', 'OPEN', now(), null, 0, null);
             insert into submitted_tasks (task_id, state)
             select 'gone-' || n, 'GONE' from generate_series(1, 30) n;
             insert into answers (task_id, job_key, status, response_digest, via, stream_seq, received_at)
             select t, t, 'COMPLETED', sha256(''), 'webhook', 1, now() from unnest(array['settled', 'nobody-asked']) t",
        )
        .await
        .unwrap();
    let (_, _task) = world.queued(None);
    let text = world.reconciler().output(&["report", "--most", "5"]).await;
    assert_eq!(text.code, Some(0), "{text:?}");
    for words in [
        "SETTLED            1",
        "GONE              31",
        "1 queued, 0 processing",
        "late (key k|DE)",
        "critical: wait for far too long: 1",
        "gone: unknown to the provider: 31",
        "and 26 more",
        "key without id",
        "large  checked 0 times: over",
        "several answers in a row that could not be used: 1",
        "answers that nobody recorded a submission for: 1",
        "nobody-asked",
    ] {
        assert!(text.stdout.contains(words), "{words} in\n{}", text.stdout);
    }
    let json = world.reconciler().output(&["report", "--json"]).await;
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["gone"]["count"], 31);
    assert_eq!(json["gone"]["oldest"].as_array().unwrap().len(), 20);
    assert_eq!(json["overdue"]["oldest"][0]["task_id"], "very-late");
    assert_eq!(json["unknown_ids"]["oldest"][0]["idempotency_key"], "without id");
    assert_eq!(json["provider"]["queued_tasks"], 1);
    assert_eq!(json["states"]["OVERDUE"], 2);
    // Without the provider there is a report as well.
    world.api.faults().all(Fault::status(500));
    let text = world.reconciler().output(&["report"]).await;
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(text.stdout.contains("provider: no answer (failed)"), "{text:?}");
}

#[tokio::test]
async fn all_faults_of_the_configuration_are_named_at_once() {
    let world = World::new().await;
    let builder = world
        .reconciler()
        .set("DATABASE_URL", "postgres://r:hunter2@db/answers?sslmode=require")
        .set("PROVIDER_URL", "http://10.1.2.3/")
        .set("PROVIDER_API_KEY", "hunter2 hunter2")
        .set("LEASE", "10s")
        .set("CHECK_INTERVAL", "1h")
        .set("CONSUMER", "a.b")
        .set("OVERDUE_AFTER", "25h")
        .set("MAX_IN_FLIGHT", 0);
    let output = builder.output(&["run"]).await;
    assert_eq!(output.code, Some(64), "{output:?}");
    for name in [
        "--database-ca",
        "--provider-url",
        "PROVIDER_API_KEY",
        "--lease",
        "--check-interval",
        "--consumer",
        "--overdue-after",
        "--max-in-flight",
    ] {
        assert!(output.stderr.contains(name), "{name} in {}", output.stderr);
    }
    assert!(!output.stderr.contains("hunter2"), "{}", output.stderr);
    let missing = world
        .reconciler()
        .without("PROVIDER_API_KEY")
        .output(&["once"])
        .await;
    assert_eq!(missing.code, Some(64), "{missing:?}");
    let nothing = world.reconciler().output(&["record"]).await;
    assert_eq!(nothing.code, Some(64), "{nothing:?}");
}

#[tokio::test]
async fn a_database_of_version_1_is_refused_and_says_what_to_do() {
    let world = World::new().await;
    world
        .sql
        .batch_execute("delete from refinery_schema_history where version > 1")
        .await
        .unwrap();
    for arguments in [&["run"][..], &["once"], &["report"], &["record", "t"]] {
        let output = world.reconciler().output(arguments).await;
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stderr.contains("run `projector migrate`"), "{output:?}");
    }
}

#[tokio::test]
async fn a_body_limit_that_the_stream_does_not_take_is_refused() {
    let world = World::new().await;
    let output = world
        .reconciler()
        .set("BODY_LIMIT", "1GiB")
        .output(&["run"])
        .await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("--body-limit"), "{output:?}");
}

#[tokio::test]
async fn no_log_line_holds_the_key_or_a_body() {
    let world = World::new().await;
    let _projector = world.project();
    let faults = [
        Fault::Redirect(301, "http://127.0.0.1:1/".to_owned()),
        Fault::HangUp,
        Fault::status(401),
        Fault::status(500),
        Fault::OtherTask,
        Fault::Html,
    ];
    for fault in faults {
        world.api.faults().next(1, fault);
    }
    let task = world.finished();
    world.submit(&task).await;
    let reconciler = world
        .reconciler()
        .set("RUST_LOG", "trace")
        .set("DENIED_PROBE_INTERVAL", "100ms")
        .start();
    world.becomes(&task, "SETTLED").await;
    let log = reconciler.stop().await;
    let body: String = world
        .value("select response ->> 'result' from answers", &[])
        .await;
    let text = serde_json::from_str::<Value>(&body).unwrap()["text"]
        .as_str()
        .unwrap()[..40]
        .to_owned();
    for secret in [world.api.key(), &text] {
        assert!(!log.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn the_health_check_says_what_readyz_says() {
    let world = World::new().await;
    let reconciler = world.start().await;
    let admin = reconciler.admin().to_string();
    let asked = world.reconciler().set("ADMIN_LISTEN", &admin);
    let output = asked.output(&["healthcheck"]).await;
    assert_eq!((output.code, &*output.stderr), (Some(0), ""));
    reconciler.stop().await;
    assert_eq!(asked.output(&["healthcheck"]).await.code, Some(1));
}
