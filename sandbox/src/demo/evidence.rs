//! Reading what is on the stream and in the tables. Straight from the servers, past the programs that are judged.

use async_nats::jetstream::{
    self,
    consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull},
    stream::Stream,
};
use futures_util::{StreamExt, TryStreamExt, pin_mut};
use serde_json::Value;
use tokio_postgres::{Client, NoTls};

use super::DemoError;
use super::audit::{Audit, Event, Row};

const STREAM: &str = "ANSWERS";
const CONSUMER: &str = "projector";

/// Messages to a fetch, and how long a fetch may wait for them.
const FETCH: usize = 500;
const FETCH_TIME: std::time::Duration = std::time::Duration::from_secs(10);

/// Counts updates of rows. The programs know nothing of it; it lies in a schema of its own.
const NOTE_UPDATES: &str = r#"
create schema demo;
create table demo.updates (task_id text collate "C" not null);
create function demo.note() returns trigger language plpgsql as
  $$ begin insert into demo.updates values (new.task_id); return null; end $$;
create trigger demo_note after update on answers for each row execute function demo.note();
"#;

const COUNTS: &str = "
select (select count(*) from answers) as rows,
       (select count(*) from submitted_tasks where state <> 'SETTLED') as unsettled";

const ROWS: &str = "
select task_id, job_key, idempotency_key, status, created_at, response, via, stream_seq, received_at,
       (select count(*) from demo.updates where updates.task_id = answers.task_id) as updates
  from answers";

/// How far the projection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// Rows of `answers`.
    pub(super) rows: u64,
    /// Events that no projector has acknowledged yet.
    pub(super) outstanding: u64,
    /// Submissions whose answer the reconciler has not seen yet.
    pub(super) unsettled: u64,
}

/// Connections to the servers.
pub(super) struct Evidence {
    stream: Stream,
    database: Client,
}

impl Evidence {
    /// Connects, and has updates of rows counted from now on.
    pub(super) async fn open(nats: &str, database: &str) -> Result<Self, DemoError> {
        let client = async_nats::connect(nats)
            .await
            .map_err(DemoError::broker("connecting to the broker"))?;
        let stream = jetstream::new(client)
            .get_stream(STREAM)
            .await
            .map_err(DemoError::broker("looking for the stream"))?;
        let database = connect(database).await?;
        database
            .batch_execute(NOTE_UPDATES)
            .await
            .map_err(DemoError::database("having updates noted"))?;
        Ok(Self { stream, database })
    }

    /// How far the projection is now.
    pub(super) async fn progress(&self) -> Result<Progress, DemoError> {
        let counts = self
            .database
            .query_one(COUNTS, &[])
            .await
            .map_err(DemoError::database("counting rows"))?;
        let count = |column| u64::try_from(counts.get::<_, i64>(column)).unwrap_or_default();
        let consumer: PullConsumer = self
            .stream
            .get_consumer(CONSUMER)
            .await
            .map_err(|e| DemoError::broker("looking for the projector's consumer")(e))?;
        let info = consumer.cached_info();
        Ok(Progress {
            rows: count("rows"),
            outstanding: info.num_pending + u64::try_from(info.num_ack_pending).unwrap_or(u64::MAX),
            unsettled: count("unsettled"),
        })
    }

    /// Makes every submission due that has no answer: its first check is an hour away, and the demo does not wait for that.
    pub(super) async fn let_the_hour_pass(&self) -> Result<(), DemoError> {
        self.database
            .batch_execute("update submitted_tasks set next_check_at = now() where state = 'OPEN'")
            .await
            .map_err(DemoError::database("letting the hour pass"))
    }

    /// Gives every event of the stream, and every row, to the audit.
    pub(super) async fn read_into(&self, audit: &mut Audit<'_>) -> Result<(), DemoError> {
        self.read_stream(audit).await?;
        self.read_tables(audit).await
    }

    async fn read_stream(&self, audit: &mut Audit<'_>) -> Result<(), DemoError> {
        let info = self
            .stream
            .get_info()
            .await
            .map_err(DemoError::broker("asking for the stream's state"))?;
        let settings = pull::Config {
            deliver_policy: DeliverPolicy::All,
            ack_policy: AckPolicy::None,
            ..pull::Config::default()
        };
        let consumer = self
            .stream
            .create_consumer(settings)
            .await
            .map_err(DemoError::broker("creating a consumer to read with"))?;
        let mut left = info.state.messages;
        while left > 0 {
            let wanted = FETCH.min(usize::try_from(left).unwrap_or(FETCH));
            let mut batch = consumer
                .batch()
                .max_messages(wanted)
                .expires(FETCH_TIME)
                .messages()
                .await
                .map_err(DemoError::broker("reading the stream"))?;
            let before = left;
            while let Some(message) = batch.next().await {
                let message = message.map_err(|e| DemoError::Broker {
                    attempt: "reading the stream",
                    source: e,
                })?;
                let info = message.info().map_err(|e| DemoError::Broker {
                    attempt: "reading the stream",
                    source: e,
                })?;
                audit.event(&Event {
                    seq: info.stream_sequence,
                    time: info.published,
                    subject: message.subject.to_string(),
                    body: serde_json::from_slice(&message.payload).unwrap_or(Value::Null),
                });
                left -= 1;
            }
            if left == before {
                return Err(DemoError::ShortStream { left });
            }
        }
        Ok(())
    }

    async fn read_tables(&self, audit: &mut Audit<'_>) -> Result<(), DemoError> {
        let failed = DemoError::database("reading the tables");
        let nothing: [&(dyn tokio_postgres::types::ToSql + Sync); 0] = [];
        let rows = self.database.query_raw(ROWS, nothing).await.map_err(&failed)?;
        pin_mut!(rows);
        while let Some(row) = rows.try_next().await.map_err(&failed)? {
            audit.row(Row {
                task_id: row.get("task_id"),
                job_key: row.get("job_key"),
                idempotency_key: row.get("idempotency_key"),
                status: row.get("status"),
                created_at: row.get("created_at"),
                response: row.get("response"),
                via: row.get("via"),
                stream_seq: row.get("stream_seq"),
                received_at: row.get("received_at"),
                updates: row.get("updates"),
            });
        }
        for row in self
            .database
            .query("select job_key, task_id from winners", &[])
            .await
            .map_err(&failed)?
        {
            audit.winner(row.get("job_key"), row.get("task_id"));
        }
        let parked = self
            .database
            .query_one("select count(*) from parked", &[])
            .await
            .map_err(&failed)?;
        audit.parked(usize::try_from(parked.get::<_, i64>(0)).unwrap_or(usize::MAX));
        Ok(())
    }
}

/// Creates the database `answers` on the server whose maintenance database `url` names, and gives its URL.
pub(super) async fn create_database(url: &str) -> Result<String, DemoError> {
    let server = connect(url).await?;
    server
        .batch_execute("create database answers")
        .await
        .map_err(DemoError::database("creating a database"))?;
    let (server, _) = url
        .rsplit_once('/')
        .expect("the URL of a private server ends in a database");
    Ok(format!("{server}/answers"))
}

async fn connect(url: &str) -> Result<Client, DemoError> {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .map_err(DemoError::database("connecting to the database"))?;
    // It ends with the client; what went wrong is told by whichever query met it.
    tokio::spawn(async { connection.await.ok() });
    Ok(client)
}

#[cfg(test)]
mod tests;
