//! Connecting.

use sandbox::servers::NatsServer;

use crate::world::connect;

/// What is done first may ask for it.
#[tokio::test]
async fn a_connection_is_known_to_be_one_as_soon_as_it_is_made() {
    let nats = NatsServer::start().await;
    for _ in 0..20 {
        let connection = connect(&nats.url()).await;
        assert!(connection.is_connected());
        assert_eq!(connection.connects(), 1);
    }
}
