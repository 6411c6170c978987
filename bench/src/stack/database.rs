//! The database server, the same for everybody.

use anyhow::{Context as _, Result};
use sandbox::servers::{Database, Postgres, PostgresOptions};
use tokio_postgres::Client;

/// Commits are synced. The rest is what anybody sets first: memory, and room for the log between two checkpoints.
const SETTINGS: &str = "shared_buffers = 512MB\nmax_wal_size = 4GB\n";
/// The schema that the tables of the peers are in, in a database of their own: ours have some of the same names.
const PEER: &str = "peer";
const TABLES: &str = include_str!("../../peers/schema.sql");

/// A database server.
///
/// # Errors
/// When it does not start.
pub async fn postgres() -> Result<Postgres> {
    let options = PostgresOptions {
        durable: true,
        extra: SETTINGS.to_owned(),
        ..PostgresOptions::default()
    };
    Ok(Postgres::start_with(options).await?)
}

/// Its processes.
pub fn database_processes(postgres: &Postgres) -> Vec<u32> {
    postgres.pid().into_iter().collect()
}

/// Makes the tables of the peers in `database`, and gives the URL with which they are found.
///
/// # Errors
/// When the database does not make them.
pub async fn peer_url(database: &Database) -> Result<String> {
    let tables = format!("create schema {PEER}; set search_path to {PEER}; {TABLES}");
    let session = database.connect().await;
    session
        .batch_execute(&tables)
        .await
        .context("making the tables of the peers")?;
    Ok(format!("{}?options=-csearch_path%3D{PEER}", database.url()))
}

/// A session with a database that was given by its URL.
///
/// # Errors
/// When there is none.
pub async fn session(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
        .await
        .with_context(|| format!("connecting to {url}"))?;
    // The error, if any, reaches the client too.
    tokio::spawn(async { connection.await.unwrap_or_default() });
    Ok(client)
}

/// Where the write-ahead log ends, in bytes.
///
/// # Errors
/// When the database does not say.
pub async fn wal(session: &Client) -> Result<i64> {
    let query = "select (pg_current_wal_lsn() - '0/0')::bigint";
    let row = session
        .query_one(query, &[])
        .await
        .context("asking for the end of the log")?;
    Ok(row.try_get(0)?)
}
