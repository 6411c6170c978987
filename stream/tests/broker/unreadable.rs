//! Messages whose headers the client cannot read. Whoever may publish can store them.

use std::collections::BTreeMap;
use std::time::Duration;

use sandbox::eventually::eventually;
use sandbox::servers::publish_bytes;
use stream::consume::{FetchError, Start, Steward};
use stream::{AppendSettings, Appended, Consumer, ConsumerSpec, StoredEvent, UnreadableHeaders};

use crate::consume::{BYTES, PATIENCE, attach, fill, steward};
use crate::world::{SOON, World, completed, connect};

/// Blocks of headers, and why they cannot be read. Over the last one the client does not only lose its connection: it ends.
const UNREADABLE: [(&[u8], UnreadableHeaders); 5] = [
    (
        b"NATS/1.0\r\nNats-Msg-Id: odd\xff\r\n\r\n",
        UnreadableHeaders::NotUtf8,
    ),
    (b"\r\n", UnreadableHeaders::Version),
    (b"NATS/1.0\r\nno colon\r\n\r\n", UnreadableHeaders::Line),
    (b"NATS/1.0\r\na name: x\r\n\r\n", UnreadableHeaders::Name),
    (b"NATS/1.0\r\nname: a\rb\r\n\r\n", UnreadableHeaders::Value),
];

/// Odd ones, which the client reads all the same.
const READABLE: [&[u8]; 7] = [
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0\r\nname: x",
    b"NATS/1.0\r\n: x\r\n\r\n",
    b"NATS/1.0\r\nname:\r\n\r\n",
    b"NATS/1.0\r\nname: a\r\n  b\r\n\tc\r\nname: d\r\n\r\n",
    b"NATS/1.0 503\r\nname: x\r\n\r\n",
    b"NATS/1.0 409 Consumer Deleted\r\nNats-Msg-Id: odd\r\n\r\n",
];

async fn publish(world: &World, headers: &[u8], body: &str) -> u64 {
    let stored = publish_bytes(
        world.server.addr(),
        None,
        b"answers.quarantine",
        headers,
        body.as_bytes(),
    );
    stored.await.expect("the broker stores it")
}

/// Fetches and acknowledges until so many different events were seen; each with how often it came.
async fn drain(consumer: &mut Consumer, count: usize) -> BTreeMap<u64, (StoredEvent, usize)> {
    let mut seen = BTreeMap::new();
    let all = async {
        while seen.len() < count {
            for event in consumer
                .fetch(100, BYTES, PATIENCE)
                .await
                .expect("the broker delivers")
            {
                event.acker.ack().await.expect("the client lives");
                seen.entry(event.seq).or_insert((event, 0)).1 += 1;
            }
        }
    };
    // Far below the ack wait: nothing here waits for that.
    tokio::time::timeout(SOON, all).await.expect("all events come");
    seen
}

async fn nothing_is_left(world: &World) {
    let steward = steward(world);
    eventually("everything is acknowledged", SOON, async || {
        let found = steward.find().await.ok().flatten().ok_or(None)?.progress;
        match (found.ack_floor == world.last_seq().await, found.unacknowledged) {
            (true, 0) => Ok(()),
            _ => Err(Some(found)),
        }
    })
    .await;
}

#[tokio::test]
async fn unreadable_headers_break_the_connection_once_and_everything_comes_at_once() {
    let world = World::start().await;
    let mut consumer = attach(&world).await;
    let mut unreadable = BTreeMap::new();
    let survivable = &UNREADABLE[..4];
    for (number, (headers, why)) in survivable.iter().enumerate() {
        fill(&world, number * 10..(number + 1) * 10).await;
        unreadable.insert(publish(&world, headers, &format!("body {number}")).await, *why);
    }
    fill(&world, 40..50).await;

    let seen = drain(&mut consumer, 54).await;
    let found = seen
        .iter()
        .filter_map(|(seq, (event, _))| Some((*seq, event.unreadable?)));
    assert_eq!(found.collect::<BTreeMap<_, _>>(), unreadable);
    for (number, seq) in unreadable.keys().enumerate() {
        assert_eq!(seen[seq].0.body, format!("body {number}"));
    }
    assert_eq!(world.connection.connects(), 2);
    nothing_is_left(&world).await;
    fill(&world, 50..51).await;
    assert_eq!(drain(&mut consumer, 1).await.len(), 1);
}

#[tokio::test]
async fn what_breaks_the_connection_costs_one_reconnect_a_fetch_however_many_there_are() {
    let world = World::start().await;
    let mut consumer = attach(&world).await;
    for number in 0..250 {
        publish(
            &world,
            b"NATS/1.0\r\nname: \xff\r\n\r\n",
            &format!("body {number}"),
        )
        .await;
    }
    assert_eq!(drain(&mut consumer, 250).await.len(), 250);
    let connects = world.connection.connects();
    assert!(connects <= 4, "{connects} connections for three fetches");
    nothing_is_left(&world).await;
}

