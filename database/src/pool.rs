//! The way to Postgres: a pool, and transactions that stand on their own.
//!
//! No session state is relied on and none is left behind: what a transaction needs it sets for itself (`set local`), and
//! no statement is prepared under a name. So it works the same through a pooler that gives every transaction another session.
//!
//! Every transaction has a deadline on this side, because a link can go mute without closing; and limits on the
//! server's side, so that a session whose client is gone gives its locks back.

use std::fmt;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use tokio_postgres::{Client, Config, SimpleQueryMessage};

use crate::{Connector, DatabaseError};

/// Time limits of a transaction.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long one statement may take, and how long the server waits for the next one.
    pub statement: Duration,
    /// How long getting a connection may take.
    pub connect: Duration,
}

impl Limits {
    /// How long a transaction may take as a whole, on this side: the server's own limits come first where the
    /// link works.
    pub fn transaction(&self) -> Duration {
        self.statement + self.statement / 2 + Duration::from_secs(1)
    }
}

/// One life of one database: as long as it is the same, no commit was lost.
///
/// A database that went back in time (restored from a backup, failed over to a standby that lagged, recovered
/// without its last commits) was started anew, or is another database, or has its tables from another creation.
/// A restart alone also makes another life, which must do no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life(String);

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A pool of connections to one database. Clones share it.
#[derive(Debug, Clone)]
pub struct Database {
    pool: Pool,
    limits: Limits,
    begin: Begin,
}

/// What a transaction may do.
#[derive(Debug, Clone, Copy)]
enum Access {
    Read,
    Write,
}

/// What opens a transaction.
#[derive(Debug, Clone)]
struct Begin {
    writing: String,
    reading: String,
}

impl Database {
    /// A pool of at most `size` connections. Connects when they are needed; the server knows them as `application`
    /// unless the URL names them otherwise.
    pub fn new(
        mut config: Config,
        connector: Connector,
        application: &str,
        size: usize,
        limits: Limits,
    ) -> Self {
        config
            .connect_timeout(limits.connect)
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3)
            .tcp_user_timeout(limits.transaction());
        if config.get_application_name().is_none() {
            config.application_name(application);
        }
        let manager = Manager::from_connect(
            config,
            connector,
            ManagerConfig {
                recycling_method: RecyclingMethod::Fast,
            },
        );
        let pool = Pool::builder(manager)
            .max_size(size)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(limits.transaction()))
            .create_timeout(Some(limits.connect))
            .build()
            .expect("a runtime is given, which is all that the timeouts need");
        Self {
            pool,
            limits,
            begin: Begin::new(limits.statement),
        }
    }

    /// Runs `work` in a transaction of its own and commits it.
    ///
    /// When the deadline passes, or the connection fails, the connection is given up: whether the commit happened
    /// is then unknown, and everything here can be done twice.
    ///
    /// # Errors
    /// Whatever went wrong first; nothing is committed then, except as said above.
    pub async fn transaction<T, E: From<DatabaseError>>(
        &self,
        work: impl AsyncFnOnce(&Client, &Life) -> Result<T, E>,
    ) -> Result<T, E> {
        self.within(Access::Write, work).await
    }

    /// Runs `work` in a transaction that writes nothing, and in which every statement sees the tables as they are at one
    /// moment. A standby answers it as well.
    ///
    /// # Errors
    /// Whatever went wrong first.
    pub async fn snapshot<T, E: From<DatabaseError>>(
        &self,
        work: impl AsyncFnOnce(&Client) -> Result<T, E>,
    ) -> Result<T, E> {
        self.within(Access::Read, async |client, _| work(client).await)
            .await
    }

    async fn within<T, E: From<DatabaseError>>(
        &self,
        access: Access,
        work: impl AsyncFnOnce(&Client, &Life) -> Result<T, E>,
    ) -> Result<T, E> {
        let session = self.pool.get().await.map_err(DatabaseError::connecting)?;
        let session = Session {
            object: Some(session),
        };
        let all = async {
            let client = session.client();
            let life = self.begin(client, access).await?;
            match work(client, &life).await {
                Ok(value) => {
                    client
                        .batch_execute("commit")
                        .await
                        .map_err(DatabaseError::of("committing"))?;
                    Ok(value)
                }
                Err(error) => Err(match client.batch_execute("rollback").await {
                    Ok(()) => Ended::RolledBack(error),
                    // The first error tells more than this one.
                    Err(_) => Ended::Broken(error),
                }),
            }
        };
        let ended = tokio::time::timeout(self.limits.transaction(), all).await;
        match ended {
            Ok(Ok(value)) => {
                session.keep();
                Ok(value)
            }
            Ok(Err(Ended::RolledBack(error))) => {
                session.keep();
                Err(error)
            }
            Ok(Err(Ended::Broken(error))) => Err(error),
            Err(_) => Err(DatabaseError::Deadline(self.limits.transaction()).into()),
        }
    }

    async fn begin(&self, client: &Client, access: Access) -> Result<Life, DatabaseError> {
        match access {
            Access::Read => Ok(open(client, &self.begin.reading).await?.0),
            Access::Write => match open(client, &self.begin.writing).await? {
                (_, true) => Err(DatabaseError::ReadOnly),
                (life, false) => Ok(life),
            },
        }
    }

    /// How long a transaction may take at most.
    pub fn deadline(&self) -> Duration {
        self.limits.transaction()
    }
}

impl Begin {
    /// Opens a transaction with its limits and asks which life of the database it is in, in one round trip.
    ///
    /// An acknowledgment to the broker must mean that the commit survives a crash, so a commit that does not wait for
    /// the disk is not accepted, whatever the server's default is; waiting for more than that is. A server that is read-only, by
    /// its settings or as a standby, is left so: somebody has a reason for it, and a nearly full disk is a common one.
    fn new(statement: Duration) -> Self {
        let limit = statement.as_millis();
        let limits = format!(
            "set local statement_timeout = {limit}; \
             set local idle_in_transaction_session_timeout = {limit}"
        );
        let durable = "select set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') = 'off'";
        let life = "select format('%s.%s.%s', extract(epoch from pg_postmaster_start_time()), \
                    (select oid from pg_database where datname = current_database()), \
                    to_regclass('projection')::oid) as life, \
                    current_setting('transaction_read_only') as read_only";
        Self {
            writing: format!("begin isolation level read committed; {limits}; {durable}; {life}"),
            reading: format!("begin isolation level repeatable read read only; {limits}; {life}"),
        }
    }
}

/// Opens a transaction on the session, and says whether nothing can be written in it.
async fn open(client: &Client, begin: &str) -> Result<(Life, bool), DatabaseError> {
    let answers = client
        .simple_query(begin)
        .await
        .map_err(DatabaseError::of("beginning a transaction"))?;
    let last = answers.iter().rev().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => Some((row.get("life")?, row.get("read_only")?)),
        _ => None,
    });
    let (life, read_only) = last.ok_or(DatabaseError::Unexpected(
        "no answer to the first query of a transaction",
    ))?;
    Ok((Life(life.to_owned()), read_only == "on"))
}

enum Ended<E> {
    RolledBack(E),
    Broken(E),
}

impl<E: From<DatabaseError>> From<DatabaseError> for Ended<E> {
    fn from(error: DatabaseError) -> Self {
        Self::Broken(error.into())
    }
}

/// A connection that goes back to the pool only when nothing is left open on it.
struct Session {
    object: Option<Object>,
}

impl Session {
    fn client(&self) -> &Client {
        self.object.as_ref().expect("taken only when dropped")
    }

    fn keep(mut self) {
        drop(self.object.take());
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
        }
    }
}
