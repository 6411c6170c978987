//! Reading the stream without a consumer.

use std::ops::RangeInclusive;
use std::time::Duration;

use sandbox::servers::publish_bytes;
use stream::append::Mode;
use stream::connect::Settings;
use stream::{ReadEvent, Reader, UnreadableHeaders};

use crate::consume::fill;
use crate::world::{SOON, World, completed, mode};

fn reader(world: &World) -> Reader {
    Reader::new(&world.connection, world.declared.name())
}

async fn scan(world: &World, range: RangeInclusive<u64>) -> Vec<ReadEvent> {
    let settings = Settings::for_url(world.server.url());
    let mut scan = reader(world).scan(&settings, *range.start(), *range.end());
    let mut all = Vec::new();
    while let Some(events) = scan.next().await.expect("the broker gives all of it") {
        assert!(scan.position() > events.last().expect("never empty").seq);
        all.extend(events);
    }
    all
}

fn seqs(events: &[ReadEvent]) -> Vec<u64> {
    events.iter().map(|event| event.seq).collect()
}

#[tokio::test]
async fn a_scan_gives_every_event_of_its_range_in_order_as_it_was_stored() {
    let world = World::start().await;
    fill(&world, 0..2_500).await;
    let all = scan(&world, 1..=2_500).await;
    assert_eq!(seqs(&all), (1..=2_500).collect::<Vec<_>>());
    assert_eq!(
        seqs(&scan(&world, 1_200..=1_300).await),
        (1_200..=1_300).collect::<Vec<_>>()
    );
    let (id, body) = world.stored(1_234).await.expect("it is there");
    let event = &all[1_233];
    assert_eq!((event.msg_id(), &event.body), (Some(id.as_str()), &body));
    assert!(event.subject.starts_with("answers."), "{event:?}");
    let one = reader(&world).event(1_234).await.unwrap().unwrap();
    assert_eq!(
        (one.subject, one.body, one.time),
        (event.subject.clone(), body, event.time)
    );
    assert!(reader(&world).event(2_501).await.unwrap().is_none());
    assert!(scan(&world, 2_501..=9_999).await.is_empty());
}

#[tokio::test]
async fn a_long_scan_has_the_events_delivered_and_leaves_nothing_behind() {
    let world = World::start().await;
    fill(&world, 0..3_000).await;
    let stream = world.stream().await;
    let consumers = async || stream.get_info().await.unwrap().state.consumer_count;
    let mut long = reader(&world).scan(&Settings::for_url(world.server.url()), 1, 2_900);
    let mut all = seqs(&long.next().await.unwrap().unwrap());
    assert_eq!((all.len(), consumers().await), (1_000, 1));
    // A second one at the same time reads in another way.
    assert_eq!(
        seqs(&scan(&world, 1..=3_000).await),
        (1..=3_000).collect::<Vec<_>>()
    );
    fill(&world, 3_000..3_010).await;
    let mut last = 0;
    while let Some(events) = long.next().await.unwrap() {
        last = events.len();
        all.extend(seqs(&events));
    }
    assert_eq!(last, 900, "it broke on the way, and was gone on with one by one");
    assert_eq!(all, (1..=2_900).collect::<Vec<_>>());
    assert_eq!(consumers().await, 0);
}

#[tokio::test]
async fn events_taken_off_while_a_scan_comes_to_them_do_not_stop_it() {
    let world = World::start().await;
    fill(&world, 0..4_000).await;
    let mut long = reader(&world).scan(&Settings::for_url(world.server.url()), 1, 4_000);
    let mut all = seqs(&long.next().await.unwrap().unwrap());
    let stream = world.stream().await;
    stream.purge().sequence(3_900).await.unwrap();
    for seq in [3_999, 4_000] {
        assert!(reader(&world).erase(seq).await.unwrap());
    }
    while let Some(events) = long.next().await.unwrap() {
        all.extend(seqs(&events));
    }
    assert!(all.is_sorted(), "{all:?}");
    assert!((3_900..=3_998).all(|seq| all.contains(&seq)));
    assert_eq!(long.position(), 4_001);
}

#[tokio::test]
async fn sequences_that_hold_nothing_are_passed_over() {
    let world = World::start().await;
    fill(&world, 0..3_000).await;
    let stream = world.stream().await;
    stream.purge().sequence(101).await.unwrap(); // keeps 101 and what is behind it
    let holes = [101, 500, 1_101, 1_102, 3_000];
    for seq in holes {
        assert!(reader(&world).erase(seq).await.unwrap());
        assert!(!reader(&world).erase(seq).await.unwrap());
    }
    let expected: Vec<u64> = (101..=3_000).filter(|seq| !holes.contains(seq)).collect();
    assert_eq!(seqs(&scan(&world, 1..=3_000).await), expected);
    assert!(scan(&world, 1_101..=1_102).await.is_empty());
}

