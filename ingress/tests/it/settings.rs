//! Settings that cannot be meant are refused before anything starts, all at once.

use crate::client::completed;
use crate::process::output;
use crate::world::Setup;

fn refused(variables: &[(&str, &str)]) -> String {
    let ended = output(&[], variables);
    assert_eq!(ended.status.code(), Some(64), "{variables:?} {ended:?}");
    String::from_utf8(ended.stderr).unwrap()
}

#[test]
fn it_does_not_start_without_a_usable_secret_and_names_the_setting() {
    for (variables, named) in [
        (&[][..], "WEBHOOK_SECRETS or WEBHOOK_SECRETS_FILE is needed"),
        (
            &[("WEBHOOK_SECRETS", "")],
            "WEBHOOK_SECRETS: secret 1: the secret is empty",
        ),
        (&[("WEBHOOK_SECRETS", "   ")], "WEBHOOK_SECRETS: secret 1"),
        (
            &[("WEBHOOK_SECRETS", "whsec_a,")],
            "WEBHOOK_SECRETS: secret 2: the secret is empty",
        ),
        (&[("WEBHOOK_SECRETS", "a,b,c,d,e,f,g,h,i")], "1 to 8"),
        (
            &[("WEBHOOK_SECRETS_FILE", "/nowhere")],
            "WEBHOOK_SECRETS_FILE: cannot read /nowhere",
        ),
        (
            &[("WEBHOOK_SECRETS", "a"), ("WEBHOOK_SECRETS_FILE", "/nowhere")],
            "both set",
        ),
        (
            &[("WEBHOOK_SECRETS", "whsec_***"), ("KEY_ENCODING", "base64")],
            "WEBHOOK_SECRETS: secret 1",
        ),
    ] {
        let printed = refused(variables);
        assert_eq!(printed.lines().count(), 1, "{printed}");
        assert!(printed.contains(named), "{named} in {printed}");
    }
}

#[test]
fn an_unknown_scheme_is_refused_and_the_known_ones_are_named() {
    let printed = refused(&[("WEBHOOK_SECRETS", "a"), ("SIGNATURE_SCHEME", "github")]);
    assert!(printed.contains("--signature-scheme"), "{printed}");
}

#[test]
fn all_faults_are_named_at_once_and_no_secret_is_shown() {
    let printed = refused(&[
        ("WEBHOOK_SECRETS", "hunter2 hunter3"),
        ("LISTEN", "everywhere"),
        ("TOLERANCE", "0s"),
        ("HOOK_PATH", "hooks"),
        ("MAX_IN_FLIGHT", "0"),
        ("REQUEST_DEADLINE", "4s"),
        ("STOP_GRACE", "1h"),
        ("TLS_CERT", "/nowhere/cert.pem"),
        ("TIMESTAMP_HEADER", "x-time"),
        ("BODY_LIMIT", "16MiB"),
        ("BODY_BUDGET", "1MiB"),
        ("NATS_USER", "ingress"),
        ("NATS_CA", "/nowhere/ca.pem"),
        ("NATS_PING_INTERVAL", "0s"),
        ("NATS_INBOX_PREFIX", "a b"),
        ("PUBLISH_TIMEOUT", "0s"),
    ]);
    for named in [
        "NATS_USER",
        "/nowhere/ca.pem",
        "--nats-ping-interval",
        "--nats-inbox-prefix",
        "WEBHOOK_SECRETS",
        "--listen",
        "--tolerance",
        "--hook-path",
        "--max-in-flight",
        "--request-deadline",
        "--stop-grace",
        "--tls-key",
        "--timestamp-header",
        "--body-budget",
    ] {
        assert_eq!(
            printed.lines().filter(|line| line.contains(named)).count(),
            1,
            "{named} in\n{printed}"
        );
    }
    assert!(!printed.contains("hunter"), "{printed}");
}

#[test]
fn help_names_every_setting_and_where_secrets_come_from() {
    let help = output(&["--help"], &[]);
    assert_eq!(help.status.code(), Some(0));
    let help = String::from_utf8(help.stdout).unwrap();
    for named in [
        "WEBHOOK_SECRETS_FILE",
        "[env: LISTEN=]",
        "[env: NATS_URL]", // its value may hold a password, so it is not shown
        "--body-limit",
        "healthcheck",
        "stream",
    ] {
        assert!(help.contains(named), "{named} in {help}");
    }
    assert!(
        !help.contains("--webhook-secret"),
        "secrets are never flags: {help}"
    );
}

#[tokio::test]
async fn a_secret_file_holds_one_secret_a_line_and_may_end_in_a_newline() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("unix", "whsec_x\nwhsec_the_current_secret\n"),
        ("dos", "whsec_the_current_secret\r\nwhsec_x\r\n"),
    ] {
        let file = dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        let world = Setup::shared()
            .await
            .without("WEBHOOK_SECRETS")
            .set("WEBHOOK_SECRETS_FILE", file.to_str().unwrap())
            .start()
            .await;
        assert_eq!(world.deliver(completed(name)).await, 204, "{text:?}");
    }
}

#[tokio::test]
async fn a_body_limit_that_the_broker_does_not_take_is_refused_with_both_numbers() {
    let setup = Setup::shared().await.set("BODY_LIMIT", "8MiB");
    let ended = setup.output(&["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let printed = String::from_utf8(ended.stderr).unwrap();
    assert!(
        printed.contains("8388608") && printed.contains("8323072") && printed.contains("max_payload"),
        "{printed}"
    );
}
