//! The broker is late, away, or gone and back.

use std::collections::BTreeSet;
use std::time::Duration;

use sandbox::eventually;
use sandbox::servers::{Link, NatsServer};
use tokio::time::Instant;

use crate::client::{Post, completed};
use crate::process::{Process, SOON};
use crate::world::Setup;

/// The documented time from the broker's return to the first 2xx.
const BACK_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_late_or_lost_broker_answer_is_503_within_the_publish_limit_and_repeating_ends_well() {
    let nats = NatsServer::start().await;
    let mut link = Link::to(nats.addr()).await;
    let world = Setup::on(&link.nats_url())
        .set("PUBLISH_TIMEOUT", "1s")
        .start_watching(&nats.url())
        .await;
    link.mute().await;
    let began = Instant::now();
    let answer = world.post(&Post::signed(completed("late"))).await;
    let took = began.elapsed();
    assert_eq!((answer.status, answer.problem()), (503, "unavailable".to_owned()));
    assert_eq!(answer.header("retry-after"), Some("10"));
    assert!(
        took > Duration::from_millis(900) && took < Duration::from_millis(2000),
        "took {took:?}"
    );
    link.restore().await;
    eventually("it is taken", BACK_WITHIN, async || {
        world.deliver(completed("late")).await == 204
    })
    .await;
    assert_eq!(world.events.result_ids().await, ["late"]);
}