#[tokio::test]
async fn events_of_the_largest_size_are_read() {
    let world = World::start().await;
    let appender = world.appender(&mode(Mode::Plain)).await;
    for task in ["a", "b", "c"] {
        appender
            .append(completed(task, &"x".repeat(7 << 20)))
            .await
            .unwrap();
    }
    fill(&world, 0..10).await;
    let all = scan(&world, 1..=13).await;
    assert_eq!(seqs(&all), (1..=13).collect::<Vec<_>>());
    assert!(all[1].body.len() > 7 << 20);
}

/// Over such headers the client ends its connection, and over the last of them itself.
#[tokio::test]
async fn no_stored_message_ends_a_scan() {
    let world = World::start().await;
    let blocks: [(&[u8], UnreadableHeaders); 3] = [
        (b"NATS/1.0\r\nname: \xff\r\n\r\n", UnreadableHeaders::NotUtf8),
        (b"NATS/1.0\r\nno colon\r\n\r\n", UnreadableHeaders::Line),
        (b"NATS/1.0\r\nname: a\rb\r\n\r\n", UnreadableHeaders::Value),
    ];
    let mut expected = Vec::new();
    for (number, (headers, why)) in blocks.into_iter().enumerate() {
        fill(&world, number * 1_200..(number + 1) * 1_200).await;
        let stored = publish_bytes(world.server.addr(), None, b"answers.quarantine", headers, b"odd").await;
        expected.push((stored.unwrap(), why));
    }
    fill(&world, 3_600..3_700).await;
    let last = world.last_seq().await;
    let all = scan(&world, 1..=last).await;
    assert_eq!(seqs(&all), (1..=last).collect::<Vec<_>>());
    let odd: Vec<_> = all
        .iter()
        .filter_map(|event| Some((event.seq, event.unreadable?)))
        .collect();
    assert_eq!(odd, expected);
    assert_eq!(all[1_200].body, "odd");
    assert_eq!(
        world.connection.connects(),
        1,
        "the other connection was not touched"
    );
}

/// As with a user who may read single messages only.
#[tokio::test]
async fn without_direct_reads_a_scan_takes_longer_and_gives_the_same() {
    let world = World::start().await;
    fill(&world, 0..250).await;
    world.reconfigure(|config| config.allow_direct = false).await;
    assert_eq!(seqs(&scan(&world, 1..=250).await), (1..=250).collect::<Vec<_>>());
}

/// A user who may read single messages only, and a stream that lost a long head: each of its sequences asked for would take an hour.
#[tokio::test]
async fn a_long_head_that_is_gone_is_skipped_however_the_scan_reads() {
    let world = World::start().await;
    let far = 10_000_000;
    world.reconfigure(|config| config.allow_direct = false).await;
    let stream = world.stream().await;
    stream.purge().sequence(far).await.unwrap();
    fill(&world, 0..20).await;
    let last = world.last_seq().await;
    assert_eq!(last, far + 19);
    // Another one has the consumer.
    let mut other = reader(&world).scan(&Settings::for_url(world.server.url()), 1, last);
    assert_eq!(other.next().await.unwrap().unwrap().len(), 20);
    let scanned = tokio::time::timeout(SOON, scan(&world, 1..=last)).await;
    let all = scanned.expect("the head is skipped");
    assert_eq!(seqs(&all), (far..=last).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_consumer_of_a_scan_is_kept_for_a_minute_without_requests() {
    let world = World::start().await;
    fill(&world, 0..3_000).await;
    let mut long = reader(&world).scan(&Settings::for_url(world.server.url()), 1, 3_000);
    long.next().await.unwrap();
    let info = world.stream().await.consumer_info("replay").await.unwrap();
    assert!(
        info.config.inactive_threshold >= Duration::from_secs(60),
        "{info:?}"
    );
}

#[tokio::test]
async fn a_broker_that_restarts_in_the_middle_of_a_scan_costs_nothing_but_time() {
    let mut world = World::start().await;
    fill(&world, 0..3_000).await;
    let mut scan = reader(&world).scan(&Settings::for_url(world.server.url()), 1, 3_000);
    let mut all = seqs(&scan.next().await.unwrap().unwrap());
    world.server.restart().await;
    while let Some(events) = scan.next().await.expect("the broker is back") {
        all.extend(seqs(&events));
    }
    assert_eq!(all, (1..=3_000).collect::<Vec<_>>());
}
