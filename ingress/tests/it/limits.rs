//! What strangers and slow senders can cost.

use std::time::Duration;

use nix::sys::signal::Signal;
use sandbox::eventually;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::client::{Client, PATH, Post, chunk, completed};
use crate::process::{Process, SOON};
use crate::world::{Setup, World};

const MIB: usize = 1 << 20;

/// Delivers twenty times, and holds the usual time that it took against what a sender may expect at any time.
async fn deliver_in_time(world: &World) {
    let mut took = Vec::new();
    for round in 0..20 {
        let began = Instant::now();
        assert_eq!(world.deliver(completed(&format!("in time {round}"))).await, 204);
        took.push(began.elapsed());
    }
    took.sort();
    assert!(
        took[10] < Duration::from_secs(1) && took[19] < Duration::from_secs(5),
        "{took:?}"
    );
}

#[tokio::test]
async fn uploads_without_end_are_cut_and_memory_stays_within_its_bounds() {
    let world = Setup::shared()
        .await
        .set("BODY_LIMIT", "2MiB")
        .set("BODY_BUDGET", "32MiB")
        .start()
        .await;
    let before = world.ingress.resident_memory();
    let mut uploads = JoinSet::new();
    for _ in 0..50 {
        let address = world.ingress.listen;
        uploads.spawn(async move {
            let piece = chunk(&vec![b'x'; 64 << 10]);
            let mut client = Client::connect(address).await;
            client.send(&Post::forged("").head_chunked()).await;
            let mut sent = 0;
            while sent < 1024 * MIB && client.try_send(&piece).await.is_ok() {
                sent += piece.len();
            }
            sent
        });
    }
    deliver_in_time(&world).await;
    while let Some(sent) = uploads.join_next().await {
        assert!(sent.unwrap() < 64 * MIB);
    }
    let grown = world.ingress.peak_memory() - before;
    assert!(
        grown < 50 * 2 * MIB,
        "more than the limit for each connection: {grown} bytes"
    );
    let cut = world
        .ingress
        .metric(r#"ingress_refusals_total{reason="too_large"}"#)
        + world
            .ingress
            .metric(r#"ingress_refusals_total{reason="body_budget_spent"}"#);
    assert_eq!(cut, 50.0);
    eventually("nothing is held", SOON, async || {
        world.ingress.metric("ingress_budget_bytes") == 0.0
    })
    .await;
}

/// A third of them silent, a third in the middle of a header, a third in the middle of a body. Each gives how long it was
/// open.
fn slow_senders(world: &World, count: usize) -> JoinSet<Duration> {
    let address = world.ingress.listen;
    let mut slow = JoinSet::new();
    for number in 0..count {
        slow.spawn(async move {
            let mut client = Client::connect(address).await;
            match number % 3 {
                0 => {}
                1 => {
                    client
                        .send(format!("POST {PATH} HTTP/1.1\r\nHost: ").as_bytes())
                        .await
                }
                _ => client.send(&Post::forged("").head_declaring(1000)).await,
            }
            let opened = Instant::now();
            if number % 3 == 0 {
                client.gone().await;
            }
            // A byte now and then, which the other side must not take for progress.
            while client.try_send(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(700)).await;
            }
            opened.elapsed()
        });
    }
    slow
}

#[tokio::test]
async fn five_hundred_slow_senders_hold_up_nobody() {
    let world = Setup::shared()
        .await
        .set("HEADER_DEADLINE", "5m")
        .set("REQUEST_DEADLINE", "14s")
        .start()
        .await;
    let descriptors = world.ingress.descriptors();
    let slow = slow_senders(&world, 500);
    eventually("all are connected", SOON, async || {
        let connections = world.ingress.metric("ingress_connections");
        if connections >= 500.0 {
            Ok(())
        } else {
            Err(connections)
        }
    })
    .await;
    deliver_in_time(&world).await;
    drop(slow);
    eventually("descriptors are back", SOON, async || {
        world.ingress.descriptors() <= descriptors
    })
    .await;
}

#[tokio::test]
async fn five_hundred_slow_senders_are_closed_at_the_deadline() {
    let world = Setup::shared()
        .await
        .set("HEADER_DEADLINE", "2s")
        .set("REQUEST_DEADLINE", "3s")
        .set("PUBLISH_TIMEOUT", "1s")
        .start()
        .await;
    let descriptors = world.ingress.descriptors();
    let mut slow = slow_senders(&world, 500);
    while let Some(open) = slow.join_next().await {
        // The deadline, the time to read the refusal, and the time until the sender notices; on a busy machine.
        assert!(open.unwrap() < SOON);
    }
    eventually("descriptors are back", SOON, async || {
        world.ingress.descriptors() <= descriptors
    })
    .await;
    assert_eq!(world.ingress.metric("ingress_in_flight"), 0.0);
}

#[tokio::test]
async fn a_body_that_stalls_is_told_so_at_the_deadline() {
    let world = Setup::shared()
        .await
        .set("REQUEST_DEADLINE", "2s")
        .set("PUBLISH_TIMEOUT", "1s")
        .start()
        .await;
    let mut client = world.client().await;
    client.send(&Post::forged("").head_declaring(1000)).await;
    let answer = client.answer().await;
    assert_eq!(
        (answer.status, answer.problem()),
        (408, "incomplete-body".to_owned())
    );
    assert!(answer.closes());
    client.closed().await;
}

#[tokio::test]
async fn more_requests_than_allowed_are_503_and_the_place_is_free_again_afterwards() {
    let world = Setup::shared().await.set("MAX_IN_FLIGHT", "1").start().await;
    let slow = Post::signed(completed("slow"));
    let mut first = world.client().await;
    first.send(&slow.head_declaring(slow.body().len())).await;
    eventually("it is in", SOON, async || {
        world.ingress.metric("ingress_in_flight") == 1.0
    })
    .await;
    let mut second = world.client().await;
    let answer = second.post(&Post::signed(completed("second"))).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("5")));
    assert_eq!(answer.problem(), "overloaded");
    assert!(!answer.closes());
    first.send(slow.body()).await;
    assert_eq!(first.answer().await.status, 204);
    assert_eq!(second.post(&Post::signed(completed("second"))).await.status, 204);
}

