//! The way to the provider: TLS, and proxies.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::world::World;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../projector/tests/fixtures/tls"
    ))
    .join(name)
}

/// Where `target` is to be had with TLS, made out to 127.0.0.1.
async fn with_tls(target: SocketAddr) -> u16 {
    let chain = CertificateDer::pem_file_iter(fixture("server.pem")).unwrap();
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that does not trust us ends the handshake.
                if let Ok(mut inside) = acceptor.accept(socket).await {
                    let mut outside = TcpStream::connect(target).await.unwrap();
                    let _ = copy_bidirectional(&mut inside, &mut outside).await;
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn a_provider_whose_certificate_is_trusted_is_asked_and_no_other() {
    let world = World::new().await;
    let _projector = world.project();
    let port = with_tls(world.api.address()).await;
    let task = world.finished();
    world.submit(&task).await;
    let builder = world
        .reconciler()
        .set("PROVIDER_URL", format!("https://127.0.0.1:{port}/"));
    for builder in [
        builder.clone(),
        builder
            .clone()
            .set("PROVIDER_CA", fixture("stranger.pem").display()),
    ] {
        let reconciler = builder.start();
        reconciler.unready("invalid peer certificate").await;
        reconciler.stop().await;
        assert_eq!(world.api.calls().len(), 0);
    }
    let trusting = builder.set("PROVIDER_CA", fixture("authority.pem").display());
    let _reconciler = trusting.start_ready().await;
    world.becomes(&task, "SETTLED").await;
}

#[tokio::test]
async fn authorities_that_cannot_be_read_are_named_at_the_start() {
    let world = World::new().await;
    let builder = world.reconciler().set("PROVIDER_CA", "/nowhere/ca.pem");
    let output = builder.output(&["run"]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("/nowhere/ca.pem"), "{output:?}");
}

/// A proxy gets the whole URL of what is asked for, which the API takes as well.
#[tokio::test]
async fn only_a_proxy_that_is_named_for_it_is_used() {
    let world = World::new().await;
    let nowhere = "http://127.0.0.1:9";
    let builder = world
        .reconciler()
        .set("HTTP_PROXY", nowhere)
        .set("http_proxy", nowhere)
        .set("ALL_PROXY", nowhere);
    builder.start_ready().await.stop().await;
    let through = builder
        .set("PROVIDER_URL", "http://127.0.0.1:9")
        .set("PROVIDER_PROXY", world.api.url());
    through.start_ready().await.stop().await;
    assert!(world.api.calls().len() >= 2);
}