/// The same headers come of both ways in which a message is read, or what is read would depend on the way.
#[tokio::test]
async fn odd_headers_are_delivered_and_read_from_the_stream_alike() {
    let world = World::start().await;
    let mut consumer = attach(&world).await;
    for headers in READABLE {
        publish(&world, headers, "body").await;
    }
    let delivered = drain(&mut consumer, READABLE.len()).await;
    assert_eq!(world.connection.connects(), 1);

    let connection = connect(&world.server.url()).await;
    let spec = ConsumerSpec {
        durable: "again".to_owned(),
        ..ConsumerSpec::default()
    };
    let again = Steward::new(&connection, &world.declared, &spec);
    assert!(again.create(Start::First, "ours").await.unwrap());
    let mut consumer = again.attach().await.unwrap();
    publish(&world, UNREADABLE[0].0, "body").await;
    let seen = drain(&mut consumer, READABLE.len() + 1).await;
    assert_eq!(connection.connects(), 2);
    for (seq, (event, _)) in &delivered {
        let read = &seen[seq].0;
        assert_eq!((&read.headers, read.unreadable), (&event.headers, None), "{seq}");
        assert_eq!(
            (&read.subject, &read.body, read.time),
            (&event.subject, &event.body, event.time)
        );
    }
}

#[tokio::test]
async fn a_subject_that_is_no_text_breaks_the_connection_once_too() {
    let world = World::start().await;
    let mut consumer = attach(&world).await;
    fill(&world, 0..3).await;
    for subject in [
        &b"answers.\xff"[..],
        "answers.a\u{a0}b".as_bytes(),
        b"answers.a\x0bb",
    ] {
        publish_bytes(
            world.server.addr(),
            None,
            subject,
            b"NATS/1.0\r\na: b\r\n\r\n",
            b"",
        )
        .await
        .unwrap();
    }
    let seen = drain(&mut consumer, 6).await;
    let subjects: Vec<_> = seen
        .values()
        .skip(3)
        .map(|(event, _)| event.subject.as_str())
        .collect();
    assert_eq!(
        subjects,
        ["answers.\u{fffd}", "answers.a\u{a0}b", "answers.a\u{b}b"]
    );
    nothing_is_left(&world).await;
}

/// A panic in the client leaves nothing to go on with. The next process finds what it was.
#[tokio::test]
async fn headers_over_which_the_client_ends_are_found_by_the_next_process() {
    let world = World::start().await;
    let spec = ConsumerSpec {
        ack_wait: Duration::from_millis(500),
        ..ConsumerSpec::default()
    };
    fill(&world, 0..3).await;
    let seq = publish(&world, UNREADABLE[4].0, "body").await;
    let mut created = false;
    let mut ended = 0;
    let seen = loop {
        let connection = connect(&world.server.url()).await;
        let steward = Steward::new(&connection, &world.declared, &spec);
        if !std::mem::replace(&mut created, true) {
            assert!(steward.create(Start::First, "ours").await.unwrap());
        }
        let mut consumer = steward.attach().await.unwrap();
        let end = loop {
            match consumer.fetch(100, BYTES, PATIENCE).await {
                // A process that ended could not acknowledge these.
                Ok(events) if events.iter().any(|event| event.seq == seq) => break Some(events),
                // Before it is known that the client has ended, its requests fail.
                Ok(_) | Err(FetchError::Unavailable(_) | FetchError::Request(_)) => {}
                Err(FetchError::Closed) => break None,
                Err(error) => panic!("{error}"),
            }
        };
        match end {
            Some(events) => break events,
            None => ended += 1,
        }
        assert!(ended <= 3, "processes end over and over");
    };
    let event = seen.iter().find(|event| event.seq == seq).unwrap();
    assert_eq!(event.unreadable, Some(UnreadableHeaders::Value));
}

#[tokio::test]
async fn an_id_that_a_message_of_somebody_else_holds_costs_no_event() {
    let world = World::start().await;
    let forged = [
        (
            "unreadable",
            "answers.result.completed",
            "Answers-Via: webhook\r\nno colon\r\n",
        ),
        ("no origin", "answers.result.completed", "X: y\r\n"),
        ("elsewhere", "answers.quarantine", "Answers-Via: webhook\r\n"),
    ];
    let appender = world.appender(&AppendSettings::default()).await;
    for (task, subject, more) in forged {
        let event = completed(&task.replace(' ', "-"), "yes");
        let headers = format!("NATS/1.0\r\nNats-Msg-Id: {}\r\n{more}\r\n", event.msg_id);
        let seq = publish_bytes(
            world.server.addr(),
            None,
            subject.as_bytes(),
            headers.as_bytes(),
            &event.body,
        );
        let seq = seq.await.unwrap();
        let answer = appender.append(event.clone()).await;
        assert_eq!(answer, Ok(Appended::Divergent { seq: seq + 1 }), "{task}");
        assert_eq!(
            appender.append(event).await,
            Ok(Appended::Duplicate { seq: seq + 1 }),
            "{task}"
        );
    }
    assert_eq!(world.connection.connects(), 1);
}
