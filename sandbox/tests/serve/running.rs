//! That it does what it says, from the first line to the exit code.

use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use sandbox::eventually;

use crate::program::{SANDBOX, Serve};
use crate::receiver::Receiver;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn tasks_that_are_queued_at_the_start_end_and_are_delivered_signed() {
    let receiver = Receiver::start().await;
    let hook = format!("http://{}/hook", receiver.address);
    let serve = Serve::start(&["--tasks", "6", "--speed", "50", "--hook-url", &hook]);
    receiver.trust(&serve.secret);
    eventually("six deliveries", SOON, async || {
        let ids = receiver
            .verified()
            .into_iter()
            .map(|body| body["task"]["id"].to_string());
        ids.collect::<std::collections::HashSet<_>>().len() == 6
    })
    .await;
    serve.signal(Signal::SIGTERM);
    assert_eq!(serve.wait().code(), Some(0));
}

#[tokio::test]
async fn ctrl_c_ends_it_although_deliveries_are_pending() {
    let serve = Serve::start(&[
        "--tasks",
        "3",
        "--speed",
        "50",
        "--hook-url",
        "http://127.0.0.1:9/",
    ]);
    eventually("a failed attempt", SOON, async || {
        let pending = serve.get("/dashboard/deliveries?state=pending");
        pending["deliveries"][0]["lastError"].is_string()
    })
    .await;
    serve.signal(Signal::SIGINT);
    assert_eq!(serve.wait().code(), Some(0));
}

#[test]
fn an_address_that_is_taken_is_named() {
    let serve = Serve::start(&[]);
    let address = serve.url.strip_prefix("http://").unwrap();
    let second = Command::new(SANDBOX)
        .args(["serve", "--listen", address])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{told}");
    assert!(told.contains(&format!("listening on {address}")), "{told}");
}

#[test]
fn values_that_cannot_be_are_a_usage_error() {
    for arguments in [["--speed", "0"], ["--undelivered", "1.5"], ["--hook-url", "a b"]] {
        let output = Command::new(SANDBOX)
            .arg("serve")
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
    }
}

#[test]
fn a_seed_gives_the_same_key_and_secret_each_time() {
    let said = |seed| {
        let serve = Serve::start(&["--seed", seed]);
        (serve.key.clone(), serve.secret.clone())
    };
    let (first, again, other) = (said("1"), said("1"), said("2"));
    assert_eq!(first, again);
    assert!(first.0 != other.0 && first.1 != other.1);
}
