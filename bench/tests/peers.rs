//! The peers do what they are compared for: they store what they acknowledge.

#![cfg(test)] // for clippy: what is allowed in tests is allowed in their helpers too

use std::sync::Arc;
use std::time::Duration;

use bench::load::{Batch, Closed, Mint, Size};
use bench::stack::{Broker, Durability, FLASK_THREADS, INBOX_CONNECTIONS, Installed, Receiver, postgres};
use sandbox::clock::Clock;
use sandbox::provider::secrets::Secret;
use sandbox::seed::Seed;

/// Sends a few deliveries over several connections, and all of them once more.
async fn delivers(mut receiver: Receiver, secret: Secret) {
    let mut mint = Mint::new(Seed(3), secret, Clock::system());
    let batch = Arc::new(Batch::once(mint.deliveries(Size::Usual, 40)));
    let all = Closed {
        connections: 4,
        lead: Duration::ZERO,
        window: Duration::from_secs(60),
    };
    for new in [true, false] {
        let measured = receiver.closed(&batch, all, new).await.unwrap();
        assert_eq!((measured.outcome.sent, measured.outcome.refused()), (40, 0));
        receiver.check().await.unwrap();
    }
}

fn installed() -> Installed {
    Installed::find(&Installed::own_directory().unwrap()).unwrap()
}

#[tokio::test]
async fn the_receiver_in_python_stores_what_it_acknowledges() {
    let (postgres, secret) = (postgres().await.unwrap(), Secret::generate(Seed(3), 0));
    let flask = Receiver::flask(&installed(), &secret, &postgres, FLASK_THREADS)
        .await
        .unwrap();
    delivers(flask, secret).await;
}

#[tokio::test]
async fn the_inbox_in_rust_stores_what_it_acknowledges() {
    let (postgres, secret) = (postgres().await.unwrap(), Secret::generate(Seed(3), 0));
    let inbox = Receiver::inbox(&installed(), &secret, &postgres, INBOX_CONNECTIONS)
        .await
        .unwrap();
    delivers(inbox, secret).await;
}

#[tokio::test]
async fn ingress_stores_what_it_acknowledges_on_three_brokers() {
    let (brokers, secret) = (
        Broker::three(Durability::PageCache).await.unwrap(),
        Secret::generate(Seed(3), 0),
    );
    let ingress = Receiver::ingress(&installed(), &secret, brokers, None)
        .await
        .unwrap();
    delivers(ingress, secret).await;
}
