//! A database for one test alone.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use tokio_postgres::{Client, NoTls};

use super::{Link, ServerError, postgres::USER};

/// Holds the schema; every fresh database is a copy of it.
const TEMPLATE: &str = "migrated";

static NEXT: AtomicU32 = AtomicU32::new(1);

/// A database of a test's own. Dropped, whoever is still connected, some time after the value is.
#[derive(Debug)]
pub struct Database {
    server: SocketAddr,
    name: String,
}

impl Database {
    /// With the schema in it.
    pub(super) async fn create(server: SocketAddr) -> Result<Self, ServerError> {
        Self::copy_of(TEMPLATE, server).await
    }

    /// With nothing in it.
    pub(super) async fn create_empty(server: SocketAddr) -> Result<Self, ServerError> {
        Self::copy_of("template0", server).await
    }

    async fn copy_of(template: &str, server: SocketAddr) -> Result<Self, ServerError> {
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        run(server, &format!("create database {name} template {template}")).await?;
        Ok(Self { server, name })
    }

    /// Its name on the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URL for tokio-postgres and psql.
    pub fn url(&self) -> String {
        url(self.server, &self.name)
    }

    /// The URL of the same database through `link`, which must lead to its server.
    pub fn url_via(&self, link: &Link) -> String {
        url(link.addr(), &self.name)
    }

    /// A new session. It ends when the client is dropped.
    ///
    /// # Panics
    /// When the server does not give one.
    pub async fn connect(&self) -> Client {
        let url = self.url();
        let (client, connection) = tokio_postgres::connect(&url, NoTls)
            .await
            .unwrap_or_else(|e| panic!("connecting to {url}: {e}"));
        // The error, if any, reaches the client too.
        tokio::spawn(async { connection.await.unwrap_or_default() });
        client
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, statement) = (
            self.server,
            format!("drop database if exists {} with (force)", self.name),
        );
        // On a thread and a runtime of its own: this one may be ending. The server may be gone already, and then so is the database.
        let dropping = thread::Builder::new().spawn(move || {
            if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
                let _ = runtime.block_on(run(server, &statement));
            }
        });
        drop(dropping);
    }
}

/// Makes the database that all fresh ones are copied from.
pub(super) async fn create_template(server: SocketAddr) -> Result<(), ServerError> {
    // A test that was cancelled in here left one half made.
    run(server, &format!("drop database if exists {TEMPLATE}")).await?;
    run(server, &format!("create database {TEMPLATE}")).await?;
    // The migrations run on the blocking client, which must not meet the threads of the runtime.
    let migrating = tokio::task::spawn_blocking(move || {
        let mut client = postgres::Client::connect(&url(server, TEMPLATE), NoTls).map_err(|source| {
            ServerError::Database {
                attempt: format!("connecting to {TEMPLATE}"),
                source,
            }
        })?;
        schemas::migrate::migrate(&mut client)?;
        Ok(())
    });
    migrating
        .await
        .expect("migrating gives errors, it does not panic")
}

pub(super) fn url(server: SocketAddr, database: &str) -> String {
    format!("postgres://{USER}@{server}/{database}")
}

/// Runs `body` with a session that ends with it.
pub(super) async fn with_client<T>(
    url: &str,
    body: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
) -> Result<T, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let work = async move { body(&client).await }; // drops the client, which ends the connection
    tokio::join!(work, connection).0
}

async fn run(server: SocketAddr, statement: &str) -> Result<(), ServerError> {
    with_client(&url(server, "postgres"), async |client| {
        client.batch_execute(statement).await
    })
    .await
    .map_err(|source| ServerError::Database {
        attempt: statement.to_owned(),
        source,
    })
}
