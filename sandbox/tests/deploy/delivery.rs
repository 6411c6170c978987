//! The deployment as a whole.

use std::{fs, net::SocketAddr};

use http_body_util::Full;
use hyper::Request;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use sandbox::{
    clock::Clock,
    eventually,
    provider::{outcome::Outcome, task::NewTask},
    servers::publish_bytes,
};
use schemas::signature::{KeyEncoding, Scheme, SigningKey, sign};

use crate::{
    SOON,
    broker::password,
    deployment::{Deployment, WEBHOOK_SECRET},
    said,
};

#[tokio::test]
async fn a_delivery_to_the_deployment_becomes_a_row() {
    let deployment = Deployment::start().await;
    for _ in 0..2 {
        migrate(&deployment);
    }
    // Scaled: two of each, on the same stream and the same rows.
    let ingresses = [deployment.run("ingress"), deployment.run("ingress")];
    let projectors = [deployment.run("projector"), deployment.run("projector")];
    for running in ingresses.iter().chain(&projectors) {
        running.is_healthy().await;
    }

    let body =
        r#"{"task":{"id":"task-1","status":"COMPLETED","createdAt":"2026-11-30T12:00:00Z"},"response":{}}"#;
    let path = &deployment.compose.services["ingress"].environment["HOOK_PATH"];
    for ingress in &ingresses {
        assert_eq!(deliver(ingress.public.addr(), path, body).await, 204);
    }

    let client = connect(&deployment).await;
    let first = async |query: &'static str| {
        let rows = eventually(query, SOON, async || {
            let rows = client.query(query, &[]).await.unwrap();
            (!rows.is_empty()).then_some(rows)
        });
        rows.await[0].get::<_, String>(0)
    };
    assert_eq!(first("select task_id from answers").await, "task-1");

    // What no client delivers is read and acknowledged in other ways. The rights are enough for those too.
    let password = password(&deployment.dir.path().join("secrets"), "ingress");
    let stored = publish_bytes(
        deployment.nats.addr(),
        Some(("ingress", &password)),
        b"answers.quarantine",
        b"NATS/1.0\r\nname: \xff\r\n\r\n",
        b"",
    );
    assert_eq!(stored.await.unwrap(), 2);
    assert_eq!(first("select reason from parked").await, "unreadable_headers");
    let floor = "select stream from projection where floor_seq = 2";
    assert_eq!(first(floor).await, "ANSWERS");
}

#[tokio::test]
async fn a_result_that_the_deployment_was_never_sent_becomes_a_row() {
    let deployment = Deployment::start().await;
    migrate(&deployment);
    // No ingress: whoever comes first makes the stream, within the rights of its user.
    let reconcilers = [deployment.run("reconciler"), deployment.run("reconciler")];
    for running in &reconcilers {
        running.is_healthy().await;
    }
    let now = Clock::system().now();
    let task = deployment.account.with(|provider| {
        let request = NewTask {
            task_type: "GEMINI",
            priority: 1,
            idempotency_key: None,
        };
        let task = provider.create(request, now).unwrap();
        provider.finish(task, Outcome::timed_out(), now).unwrap();
        provider.task(task).id.clone()
    });
    let arguments = ["record", "--first-check-after", "0s", &task].map(ToOwned::to_owned);
    let nowhere = ([127, 0, 0, 1], 1).into();
    let recorded = deployment
        .command("reconciler", &arguments, nowhere, nowhere)
        .output()
        .unwrap();
    assert!(recorded.status.success(), "{}", said(&recorded));
    let _projector = deployment.run("projector");
    let client = connect(&deployment).await;
    let settled =
        "select a.via from submitted_tasks s join answers a using (task_id) where s.state = 'SETTLED'";
    let rows = eventually("the row is there", SOON, async || {
        let rows = client.query(settled, &[]).await.unwrap();
        (!rows.is_empty()).then_some(rows)
    })
    .await;
    assert_eq!((rows.len(), rows[0].get::<_, &str>(0)), (1, "reconciler"));
}

pub(crate) fn migrate(deployment: &Deployment) {
    let nowhere = ([127, 0, 0, 1], 1).into();
    let arguments = &deployment.compose.services["migrate"].command;
    let migrated = deployment
        .command("migrate", arguments, nowhere, nowhere)
        .output()
        .unwrap();
    assert!(migrated.status.success(), "{}", said(&migrated));
}

pub(crate) async fn connect(deployment: &Deployment) -> tokio_postgres::Client {
    let url = fs::read_to_string(deployment.inside("projector", "/run/secrets/database.url")).unwrap();
    let (client, connection) = tokio_postgres::connect(url.trim(), tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

pub(crate) async fn deliver(to: SocketAddr, path: &str, body: &str) -> u16 {
    let key = SigningKey::new(WEBHOOK_SECRET, KeyEncoding::Literal).unwrap();
    let scheme = Scheme::StripeList {
        header: "webhook-signature".parse().unwrap(),
    };
    let now = Clock::system().now().unix_timestamp();
    let mut request = Request::post(format!("http://{to}{path}")).header("content-type", "application/json");
    for (name, value) in sign(&scheme, &[key], "delivery-1", now, body.as_bytes()) {
        request = request.header(name, value);
    }
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = request
        .body(Full::new(bytes::Bytes::copy_from_slice(body.as_bytes())))
        .unwrap();
    client.request(request).await.unwrap().status().as_u16()
}
