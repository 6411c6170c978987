//! The receiver: one committed insert a delivery.

use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::routing::post;
use deadpool_postgres::Pool;
use schemas::signature::{KeyEncoding, Scheme, SigningKey, Verifier};
use serde::Deserialize;
use time::OffsetDateTime;
use tokio::net::TcpListener;

use crate::jsonb::Jsonb;

const TOLERANCE: i64 = 300;
const INSERT: &str =
    "insert into webhook_inbox (task_id, body) values ($1, $2) on conflict (task_id) do nothing";

struct Receiver {
    pool: Pool,
    verifier: Verifier,
}

/// What the receiver must know of a body; the rest is for the worker.
#[derive(Deserialize)]
struct Delivery {
    #[serde(default)]
    test: bool,
    task: Option<Task>,
}

#[derive(Deserialize)]
struct Task {
    id: String,
}

/// Serves until the process is stopped.
pub(crate) async fn serve(pool: Pool, secret: &str, listen: &str) -> Result<()> {
    let scheme = Scheme::StripeList {
        header: HeaderName::from_static("webhook-signature"),
    };
    let key = SigningKey::new(secret, KeyEncoding::Literal)?;
    let verifier = Verifier::new(scheme, vec![key], TOLERANCE)?;
    let app = Router::new()
        .route("/hooks/answers", post(receive))
        .with_state(Arc::new(Receiver { pool, verifier }));
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("listening on {listen}"))?;
    axum::serve(listener, app).await.context("serving")
}

async fn receive(State(receiver): State<Arc<Receiver>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let Some(verified) = verified(&receiver.verifier, &headers, body) else {
        return StatusCode::BAD_REQUEST;
    };
    match store(&receiver.pool, &verified).await {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(error) => {
            eprintln!("inbox: {error:#}");
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the receiver is the edge, where the time of a request is taken"
)]
fn verified(verifier: &Verifier, headers: &HeaderMap, body: Bytes) -> Option<Bytes> {
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let claim = verifier.read_claim(headers, now).ok()?;
    let verified = verifier.verify(&claim, body).ok()?;
    Some(verified.into_body())
}

async fn store(pool: &Pool, body: &[u8]) -> Result<()> {
    let delivery: Delivery = serde_json::from_slice(body)?;
    if delivery.test {
        return Ok(());
    }
    let task = delivery
        .task
        .ok_or_else(|| anyhow!("a delivery without a task"))?;
    let client = pool.get().await?;
    let insert = client.prepare_cached(INSERT).await?;
    client.execute(&insert, &[&task.id, &Jsonb(body)]).await?;
    Ok(())
}
