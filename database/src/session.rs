//! A session of one's own, for work that a pool of transactions cannot do: holding a lock over many transactions, and
//! tables that only it sees. Both end with the session, however the process ends.

use std::time::Duration;

use deadpool_postgres::Connect;
use thiserror::Error;
use tokio::task::JoinHandle;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config};

use crate::{Connector, DatabaseError, Target};

/// So many other sessions are kept busy while it is looked whether ours stays the same.
const BUSY: usize = 2;

const PID: &str = "select pg_backend_pid()";

/// No time that the server's or the role's defaults limit: some of the statements go through a whole table, and some of the
/// transactions take as long as the stream; the limit for those came with Postgres 17. A server that finds its client gone gives
/// up what it does for it within a second, where its system can tell.
const SETTINGS: &str = "
set statement_timeout = 0; set lock_timeout = 0; set idle_session_timeout = 0; set idle_in_transaction_session_timeout = 0;
set client_min_messages = warning;
do $$ begin
  perform set_config('transaction_timeout', '0', false);
exception when undefined_object then null;
end $$;
do $$ begin
  perform set_config('client_connection_check_interval', '1s', false);
exception when invalid_parameter_value then null;
end $$";

const LOCK: &str = "
select pg_try_advisory_lock($1, coalesce(to_regclass('projection')::oid::int8, 0)::bit(32)::int4)";

/// The same for as long as the statement takes.
const IS_FREE: &str = "
select pg_try_advisory_xact_lock($1, coalesce(to_regclass('projection')::oid::int8, 0)::bit(32)::int4)";

/// One session. Closed when dropped.
#[derive(Debug)]
pub struct Session {
    client: Client,
    pid: i32,
    connection: JoinHandle<()>,
}

/// Why there is no session of one's own.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The database does not do what it should.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A pooler stands before the database.
    #[error(
        "the connection goes through a pooler that gives each transaction another session: this needs one of its own; \
         set DATABASE_URL to the database itself, or to a pool in session mode"
    )]
    Pooler,
}

impl Session {
    /// Connects, and makes sure that what answers is one session and stays so.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn open(target: &Target, application: &str) -> Result<Self, SessionError> {
        let (session, config) = Self::begin(target, application).await?;
        session
            .look_for_pooler(&config, &target.connector, target.connect_timeout)
            .await?;
        session.set_up().await
    }

    /// The same where another session of this target was opened and is one: no pooler is looked for.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub async fn open_another(target: &Target, application: &str) -> Result<Self, SessionError> {
        let (session, _) = Self::begin(target, application).await?;
        session.set_up().await
    }

    async fn begin(target: &Target, application: &str) -> Result<(Self, Config), DatabaseError> {
        let mut config = target.config.clone();
        config
            .connect_timeout(target.connect_timeout)
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3);
        if config.get_application_name().is_none() {
            config.application_name(application);
        }
        let (client, connection) = connect(&config, &target.connector, target.connect_timeout).await?;
        let pid = pid(&client).await?;
        let session = Self {
            client,
            pid,
            connection,
        };
        Ok((session, config))
    }

    async fn set_up(self) -> Result<Self, SessionError> {
        let set = self.client.batch_execute(SETTINGS).await;
        set.map_err(DatabaseError::of("setting up a session"))?;
        Ok(self)
    }

    /// The session.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Takes a lock of this session, one for each kind of work and each set of our tables; false when somebody has it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn try_lock(&self, work: i32) -> Result<bool, DatabaseError> {
        self.ask(LOCK, work).await
    }

    /// Whether no other session has this lock now. Not within a transaction, which would take it to its end.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn is_free(&self, work: i32) -> Result<bool, DatabaseError> {
        self.ask(IS_FREE, work).await
    }

    async fn ask(&self, statement: &str, work: i32) -> Result<bool, DatabaseError> {
        let attempt = "taking a lock of the session";
        let row = self
            .client
            .query_typed_one(statement, &[(&work, Type::INT4)])
            .await
            .map_err(DatabaseError::of(attempt))?;
        row.try_get(0).map_err(DatabaseError::of(attempt))
    }

    /// Makes sure that this is the session that was opened. Within a transaction it holds to its end.
    ///
    /// # Errors
    /// When it is not, or the database fails.
    pub async fn is_the_same(&self) -> Result<(), SessionError> {
        if pid(&self.client).await? == self.pid {
            Ok(())
        } else {
            Err(SessionError::Pooler)
        }
    }

    /// A pooler hands out the session that came back last, or the one that waited longest. So others are kept busy with
    /// transactions: behind a pooler one of them gets ours, or we get another one afterwards.
    async fn look_for_pooler(
        &self,
        config: &Config,
        connector: &Connector,
        limit: Duration,
    ) -> Result<(), SessionError> {
        let mut busy = Vec::with_capacity(BUSY);
        for _ in 0..BUSY {
            let (other, connection) = connect(config, connector, limit).await?;
            let begun = other.batch_execute("begin").await;
            begun.map_err(DatabaseError::of("looking for a pooler"))?;
            if pid(&other).await? == self.pid {
                return Err(SessionError::Pooler);
            }
            busy.push((other, connection));
            // A pool that is too small for all of them lets us wait.
            match tokio::time::timeout(limit, self.is_the_same()).await {
                Ok(same) => same?,
                Err(_) => return Err(SessionError::Pooler),
            }
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Without this the client would end a statement under way before it closes.
        self.connection.abort();
    }
}

async fn connect(
    config: &Config,
    connector: &Connector,
    limit: Duration,
) -> Result<(Client, JoinHandle<()>), DatabaseError> {
    match tokio::time::timeout(limit, connector.connect(config)).await {
        Ok(Ok(connected)) => Ok(connected),
        Ok(Err(error)) => Err(DatabaseError::of("connecting to the database")(error)),
        Err(_) => Err(DatabaseError::Deadline(limit)),
    }
}

async fn pid(client: &Client) -> Result<i32, DatabaseError> {
    let attempt = "asking which session this is";
    let row = client
        .query_typed_one(PID, &[])
        .await
        .map_err(DatabaseError::of(attempt))?;
    row.try_get(0).map_err(DatabaseError::of(attempt))
}
