//! What `docs/subscribing.md` says to change for a second subscriber gives it everything, beside the first.

use std::fs;

use crate::{
    broker::{Broker, take},
    read,
};

/// The configuration of the broker with a copy of all that is for `subscriber`, for `audit`.
fn with_audit(config: &str) -> String {
    let copy = |text: &str| text.replace("subscriber", "audit").replace("SUBSCRIBER", "AUDIT");
    let start = config.find("    SUBSCRIBER {").unwrap();
    let length = config[start..].find("\n    }\n").unwrap() + "\n    }\n".len();
    let (before, rest) = config.split_at(start);
    let (account, after) = rest.split_at(length);
    let mut copied = 0;
    let exports = before.lines().map(|line| {
        if line.contains("accounts: [SUBSCRIBER]") {
            copied += 1;
            format!("{line}\n{}\n", copy(line))
        } else {
            format!("{}\n", line.replace(", SUBSCRIBER]", ", SUBSCRIBER, AUDIT]"))
        }
    });
    let exports: String = exports.collect();
    assert_eq!(copied, 5, "the document says five");
    [exports, account.to_owned(), copy(account), after.to_owned()].concat()
}

#[tokio::test]
async fn a_second_subscriber_made_as_documented_gets_everything_too() {
    let deploy = tempfile::tempdir().unwrap();
    fs::write(
        deploy.path().join("nats.conf"),
        with_audit(&read("deploy/nats.conf")),
    )
    .unwrap();
    let secrets = read("deploy/make-secrets").replace(" subscriber ", " subscriber audit ");
    fs::write(deploy.path().join("make-secrets"), secrets).unwrap();

    let broker = Broker::start_from(deploy.path()).await;
    broker.with_events().await;
    let subscriber = broker.user("subscriber").await;
    let first = subscriber.consumer("subscriber", "answers.result.>").await;
    assert_eq!(take(&first).await, ["answers.result.completed"]);
    let audit = broker.user("audit").await;
    let second = audit.consumer("audit", "answers.result.>").await;
    assert_eq!(take(&second).await, ["answers.result.completed"]);
    // Neither reaches the other's.
    audit
        .cannot_ask_for(&["CONSUMER.INFO.ANSWERS.subscriber", "STREAM.MSG.GET.ANSWERS"])
        .await;
    subscriber.cannot_ask_for(&["CONSUMER.INFO.ANSWERS.audit"]).await;
}
