//! With the rights that a deployment gives it.

use std::path::Path;
use std::process::Command;

use sandbox::eventually;
use sandbox::servers::{NatsOptions, NatsServer};

use crate::client::{Post, SECRET, completed, post};
use crate::process::{Process, SOON};

#[tokio::test]
async fn the_rights_of_its_user_in_the_deployment_are_enough_and_a_repeat_is_checked_with_them() {
    let deploy = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy"));
    let dir = tempfile::tempdir().unwrap();
    let (config, secrets) = (dir.path().join("nats.conf"), dir.path().join("secrets"));
    std::fs::copy(deploy.join("nats.conf"), &config).unwrap();
    assert!(
        Command::new(deploy.join("make-secrets"))
            .arg(&secrets)
            .status()
            .unwrap()
            .success()
    );
    let operator = std::fs::read_to_string(secrets.join("operator.password")).unwrap();
    let options = NatsOptions {
        config: Some(config),
        user: Some(("operator".to_owned(), operator.trim_end().to_owned())),
        ..NatsOptions::default()
    };
    let nats = NatsServer::start_with(options).await.unwrap();
    let variables = [
        ("NATS_URL", nats.url()),
        ("NATS_USER", "ingress".to_owned()),
        (
            "NATS_PASSWORD_FILE",
            secrets.join("ingress.password").display().to_string(),
        ),
        ("NATS_API_PREFIX", "ANSWERS.API".to_owned()),
        ("WEBHOOK_SECRETS", SECRET.to_owned()),
        ("STREAM_MAX_BYTES", "32MiB".to_owned()),
        // Nothing is remembered, so that a repeat has to be read back from the broker.
        ("RECENT_IDS", "0".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value));
    let ingress = Process::start(&variables).await;
    ingress.ready().await;
    for body in [completed("rights"), completed("rights"), b"{".to_vec()] {
        assert_eq!(post(ingress.listen, &Post::signed(body)).await.status, 204);
    }
    let count = |outcome| {
        ingress.metric(&format!(
            r#"ingress_deliveries_total{{kind="completed",outcome="{outcome}"}}"#
        ))
    };
    assert_eq!((count("stored"), count("duplicate")), (1.0, 1.0));
}

#[tokio::test]
async fn a_user_who_may_not_publish_every_kind_of_event_makes_it_not_ready_before_the_first_delivery() {
    let options = NatsOptions::default().with_user_who_may_not_publish("answers.quarantine");
    let nats = NatsServer::start_with(options).await.unwrap();
    let variables = [
        ("NATS_URL", nats.url()),
        ("NATS_USER", "some".to_owned()),
        ("NATS_PASSWORD", "x".to_owned()),
        ("WEBHOOK_SECRETS", SECRET.to_owned()),
        ("STREAM_MAX_BYTES", "32MiB".to_owned()),
        ("PUBLISH_TIMEOUT", "500ms".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value));
    let ingress = Process::start(&variables).await;
    eventually("it says why it is not ready", SOON, async || {
        let reason = ingress.unready().unwrap_or_default();
        if reason.contains("the stream takes nothing on answers.quarantine") {
            Ok(())
        } else {
            Err(reason)
        }
    })
    .await;
    // What it may append it still does.
    assert_eq!(
        post(ingress.listen, &Post::signed(completed("t"))).await.status,
        204
    );
    assert_eq!(post(ingress.listen, &Post::signed("no json")).await.status, 503);
}