#[tokio::test]
async fn large_uploads_that_spend_the_budget_do_not_keep_small_deliveries_out() {
    let world = Setup::shared()
        .await
        .set("BODY_LIMIT", "1MiB")
        .set("BODY_BUDGET", "1MiB")
        .start()
        .await;
    let stalled = Post::forged("");
    let mut held = Vec::new();
    let mut refused = 0;
    for _ in 0..3 {
        let mut client = world.client().await;
        client.send(&stalled.head_declaring(MIB)).await;
        client.send(&vec![b'x'; 700_000]).await;
        held.push(client);
        eventually("the first has its part of the budget", SOON, async || {
            world.ingress.metric("ingress_budget_bytes") > 600_000.0
        })
        .await;
    }
    for client in &mut held {
        let answer = client.answer().await;
        refused += i32::from(answer.status == 503 && answer.problem() == "overloaded");
        deliver_in_time(&world).await;
    }
    assert_eq!(refused, 2);
}

#[tokio::test]
async fn running_out_of_descriptors_neither_ends_nor_spins_the_process() {
    let setup = Setup::shared().await;
    // So few that what is kept for others does not suffice.
    let ingress = Process::start_with_descriptors("-n 20", setup.variables()).await;
    ingress.ready().await;
    let mut idle = Vec::new();
    for _ in 0..60 {
        idle.push(Client::connect(ingress.listen).await);
    }
    eventually("it says so", SOON, async || {
        ingress.log().iter().any(|line| line.contains("cannot accept"))
    })
    .await;
    let (began, ticks) = (Instant::now(), ingress.processor_ticks());
    eventually("a second passes", SOON, async || {
        began.elapsed() > Duration::from_secs(1)
    })
    .await;
    assert!(ingress.processor_ticks() - ticks < 20, "a fifth of a core");
    assert!(
        ingress
            .log()
            .iter()
            .filter(|line| line.contains("cannot accept"))
            .count()
            <= 2
    );
    drop(idle);
    let answer = crate::client::post(ingress.listen, &Post::signed(completed("after the shortage"))).await;
    assert_eq!(answer.status, 204);
}

