//! A stream and a database of one test's own, on servers that the tests share or on its own ones.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use futures_util::future::try_join_all;
use sandbox::eventually;
use sandbox::servers::{Database, NatsOptions, NatsServer, Postgres};
use schemas::event::{Event, Source, Trace, Via, classify};
use stream::connect::Settings;
use stream::{Connection, Declared, StreamSpec};
use tokio::sync::OnceCell;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use crate::answer::Answer;
use crate::projector::{Builder, Projector};

/// How long a fact may take to become true: far more than it does, on a busy machine too.
pub(crate) const SOON: Duration = Duration::from_secs(20);

static NATS: OnceCell<NatsServer> = OnceCell::const_new();
static NEXT: AtomicU32 = AtomicU32::new(1);

/// Where a test's messages and rows are.
pub(crate) struct World {
    pub(crate) nats_url: String,
    pub(crate) database: Database,
    pub(crate) spec: StreamSpec,
    pub(crate) connection: Connection,
    pub(crate) declared: Declared,
    pub(crate) sql: Client,
}

impl World {
    /// On the shared servers, with a stream and a database of its own.
    pub(crate) async fn new() -> Self {
        let postgres = Postgres::shared().await;
        Self::on(shared_nats().await, postgres.fresh_database().await).await
    }

    /// On these servers.
    pub(crate) async fn on(nats: &NatsServer, database: Database) -> Self {
        Self::at(nats.url(), database).await
    }

