//! What is written down, and what never is.

use sandbox::eventually;

use crate::client::{Post, SECRET, completed, mac, now};
use crate::process::{SOON, output};
use crate::world::World;

#[tokio::test]
async fn no_log_line_holds_a_secret_a_signature_or_a_body() {
    let world = World::start().await;
    let t = now();
    let body = String::from_utf8(completed("private")).unwrap();
    let signature = mac(SECRET, t, body.as_bytes());
    for post in [
        Post::signed(body.clone()),
        Post::forged(body),
        Post::signed("{unreadable kettles"),
    ] {
        world.post(&post).await;
    }
    let log = eventually("both refusals are logged", SOON, async || {
        let log = world.ingress.log().join("\n");
        let both = log.contains("no task can be read") && log.contains("refused a request");
        if both { Ok(log) } else { Err(log) }
    })
    .await;
    for secret in [SECRET, &signature, "kettles", &"0".repeat(64)] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

#[tokio::test]
async fn the_health_check_command_asks_the_running_process() {
    let world = World::start().await;
    let admin = world.ingress.admin.to_string();
    assert_eq!(
        output(&["healthcheck"], &[("ADMIN_LISTEN", &admin)])
            .status
            .code(),
        Some(0)
    );
    assert_eq!(
        output(&["healthcheck", "--live"], &[("ADMIN_LISTEN", &admin)])
            .status
            .code(),
        Some(0)
    );
    assert_eq!(
        output(&["healthcheck"], &[("ADMIN_LISTEN", "127.0.0.1:1")])
            .status
            .code(),
        Some(1)
    );
}

#[tokio::test]
async fn the_stream_command_tells_what_differs_and_puts_it_right() {
    let world = World::start().await;
    let stream = |action: &str, window: &str| {
        world
            .setup
            .output(&["stream", action, "--duplicate-window", window])
    };
    assert_eq!(stream("check", "1h").status.code(), Some(0));
    let differs = stream("check", "2h");
    assert_eq!(differs.status.code(), Some(1));
    assert!(
        String::from_utf8(differs.stdout)
            .unwrap()
            .contains("duplicate_window")
    );
    assert_eq!(stream("update", "2h").status.code(), Some(0));
    assert_eq!(stream("check", "2h").status.code(), Some(0));
}
