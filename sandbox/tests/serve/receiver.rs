//! A receiver that verifies deliveries as it should.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use sandbox::clock::Clock;
use sandbox::provider::own_scheme;
use schemas::signature::{KeyEncoding, SigningKey, Verifier};
use serde_json::Value;
use tokio::net::TcpListener;

/// What it got and verified.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    verifier: Arc<Mutex<Option<Verifier>>>,
    verified: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    /// Refuses everything until it knows a secret.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Self {
            address: listener.local_addr().unwrap(),
            verifier: Arc::default(),
            verified: Arc::default(),
        };
        let app = Router::new().fallback(receive).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        receiver
    }

    pub(crate) fn trust(&self, secret: &str) {
        let key = SigningKey::new(secret, KeyEncoding::Literal).unwrap();
        let verifier = Verifier::new(own_scheme(), vec![key], 300).unwrap();
        *self.verifier.lock().unwrap() = Some(verifier);
    }

    pub(crate) fn verified(&self) -> Vec<Value> {
        self.verified.lock().unwrap().clone()
    }
}

async fn receive(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let verifier = receiver.verifier.lock().unwrap();
    let now = Clock::system().now().unix_timestamp();
    let verified = verifier.as_ref().is_some_and(|verifier| {
        verifier
            .read_claim(&headers, now)
            .and_then(|claim| verifier.verify(&claim, body.clone()))
            .is_ok()
    });
    if !verified {
        return StatusCode::BAD_REQUEST;
    }
    let body = serde_json::from_slice(&body).unwrap();
    receiver.verified.lock().unwrap().push(body);
    StatusCode::NO_CONTENT
}