    async fn at(nats_url: String, database: Database) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let spec = StreamSpec {
            name: format!("TEST{number}"),
            subjects: schemas::event::Subjects::new(&format!("test{number}")).unwrap(),
            max_bytes: 64 << 20,
            ..StreamSpec::default()
        };
        let connection = connect(&nats_url).await;
        let declared = stream::declare::declare(&connection, &spec).await.unwrap();
        let sql = database.connect().await;
        Self {
            nats_url,
            database,
            spec,
            connection,
            declared,
            sql,
        }
    }

    /// The settings of a projector for this world.
    pub(crate) fn projector(&self) -> Builder {
        Builder::new(&self.nats_url, &self.database.url(), &self.spec)
    }

    /// One that runs and is ready.
    pub(crate) async fn start(&self) -> Projector {
        self.projector().start_ready().await
    }

    pub(crate) async fn publish(&self, answer: &Answer) -> u64 {
        self.publish_event(event(answer.body())).await
    }

    pub(crate) async fn publish_body(&self, body: impl Into<Bytes>) -> u64 {
        self.publish_event(event(body.into())).await
    }

    pub(crate) async fn publish_event(&self, event: Event) -> u64 {
        publish(&self.connection, &self.spec, event).await
    }

    /// The same result once more, past the broker's own window: as a redelivery after days.
    pub(crate) async fn publish_again(&self, answer: &Answer) -> u64 {
        let event = event(answer.body()).into_divergent();
        self.publish_event(event).await
    }

    /// Any message, under any headers; its sequence.
    pub(crate) async fn publish_raw(
        &self,
        subject: &str,
        headers: &[(&'static str, Cow<'static, str>)],
        body: impl Into<Bytes>,
    ) -> u64 {
        publish_raw(&self.connection, subject, headers, body.into()).await
    }

    /// Many at once.
    pub(crate) async fn publish_all(&self, answers: impl IntoIterator<Item = Answer>) {
        // The client takes only so many that nobody waits for.
        const AT_ONCE: usize = 1_000;
        let mut waiting = Vec::new();
        for answer in answers {
            let event = event(answer.body());
            let subject = self.spec.subjects.of(event.kind).to_owned();
            let mut headers = header_map(&event.headers);
            headers.insert("Nats-Msg-Id", event.msg_id.as_str());
            let sent = self
                .connection
                .jetstream
                .publish_with_headers(subject, headers, event.body);
            waiting.push(sent.await.unwrap().into_future());
            if waiting.len() == AT_ONCE {
                try_join_all(waiting.drain(..)).await.unwrap();
            }
        }
        try_join_all(waiting).await.unwrap();
    }

    /// The only value of the only row.
    pub(crate) async fn value<T: tokio_postgres::types::FromSqlOwned>(
        &self,
        query: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> T {
        self.sql.query_one(query, parameters).await.unwrap().get(0)
    }

    pub(crate) async fn count(&self, table: &str) -> i64 {
        self.value(&format!("select count(*) from {table}"), &[]).await
    }

    /// Waits until a table has so many rows.
    pub(crate) async fn rows(&self, table: &str, count: i64) {
        let what = format!("{count} rows in {table}");
        eventually(&what, SOON, async || match self.count(table).await {
            found if found == count => Ok(()),
            found => Err(found),
        })
        .await;
    }

    /// Waits until the projectors are done with everything that is on the stream: a plain answer published now has its row,
    /// and nothing before it waits for an acknowledgment.
    pub(crate) async fn settled(&self) {
        eventually("every message is acknowledged", SOON, async || {
            let consumer = self.consumer().await.ok_or("no consumer")?;
            let progress = (consumer.num_pending, consumer.num_ack_pending);
            if progress == (0, 0) {
                Ok(())
            } else {
                Err(format!("{progress:?} wait").leak() as &str)
            }
        })
        .await;
    }

    /// Waits until somebody waits for a lock in this database.
    pub(crate) async fn somebody_waits(&self) {
        let waiting = "select count(*) from pg_locks l join pg_stat_activity a using (pid)
                        where not l.granted and a.datname = current_database()";
        eventually("somebody waits for a row", SOON, async || {
            match self.value::<i64>(waiting, &[]).await {
                0 => Err("nobody waits"),
                _ => Ok(()),
            }
        })
        .await;
    }

    /// The durable consumer, if there is one.
    pub(crate) async fn consumer(&self) -> Option<async_nats::jetstream::consumer::Info> {
        let stream = self.stream().await;
        stream.consumer_info("projector").await.ok()
    }

    pub(crate) async fn stream(&self) -> async_nats::jetstream::stream::Stream {
        self.connection
            .jetstream
            .get_stream(&self.spec.name)
            .await
            .unwrap()
    }

    /// Every row of the two tables, as text.
    pub(crate) async fn tables(&self) -> Vec<String> {
        let query = "select a::text from answers a union all select w::text from winners w order by 1";
        let rows = self.sql.query(query, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

/// Puts an event on the stream; its sequence.
pub(crate) async fn publish(connection: &Connection, spec: &StreamSpec, event: Event) -> u64 {
    let subject = spec.subjects.of(event.kind).to_owned();
    let mut headers = event.headers;
    headers.push(("Nats-Msg-Id", event.msg_id.as_str().to_owned().into()));
    publish_raw(connection, &subject, &headers, event.body).await
}

async fn publish_raw(
    connection: &Connection,
    subject: &str,
    headers: &[(&'static str, Cow<'static, str>)],
    body: Bytes,
) -> u64 {
    let headers = header_map(headers);
    let sent = connection
        .jetstream
        .publish_with_headers(subject.to_owned(), headers, body);
    sent.await.unwrap().await.unwrap().sequence
}

fn header_map(pairs: &[(&'static str, Cow<'static, str>)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.insert(*name, &**value);
    }
    headers
}

/// The broker that most tests share. Page cache is enough for them.
pub(crate) async fn shared_nats() -> &'static NatsServer {
    NATS.get_or_init(nats).await
}

/// A broker of one's own.
pub(crate) async fn nats() -> NatsServer {
    let options = NatsOptions {
        sync_always: false,
        ..NatsOptions::default()
    };
    NatsServer::start_with(options).await.unwrap()
}

/// A database server of one's own, and a database on it.
pub(crate) async fn postgres() -> (Postgres, Database) {
    let postgres = Postgres::start().await;
    let database = postgres.fresh_database().await;
    (postgres, database)
}

pub(crate) async fn connect(url: &str) -> Connection {
    stream::connect::connect(&Settings::for_url(url), "test")
        .await
        .unwrap()
}

pub(crate) fn event(body: Bytes) -> Event {
    let source = Source::new("urn:answerline").unwrap();
    classify(body, Via::Webhook, &source, Trace::default())
        .into_event()
        .expect("no test delivery")
}
