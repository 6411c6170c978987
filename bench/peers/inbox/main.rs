//! The inbox pattern in Rust: verify, insert, commit, answer 204; and a worker that makes answers of what is in the inbox.
//!
//! What a good engineer would write in an afternoon in place of a log, and so the rival that counts. Where it had a choice it
//! took the faster one. Its settings are the environment variables DATABASE_URL, POOL_SIZE, WEBHOOK_SECRET and LISTEN.

mod jsonb;
mod receive;
mod work;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use deadpool_postgres::{Config, ManagerConfig, Pool, PoolConfig, RecyclingMethod, Runtime};
use tokio_postgres::NoTls;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("inbox: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the command line and the environment enter here"
)]
async fn run() -> Result<()> {
    let setting = |name: &'static str| std::env::var(name).with_context(|| format!("reading {name}"));
    let pool = pool(&setting("DATABASE_URL")?, setting("POOL_SIZE")?.parse()?)?;
    match std::env::args().nth(1).as_deref() {
        Some("receive") => receive::serve(pool, &setting("WEBHOOK_SECRET")?, &setting("LISTEN")?).await,
        Some("drain") => work::drain(&pool).await,
        other => bail!("`receive` or `drain` was expected, not {other:?}"),
    }
}

fn pool(url: &str, size: usize) -> Result<Pool> {
    let config = Config {
        url: Some(url.to_owned()),
        pool: Some(PoolConfig::new(size)),
        manager: Some(ManagerConfig {
            // Asks nothing of the database before a connection is used again.
            recycling_method: RecyclingMethod::Fast,
        }),
        ..Config::default()
    };
    config
        .create_pool(Some(Runtime::Tokio1), NoTls)
        .context("making the pool of connections")
}