#[tokio::test]
async fn a_stream_that_gives_no_acks_is_refused_at_the_start() {
    let nats = NatsServer::start().await;
    let setup = Setup::on(&nats.url());
    let client = async_nats::connect(nats.url()).await.unwrap();
    let no_ack = async_nats::jetstream::stream::Config {
        name: setup.stream().to_owned(),
        subjects: vec![format!("{}.>", setup.stream().to_lowercase())],
        no_ack: true,
        ..Default::default()
    };
    async_nats::jetstream::new(client)
        .create_stream(no_ack)
        .await
        .unwrap();
    let ended = setup.output(&["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(String::from_utf8(ended.stderr).unwrap().contains("no_ack"));
}

#[tokio::test]
async fn while_the_broker_is_away_nothing_is_2xx_and_what_was_2xx_is_there_when_it_is_back() {
    let mut nats = NatsServer::start().await;
    let world = Setup::on(&nats.url()).set("PUBLISH_TIMEOUT", "1s").start().await;
    let mut acknowledged = BTreeSet::new();
    for id in 0..200 {
        assert_eq!(world.deliver(completed(&format!("before-{id}"))).await, 204);
        acknowledged.insert(format!("before-{id}"));
    }
    nats.kill();
    eventually("it is unready", SOON, async || world.ingress.unready().is_some()).await;
    assert!(world.ingress.is_live());
    let memory = world.ingress.resident_memory();
    let mut client = world.client().await;
    let until = Instant::now() + Duration::from_secs(3);
    let mut refused = 0;
    while Instant::now() < until {
        let answer = client
            .post(&Post::signed(completed(&format!("during-{refused}"))))
            .await;
        assert_eq!((answer.status, answer.problem()), (503, "unavailable".to_owned()));
        refused += 1;
    }
    let grown = world.ingress.resident_memory().saturating_sub(memory);
    assert!(grown < 16 << 20, "{refused} refusals took {grown} bytes");
    let loud = world
        .ingress
        .log()
        .iter()
        .filter(|line| line.contains(r#""level":"WARN""#))
        .count();
    assert!(loud < 20, "{loud} warnings");

    nats.restart().await;
    eventually("it is taken again", BACK_WITHIN, async || {
        world.deliver(completed("after")).await == 204
    })
    .await;
    acknowledged.insert("after".to_owned());
    world.ingress.ready().await;
    let stored = world.events.result_ids().await;
    let distinct: BTreeSet<_> = stored.iter().cloned().collect();
    assert_eq!(distinct.len(), stored.len(), "each once");
    assert!(distinct.is_superset(&acknowledged));
}

#[tokio::test]
async fn a_blip_shorter_than_the_publish_limit_costs_few_deliveries() {
    let nats = NatsServer::start().await;
    let mut link = Link::to(nats.addr()).await;
    let world = Setup::on(&link.nats_url()).start_watching(&nats.url()).await;
    let (mut taken, mut failed) = (0, 0);
    let mut client = world.client().await;
    for id in 0..300 {
        if id == 100 {
            link.cut().await;
            link.restore().await;
        }
        match client
            .post(&Post::signed(completed(&format!("blip-{id}"))))
            .await
            .status
        {
            204 => taken += 1,
            _ => failed += 1,
        }
    }
    assert!(failed <= 3, "{failed} failed");
    assert_eq!(world.events.count().await, taken);
}

#[tokio::test]
async fn it_starts_before_the_broker_and_takes_deliveries_once_the_broker_is_there() {
    let mut nats = NatsServer::start().await;
    nats.kill();
    let setup = Setup::on(&nats.url());
    let ingress = Process::start(setup.variables()).await;
    // For a moment after the ports are open it says only that it is starting.
    eventually("it looks for the broker", SOON, async || {
        match ingress.unready() {
            Some(reasons) if reasons.contains("looking for the broker") => Ok(()),
            other => Err(other),
        }
    })
    .await;
    assert!(ingress.is_live());
    let answer = crate::client::post(ingress.listen, &Post::signed(completed("early"))).await;
    assert_eq!((answer.status, answer.problem()), (503, "unavailable".to_owned()));
    nats.restart().await;
    ingress.ready().await;
    assert_eq!(
        crate::client::post(ingress.listen, &Post::signed(completed("early")))
            .await
            .status,
        204
    );
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_killed_broker() {
    let mut nats = NatsServer::start().await;
    let world = Setup::on(&nats.url()).start().await;
    for round in 0..3 {
        assert_eq!(world.deliver(completed(&format!("kept-{round}"))).await, 204);
        nats.kill();
        nats.restart().await;
        world.ingress.ready().await;
    }
    assert_eq!(world.events.result_ids().await, ["kept-0", "kept-1", "kept-2"]);
}

#[tokio::test]
async fn a_stream_that_is_80_percent_full_is_warned_of_and_stays_ready() {
    let nats = NatsServer::start().await;
    let world = Setup::on(&nats.url())
        .set("STREAM_MAX_BYTES", "65536")
        .start()
        .await;
    let warns = |ready: String| ready.contains("warning: stream: 8");
    let mut taken = 0;
    while world.events.bytes().await < 65536 * 8 / 10 {
        assert!(!warns(world.ingress.readiness()), "after {taken}");
        assert_eq!(world.deliver(completed(&format!("room-{taken}"))).await, 204);
        taken += 1;
    }
    eventually("it warns", SOON, async || warns(world.ingress.readiness())).await;
    assert!(world.ingress.readiness().starts_with("HTTP/1.1 200 "));
    let ratio = world.ingress.metric("ingress_stream_used_ratio");
    assert!((0.8..0.9).contains(&ratio), "{ratio}");
    assert_eq!(world.deliver(completed("still")).await, 204);
    // Raised first, then logged; a later look that says it again would be a second line.
    eventually("it is logged once", SOON, async || {
        let log = world.ingress.log();
        let said = log.iter().filter(|line| line.contains("% of its room is taken"));
        if said.count() == 1 { Ok(()) } else { Err(log) }
    })
    .await;
}

#[tokio::test]
async fn a_full_stream_is_503_and_unready_and_nothing_old_is_dropped() {
    let nats = NatsServer::start().await;
    let world = Setup::on(&nats.url())
        .set("STREAM_MAX_BYTES", "65536")
        .start()
        .await;
    let mut taken = 0;
    let answer = loop {
        let answer = world
            .post(&Post::signed(completed(&format!("full-{taken}"))))
            .await;
        if answer.status != 204 {
            break answer;
        }
        taken += 1;
    };
    assert_eq!((answer.status, answer.problem()), (503, "unavailable".to_owned()));
    assert_eq!(world.events.count().await, taken);
    eventually("it is unready", SOON, async || world.ingress.unready().is_some()).await;
    assert!(world.ingress.is_live());
}
