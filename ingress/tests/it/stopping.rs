//! Stopping, asked to and not.

use std::collections::BTreeSet;
use std::time::Duration;

use nix::sys::signal::Signal;
use sandbox::eventually;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::{Client, Post, completed};
use crate::process::SOON;
use crate::world::{Setup, World};

/// Senders that deliver one task after the other until they are refused; each gives the ids that got a 2xx.
fn senders(world: &World, count: usize) -> JoinSet<BTreeSet<String>> {
    let mut senders = JoinSet::new();
    for sender in 0..count {
        let address = world.ingress.listen;
        senders.spawn(async move {
            let mut taken = BTreeSet::new();
            let mut client = Client::connect(address).await;
            for number in 0.. {
                let id = format!("load-{sender}-{number}");
                if client
                    .try_send(&Post::signed(completed(&id)).bytes())
                    .await
                    .is_err()
                {
                    break;
                }
                match client.try_answer().await {
                    Ok(answer) if answer.status == 204 => taken.insert(id),
                    Ok(answer) => {
                        assert_eq!((answer.status, answer.problem()), (503, "stopping".to_owned()));
                        assert!(answer.closes());
                        client.closed().await;
                        break;
                    }
                    Err(_) => break,
                };
            }
            taken
        });
    }
    senders
}

async fn under_load(world: &World) {
    eventually("deliveries flow", SOON, async || {
        world
            .ingress
            .metric(r#"ingress_deliveries_total{kind="completed",outcome="stored"}"#)
            > 200.0
    })
    .await;
}

async fn all_accounted(world: &World, senders: JoinSet<BTreeSet<String>>) {
    let taken: BTreeSet<_> = senders.join_all().await.into_iter().flatten().collect();
    assert!(taken.len() > 100);
    let stored: BTreeSet<_> = world.events.result_ids().await.into_iter().collect();
    assert!(
        stored.is_superset(&taken),
        "missing: {:?}",
        taken.difference(&stored).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_signal_under_load_ends_it_in_time_with_idle_and_stalled_connections_open() {
    let mut world = Setup::shared().await.set("STOP_GRACE", "4s").start().await;
    let mut idle = Vec::new();
    for _ in 0..5 {
        let mut client = world.client().await;
        assert_eq!(client.post(&Post::signed(completed("idle"))).await.status, 204);
        idle.push(client);
    }
    let mut stalled = world.client().await;
    stalled.send(&Post::forged("").head_declaring(1000)).await;
    let senders = senders(&world, 8);
    under_load(&world).await;

    let asked = Instant::now();
    world.ingress.signal(Signal::SIGTERM);
    eventually("new connections are refused", SOON, async || {
        TcpStream::connect(world.ingress.listen).await.is_err()
    })
    .await;
    world.ingress.signal(Signal::SIGTERM);
    world.ingress.signal(Signal::SIGINT);
    let status = world.ingress.ended(Duration::from_secs(8)).await;
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(
        asked.elapsed() < Duration::from_secs(6),
        "took {:?}",
        asked.elapsed()
    );
    all_accounted(&world, senders).await;
}

#[tokio::test]
async fn without_requests_it_ends_soon() {
    let mut world = World::start().await;
    let mut idle = world.client().await;
    assert_eq!(idle.post(&Post::signed(completed("idle"))).await.status, 204);
    world.ingress.signal(Signal::SIGINT);
    assert_eq!(world.ingress.ended(Duration::from_secs(4)).await.code(), Some(0));
    idle.closed().await;
}

#[tokio::test]
async fn a_request_on_a_kept_connection_is_told_that_the_process_stops_and_one_in_flight_is_finished() {
    let mut world = World::start().await;
    let mut kept = world.client().await;
    assert_eq!(kept.post(&Post::signed(completed("kept"))).await.status, 204);
    let slow = Post::signed(completed("in flight"));
    let mut busy = world.client().await;
    busy.send(&slow.head_declaring(slow.body().len())).await;
    eventually("it is in", SOON, async || {
        world.ingress.metric("ingress_in_flight") == 1.0
    })
    .await;
    world.ingress.signal(Signal::SIGTERM);
    eventually("it is stopping", SOON, async || {
        world
            .ingress
            .unready()
            .is_some_and(|why| why.contains("stopping"))
    })
    .await;
    let answer = kept.post(&Post::signed(completed("too late"))).await;
    assert_eq!((answer.status, answer.problem()), (503, "stopping".to_owned()));
    assert!(answer.closes());
    kept.closed().await;
    busy.send(slow.body()).await;
    assert_eq!(busy.answer().await.status, 204);
    assert_eq!(world.ingress.ended(SOON).await.code(), Some(0));
    assert_eq!(world.events.result_ids().await, ["kept", "in flight"]);
}

#[tokio::test]
async fn killed_under_load_it_has_lost_nothing_that_it_acknowledged() {
    let mut world = World::start().await;
    let senders = senders(&world, 8);
    under_load(&world).await;
    world.ingress.kill_hard();
    all_accounted(&world, senders).await;
    world.start_again().await;
    assert_eq!(world.deliver(completed("the next life")).await, 204);
}

#[tokio::test]
async fn it_stops_while_it_still_looks_for_the_broker() {
    let setup = Setup::on("nats://127.0.0.1:1");
    let mut ingress = crate::process::Process::start(setup.variables()).await;
    ingress.signal(Signal::SIGTERM);
    assert_eq!(ingress.ended(Duration::from_secs(4)).await.code(), Some(0));
}
