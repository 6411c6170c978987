//! Callers that hang up, and callers that say the same thing again.

use sandbox::eventually;
use sandbox::servers::NatsServer;
use tokio::task::JoinSet;

use crate::client::{Client, Post, completed};
use crate::process::SOON;
use crate::world::{Setup, World};

async fn reset_after_the_last_byte(world: &World, ids: std::ops::Range<u32>) {
    let mut resets = JoinSet::new();
    for id in ids {
        let address = world.ingress.listen;
        resets.spawn(async move {
            let mut client = Client::connect(address).await;
            client
                .send(&Post::signed(completed(&format!("reset-{id}"))).bytes())
                .await;
            client.reset();
        });
        if resets.len() == 50 {
            resets.join_next().await.unwrap().unwrap();
        }
    }
    resets.join_all().await;
}

#[tokio::test]
async fn callers_that_reset_leave_no_half_work_and_lose_no_place() {
    let nats = NatsServer::start().await;
    let world = Setup::on(&nats.url()).set("PUBLISH_TIMEOUT", "2s").start().await;
    reset_after_the_last_byte(&world, 0..500).await;
    assert_eq!(world.deliver(completed("beside the resets")).await, 204);
    nats.pause();
    reset_after_the_last_byte(&world, 500..1000).await;
    nats.resume();
    eventually("no place is lost", SOON, async || {
        world.ingress.metric("ingress_in_flight") == 0.0
    })
    .await;
    assert_eq!(world.deliver(completed("after the resets")).await, 204);

    let mut client = world.client().await;
    for id in 0..1000 {
        assert_eq!(
            client
                .post(&Post::signed(completed(&format!("reset-{id}"))))
                .await
                .status,
            204
        );
    }
    assert_eq!(world.events.count().await, 1002);
    eventually("no connection is lost", SOON, async || {
        world.ingress.metric("ingress_connections") <= 1.0
    })
    .await;
}

#[tokio::test]
async fn the_same_delivery_again_is_204_and_changes_nothing() {
    let mut nats = NatsServer::start().await;
    let world = Setup::on(&nats.url()).start().await;
    let body = completed("again");
    let mut at_once = JoinSet::new();
    for _ in 0..50 {
        let (address, post) = (world.ingress.listen, Post::signed(body.clone()));
        at_once.spawn(async move { crate::client::post(address, &post).await.status });
    }
    assert_eq!(at_once.join_all().await, [204; 50]);
    let envelope_changed =
        String::from_utf8(body.clone())
            .unwrap()
            .replacen('{', r#"{"attempt":2,"sent_at":1,"#, 1);
    assert_eq!(world.deliver(envelope_changed.clone()).await, 204);
    nats.kill();
    nats.restart().await;
    world.ingress.ready().await;
    for again in [&body[..], envelope_changed.as_bytes()] {
        eventually("it is taken again", SOON, async || {
            world.deliver(again).await == 204
        })
        .await;
    }
    let stored = world.events.all().await;
    assert_eq!(stored.len(), 1, "{stored:?}");
    let deliveries = |outcome| {
        world.ingress.metric(&format!(
            r#"ingress_deliveries_total{{kind="completed",outcome="{outcome}"}}"#
        ))
    };
    assert_eq!((deliveries("stored"), deliveries("divergent")), (1.0, 0.0));
}

#[tokio::test]
async fn another_result_of_the_same_task_is_kept_beside_the_first() {
    let world = World::start().await;
    let body = String::from_utf8(completed("changed")).unwrap();
    assert_eq!(world.deliver(body.clone()).await, 204);
    let other = body.replace("kettles", "teapots");
    assert_eq!(world.deliver(other.clone()).await, 204);
    assert_eq!(world.deliver(other).await, 204);
    assert_eq!(world.deliver(body).await, 204);
    assert_eq!(world.events.result_ids().await, ["changed", "changed"]);
    assert_eq!(
        world
            .ingress
            .metric(r#"ingress_deliveries_total{kind="completed",outcome="divergent"}"#),
        1.0
    );
}