#[tokio::test]
async fn senders_cannot_take_the_descriptors_of_the_broker_and_the_admin_port() {
    let setup = Setup::shared().await;
    let ingress = Process::start_with_descriptors("-n 64", setup.variables()).await;
    ingress.ready().await;
    let mut idle = Vec::new();
    for _ in 0..80 {
        idle.push(Client::connect(ingress.listen).await);
    }
    // The admin port answers all the while, since the metric comes from there.
    eventually("as many as there is room for are in", SOON, async || {
        ingress.metric("ingress_connections") == 32.0
    })
    .await;
    ingress.ready().await;
    assert!(
        ingress
            .log()
            .iter()
            .any(|line| line.contains("fewer descriptors"))
    );
    drop(idle);
    let answer = crate::client::post(ingress.listen, &Post::signed(completed("after the crowd"))).await;
    assert_eq!(answer.status, 204);
}

#[tokio::test]
async fn a_sender_that_reads_no_answer_loses_its_connection() {
    let world = Setup::shared().await.set("HEADER_DEADLINE", "1s").start().await;
    let mut client = world.client().await;
    let requests = "GET / HTTP/1.1\r\nhost: hook\r\n\r\n".repeat(1000);
    // Until the buffers between are full.
    while let Ok(Ok(())) = timeout(Duration::from_secs(1), client.try_send(requests.as_bytes())).await {}
    eventually("it is given up", SOON, async || {
        world.ingress.metric("ingress_connections") == 0.0
    })
    .await;
    drop(client);
}

#[tokio::test]
async fn a_low_soft_limit_of_descriptors_is_raised() {
    let setup = Setup::shared().await;
    let ingress = Process::start_with_descriptors("-S -n 40", setup.variables()).await;
    ingress.ready().await;
    let mut idle = Vec::new();
    for _ in 0..60 {
        idle.push(Client::connect(ingress.listen).await);
    }
    eventually("all are accepted", SOON, async || {
        ingress.metric("ingress_connections") == 60.0
    })
    .await;
}

/// While the process does nothing at all, the system takes connections for it.
#[tokio::test]
async fn a_burst_of_connections_waits_in_the_queue_of_the_listener() {
    let world = Setup::shared().await.start().await;
    world.ingress.signal(Signal::SIGSTOP);
    let mut waiting = Vec::new();
    for _ in 0..500 {
        let connected = timeout(SOON, Client::connect(world.ingress.listen)).await;
        waiting.push(connected.expect("there is room in the queue"));
    }
    world.ingress.signal(Signal::SIGCONT);
    for (number, client) in waiting.iter_mut().enumerate() {
        let answer = client
            .post(&Post::signed(completed(&format!("burst {number}"))))
            .await;
        assert_eq!(answer.status, 204);
    }
}

#[tokio::test]
async fn connections_over_the_limit_wait_until_one_is_closed() {
    let world = Setup::shared().await.set("MAX_CONNECTIONS", "2").start().await;
    let (first, second) = (world.client().await, world.client().await);
    eventually("both are in", SOON, async || {
        world.ingress.metric("ingress_connections") == 2.0
    })
    .await;
    let mut third = world.client().await;
    third.send(&Post::signed(completed("third")).bytes()).await;
    assert_eq!(world.ingress.metric("ingress_connections"), 2.0);
    drop(first);
    assert_eq!(third.answer().await.status, 204);
    drop(second);
}
