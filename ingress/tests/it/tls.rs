//! TLS on the public port.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::client::{Client, Post, completed};
use crate::world::Setup;

const CERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/cert.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/key.pem");

#[tokio::test]
async fn with_a_certificate_deliveries_come_over_tls_and_refusals_are_readable_too() {
    let world = Setup::shared()
        .await
        .set("TLS_CERT", CERT)
        .set("TLS_KEY", KEY)
        .start()
        .await;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(CERT).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let connect = async || {
        let socket = TcpStream::connect(world.ingress.listen).await.unwrap();
        Client::over(
            connector
                .connect(ServerName::try_from("localhost").unwrap(), socket)
                .await
                .unwrap(),
        )
    };
    let mut client = connect().await;
    assert_eq!(
        client.post(&Post::signed(completed("over tls"))).await.status,
        204
    );
    assert_eq!(client.post(&Post::forged("{}")).await.status, 400);
    let mut refused = connect().await;
    refused.send(&Post::forged("").head_declaring(20 << 20)).await;
    refused.send(&vec![b'x'; 20 << 20]).await;
    assert_eq!(refused.answer().await.status, 413);
    refused.closed().await;
    // What speaks no TLS is let go, and harms nobody.
    let mut plain = world.client().await;
    plain.send(&Post::signed(completed("in the clear")).bytes()).await;
    plain.gone().await;
    assert_eq!(
        client
            .post(&Post::signed(completed("over tls again")))
            .await
            .status,
        204
    );
    assert_eq!(world.events.result_ids().await, ["over tls", "over tls again"]);
}
