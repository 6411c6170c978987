//! Messages with headers over which the client ends its connection, or itself. Whoever may publish can store them.

use sandbox::eventually;
use sandbox::servers::publish_bytes;
use schemas::event::Kind;

use crate::answer::Answer;
use crate::world::{SOON, World};

/// Stores a message that no client delivers; each is another one.
async fn publish(world: &World, number: usize, value: &[u8]) {
    let headers = [
        format!("NATS/1.0\r\nNats-Msg-Id: odd-{number}\r\nname: ").as_bytes(),
        value,
        b"\r\n\r\n",
    ]
    .concat();
    let subject = world.spec.subjects.of(Kind::Completed);
    let body = Answer::of(&format!("odd-{number}")).body();
    let broker = world.nats_url.trim_start_matches("nats://").parse().unwrap();
    let stored = publish_bytes(broker, None, subject.as_bytes(), &headers, &body);
    stored.await.unwrap();
}

async fn parked(world: &World) -> Vec<(String, String, String)> {
    let query = "select reason, detail, task_id from parked where body is not null order by stream_seq";
    let rows = world.sql.query(query, &[]).await.unwrap();
    rows.iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect()
}

#[tokio::test]
async fn unreadable_headers_are_parked_once_each_and_all_others_become_rows() {
    let world = World::new().await;
    let projectors = [world.start().await, world.start().await];
    for number in 0..60 {
        publish(&world, number, b"\xff").await;
        let answers = (0..20).map(|n| Answer::of(&format!("good-{number}-{n}")));
        world.publish_all(answers).await;
    }
    // Far below the ack wait of a minute: nothing waits for its next delivery.
    world.rows("answers", 1_200).await;
    world.rows("parked", 60).await;
    world.settled().await;
    let expected = |number| {
        let detail = "they are not valid UTF-8".to_owned();
        ("unreadable_headers".to_owned(), detail, format!("odd-{number}"))
    };
    assert_eq!(parked(&world).await, (0..60).map(expected).collect::<Vec<_>>());

    // A usual answer is a row at once, and the connections stay.
    let lost = || {
        projectors
            .each_ref()
            .map(|p| p.log().matches("lost the connection to NATS").count())
    };
    let before = lost();
    world.publish(&Answer::of("after")).await;
    world.rows("answers", 1_201).await;
    assert_eq!(lost(), before);
    assert!(before.iter().sum::<usize>() <= 61, "{before:?}");
    for projector in &projectors {
        projector.ready().await;
    }
    eventually("the floor is the last message", SOON, async || {
        let floor: i64 = world.value("select floor_seq from projection", &[]).await;
        if floor == 1_261 { Ok(()) } else { Err(floor) }
    })
    .await;
}

#[tokio::test]
async fn a_backlog_of_unreadable_headers_costs_a_reconnect_a_batch() {
    let world = World::new().await;
    for number in 0..500 {
        publish(&world, number, b"\xff").await;
    }
    world.publish(&Answer::of("good")).await;
    let projector = world.projector().set("BATCH_MESSAGES", 100).start_ready().await;
    world.rows("answers", 1).await;
    world.rows("parked", 500).await;
    world.settled().await;
    let lost = projector.log().matches("lost the connection to NATS").count();
    assert!(
        lost <= 6,
        "{lost} connections lost to 501 messages in batches of 100"
    );
}

#[tokio::test]
async fn headers_over_which_the_client_ends_are_parked_by_the_process_that_is_started_next() {
    let world = World::new().await;
    let builder = world
        .projector()
        .set("ACK_WAIT", "2s")
        .set("STATEMENT_TIMEOUT", "500ms");
    publish(&world, 0, b"a\rb").await;
    world.publish(&Answer::of("good")).await;
    let mut starts = 0;
    eventually("a process has parked it", SOON, async || {
        let mut projector = builder.start();
        starts += 1;
        let parked = async {
            while world.count("parked").await == 0 {
                tokio::task::yield_now().await
            }
        };
        tokio::select! {
            () = parked => Ok(()),
            status = projector.ended(SOON) => {
                assert_eq!(status.code(), Some(1), "{}", projector.log());
                Err("it has ended")
            }
        }
    })
    .await;
    assert!(starts <= 4, "{starts} processes");
    let projector = builder.start_ready().await;
    world.rows("answers", 1).await;
    world.settled().await;
    projector.ready().await;
    assert_eq!(parked(&world).await.len(), 1);
}
