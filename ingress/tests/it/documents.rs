//! What a real ingress sends and answers, against `asyncapi.yaml` and `openapi.yaml`.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use sandbox::eventually;
use sandbox::servers::NatsServer;
use schemas::documents::{Documents, Route};
use tokio::task::JoinSet;

use crate::client::{self, Answer, Client, PATH, Post, completed, now, signature};
use crate::process::SOON;
use crate::world::Setup;

/// Deliveries at one time.
const CROWD: u8 = 60;

/// One of each that ends in an event, and some that are odd.
fn bodies() -> Vec<Vec<u8>> {
    let result = |id: &str, status: &str, more: &str| {
        let id = serde_json::Value::from(id);
        format!(r#"{{"task":{{"id":{id},"status":"{status}"{more}}},"response":{{"n":1}}}}"#)
    };
    let mut bodies = vec![
        result(
            "whole",
            "COMPLETED",
            r#","idempotencyKey":"best crm|DE","createdAt":"2026-11-30T12:00:00.123456789+02:00""#,
        ),
        result(
            "failed",
            "FAILED",
            r#","idempotencyKey":"k-r1","createdAt":"9999-12-31T23:59:59Z""#,
        ),
        result(
            "odd fields",
            "COMPLETED",
            r#","idempotencyKey":7,"createdAt":"tomorrow""#,
        ),
        r#"{"task":{"id":"bare","status":"COMPLETED"}}"#.to_owned(),
        // Another result of the same task.
        result("whole", "FAILED", ""),
        result("running", "PROCESSING", ""),
        result("unknown", "completed", ""),
        // One for each reason, but the one that is no text.
        "{".to_owned(),
        "[]".to_owned(),
        r#"{"a":1,"a":1}"#.to_owned(),
        "{}".to_owned(),
        result("", "FAILED", ""),
        r#"{"task":{"id":"t"}}"#.to_owned(),
    ];
    bodies.extend(
        [
            "a b",
            "a/b",
            "a#b",
            "%20",
            "\"",
            "🫖",
            "nonfinal/x",
            ">",
            "a,b;c=d",
        ]
        .map(|odd| {
            let key = serde_json::Value::from(odd);
            result(odd, "COMPLETED", &format!(r#","idempotencyKey":{key}"#))
        }),
    );
    bodies
        .into_iter()
        .map(String::into_bytes)
        .chain([b"\xFF".to_vec()])
        .collect()
}

#[tokio::test]
async fn every_event_is_as_described_and_every_header_that_is_described_is_sent() {
    let nats = NatsServer::start().await;
    let world = Setup::on(&nats.url())
        .with_default_names()
        .set("APPEND_MODE", "batch")
        .start()
        .await;
    for body in bodies() {
        let post = Post::signed(body).header("Webhook-Id", "delivery-1").header(
            "traceparent",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        );
        assert_eq!(world.post(&post).await.status, 204);
    }
    // While the first of these waits for a broker that stands still, the others become a batch.
    nats.pause();
    let mut senders = JoinSet::new();
    for number in 0..CROWD {
        let (address, body) = (world.ingress.listen, completed(&format!("crowd-{number}")));
        senders.spawn(async move { client::post(address, &Post::signed(body)).await.status });
    }
    eventually("all are in", SOON, async || {
        world.ingress.metric("ingress_in_flight") == f64::from(CROWD)
    })
    .await;
    nats.resume();
    assert!(senders.join_all().await.iter().all(|status| *status == 204));

    let documents = Documents::load();
    let mut sent = BTreeSet::new();
    let stored = world.events.all().await;
    for event in &stored {
        let headers = event
            .raw_headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let differences = documents.event_differences(&event.subject, headers, &event.body);
        assert_eq!(differences, [], "{event:?}");
        let names = event.raw_headers.iter().map(|(name, _)| name.as_str());
        sent.extend(names.map(|name| (event.subject.as_str(), name)));
    }
    assert_eq!(stored.len(), bodies().len() + usize::from(CROWD));
    assert!(stored.iter().any(|event| event.msg_id.starts_with("whole#")));

    let subjects: BTreeSet<_> = sent.iter().map(|(subject, _)| *subject).collect();
    assert_eq!(subjects, documents.addresses());
    for subject in subjects {
        for name in documents.headers(subject) {
            // The crowd was all of one kind.
            let in_batch = name.starts_with("Nats-Batch-") && subject != "answers.result.completed";
            assert!(
                in_batch || sent.contains(&(subject, name)),
                "{subject} never has {name}"
            );
        }
    }
}

/// Answers by the route and status that the document has for them.
struct Answers {
    documents: Documents,
    seen: BTreeSet<(&'static str, u16)>,
    problems: BTreeSet<String>,
}

const HOOK: Route<'_> = Route {
    method: "post",
    path: "/hooks/answers",
};

impl Answers {
    fn new() -> Self {
        Self {
            documents: Documents::load(),
            seen: BTreeSet::new(),
            problems: BTreeSet::new(),
        }
    }

    #[track_caller]
    fn hook(&mut self, answer: &Answer, expected: u16) {
        self.see(HOOK, answer, expected);
        if answer.header("content-type").is_some() {
            self.problems.insert(answer.problem());
        }
    }

    #[track_caller]
    fn see(&mut self, route: Route<'static>, answer: &Answer, expected: u16) {
        assert_eq!(answer.status, expected, "{answer:?}");
        let differences =
            self.documents
                .answer_differences(route, answer.status, answer.headers(), &answer.body);
        assert_eq!(differences, [], "{route:?}: {answer:?}");
        self.seen.insert((route.path, answer.status));
    }
}

#[tokio::test]
async fn every_status_that_is_described_is_answered_as_described() {
    let mut nats = NatsServer::start().await;
    let mut world = Setup::on(&nats.url())
        .with_default_names()
        .set("MAX_IN_FLIGHT", "1")
        .set("PUBLISH_TIMEOUT", "1s")
        .set("BODY_LIMIT", "100000")
        .start()
        .await;
    let mut answers = Answers::new();
    let good = Post::signed(completed("good"));

    // Taken: new, again, and a test.
    for post in [&good, &good, &Post::signed(r#"{"test":true}"#)] {
        answers.hook(&world.post(post).await, 204);
    }
    let stale = signature(client::SECRET, now() - 1000, b"{}");
    for refused in [
        Post::unsigned("{}"),
        Post::forged("{}"),
        Post::unsigned("{}").header("Webhook-Signature", stale),
    ] {
        answers.hook(&world.post(&refused).await, 400);
    }
    let line = |line: &str| good.clone().line(line);
    answers.hook(&world.post(&line("POST /hooks HTTP/1.1")).await, 404);
    answers.hook(&world.post(&line(&format!("PUT {PATH} HTTP/1.1"))).await, 405);
    answers.hook(
        &world.post(&good.clone().header("Content-Encoding", "gzip")).await,
        415,
    );
    answers.hook(&world.post(&Post::signed(vec![b' '; 100_001])).await, 413);
    let mut broken = world.client().await;
    broken.send(&Post::forged("").head_chunked()).await;
    broken.send(b"zz\r\n").await;
    answers.hook(&broken.answer().await, 408);

    // Not HTTP.
    for (bytes, status) in [
        ("nonsense\r\n\r\n".to_owned(), 400),
        (
            format!("POST /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(66_000)),
            431,
        ),
        (
            format!(
                "POST {PATH} HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n",
                "x".repeat(66_000)
            ),
            431,
        ),
    ] {
        let mut client = world.client().await;
        client.send(bytes.as_bytes()).await;
        answers.hook(&client.answer().await, status);
    }

    // Too much at a time.
    let mut first = world.client().await;
    first.send(&good.head_declaring(good.body().len())).await;
    eventually("it is in", SOON, async || {
        world.ingress.metric("ingress_in_flight") == 1.0
    })
    .await;
    answers.hook(&world.post(&good).await, 503);
    first.send(good.body()).await;
    answers.hook(&first.answer().await, 204);

    admin(&mut answers, &world.ingress, 200).await;
    nats.kill();
    answers.hook(&world.post(&Post::signed(completed("in vain"))).await, 503);
    eventually("it is unready", SOON, async || world.ingress.unready().is_some()).await;
    admin(&mut answers, &world.ingress, 503).await;
    nats.restart().await;
    world.ingress.ready().await;

    // A request on a kept connection, while another holds up the end.
    let mut busy = world.client().await;
    answers.hook(&first.post(&good).await, 204);
    busy.send(&good.head_declaring(good.body().len())).await;
    eventually("it is in", SOON, async || {
        world.ingress.metric("ingress_in_flight") == 1.0
    })
    .await;
    world.ingress.signal(Signal::SIGTERM);
    eventually("it is stopping", SOON, async || {
        let unready = world.ingress.unready();
        unready.is_some_and(|why| why.contains("stopping"))
    })
    .await;
    answers.hook(&first.post(&good).await, 503);
    busy.send(good.body()).await;
    answers.hook(&busy.answer().await, 204);
    assert_eq!(world.ingress.ended(SOON).await.code(), Some(0));

    let documents = &answers.documents;
    let described = documents.routes().into_iter().flat_map(|route| {
        let statuses = documents.statuses(route).into_iter();
        statuses.map(move |status| (route.path, status))
    });
    // A text that a program writes for itself cannot be made to fail from outside.
    let described = described.filter(|answer| *answer != ("/metrics", 500));
    assert_eq!(answers.seen, described.collect());
    let problems = ["unavailable", "overloaded", "stopping"].map(str::to_owned);
    assert!(
        answers.problems.is_superset(&problems.into()),
        "{:?}",
        answers.problems
    );
}

/// Asks for the pages of the admin port; `readiness` is what `/readyz` should say.
async fn admin(answers: &mut Answers, ingress: &crate::process::Process, readiness: u16) {
    let mut client = Client::connect(ingress.admin).await;
    for (path, status) in [("/livez", 200), ("/readyz", readiness), ("/metrics", 200)] {
        let route = Route { method: "get", path };
        for (method, status) in [("GET", status), ("POST", 405)] {
            let request = format!("{method} {path} HTTP/1.1\r\nHost: admin\r\n\r\n");
            client.send(request.as_bytes()).await;
            answers.see(route, &client.answer().await, status);
        }
    }
}
