//! Ingress stopped and killed while deliveries flow.

use std::time::Duration;

use failures::world::{HOOK, SOON};
use failures::{Setup, Who, World};
use nix::sys::signal::Signal;
use sandbox::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

const FIRST: Who = Who::Ingress(0);
const SECOND: Who = Who::Ingress(1);

/// More than STOP_GRACE of a world, and what a busy machine adds.
const GRACE: Duration = Duration::from_secs(8);

async fn two_under_load() -> (World, failures::Load) {
    let setup = Setup {
        ingresses: 2,
        ..Setup::default()
    };
    let world = World::with(setup).await;
    let load = world.load(100);
    world.delivered(50).await;
    (world, load)
}

/// SIGTERM with kept connections idle, a body that has stalled half-way, and a second signal: it ends in time with exit code
/// 0, refuses whoever comes meanwhile, and the other process goes on.
#[tokio::test]
async fn stopped_under_load_with_idle_and_stalled_connections_open() {
    let (mut world, load) = two_under_load().await;
    let hook = world.hook_link(FIRST).addr();
    let mut idle = TcpStream::connect(hook).await.unwrap();
    idle.write_all(format!("GET {HOOK} HTTP/1.1\r\nhost: hook\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut answer = [0; 12];
    idle.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 405");
    let mut stalled = TcpStream::connect(hook).await.unwrap();
    let head = format!(
        "POST {HOOK} HTTP/1.1\r\nhost: hook\r\nwebhook-signature: {}\r\ncontent-length: 1000\r\n\r\nhalf",
        world.a_signature()
    );
    stalled.write_all(head.as_bytes()).await.unwrap();
    let in_flight = async || world.metric(FIRST, "ingress_in_flight").await >= 1.0;
    eventually("the stalled body is waited for", SOON, in_flight).await;

    let asked = Instant::now();
    world.signal(FIRST, Signal::SIGTERM);
    let listen = world.listen(FIRST);
    eventually("new connections are refused", SOON, async || {
        TcpStream::connect(listen).await.is_err()
    })
    .await;
    world.signal(FIRST, Signal::SIGTERM);
    world.signal(FIRST, Signal::SIGINT);
    world.stopped(FIRST, GRACE).await;
    assert!(asked.elapsed() < GRACE);
    let before = usize::try_from(world.tally().delivered).unwrap();
    world.delivered(before + 50).await;
    world.start_program(FIRST).await;
    world.delivered(before + 100).await;
    load.stop().await;
    world.end().await;
}

/// Each process in turn is stopped and started again, as in a deployment, while deliveries flow.
#[tokio::test]
async fn restarted_one_after_the_other_under_load() {
    let (mut world, load) = two_under_load().await;
    for who in [FIRST, SECOND] {
        world.stop(who).await;
        world.start_program(who).await;
        let before = usize::try_from(world.tally().delivered).unwrap();
        world.delivered(before + 50).await;
    }
    load.stop().await;
    world.end().await;
}

/// kill -9, again and again, also of both at once.
#[tokio::test]
async fn killed_under_load() {
    let (mut world, load) = two_under_load().await;
    for round in [&[FIRST][..], &[SECOND], &[FIRST, SECOND]] {
        for who in round {
            world.kill(*who);
        }
        for who in round {
            world.start_program(*who).await;
        }
        let before = usize::try_from(world.tally().delivered).unwrap();
        world.delivered(before + 50).await;
    }
    load.stop().await;
    world.end().await;
}
