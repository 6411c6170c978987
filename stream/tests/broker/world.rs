//! A private broker with the stream on it, and events to put there.

use std::time::Duration;

use async_nats::jetstream;
use bytes::Bytes;
use sandbox::servers::{NatsOptions, NatsServer};
use schemas::event::{Event, Source, Trace, Via, classify};
use stream::append::{Metrics, Mode};
use stream::connect::Settings;
use stream::{AppendSettings, Appender, Connection, Declared, StreamSpec};

/// How long a fact may take to become true.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A broker and a connection to it.
pub(crate) struct World {
    pub(crate) server: NatsServer,
    pub(crate) connection: Connection,
    pub(crate) declared: Declared,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(NatsOptions::default(), &StreamSpec::default()).await
    }

    pub(crate) async fn start_with(options: NatsOptions, spec: &StreamSpec) -> Self {
        let server = NatsServer::start_with(options).await.expect("the broker starts");
        let connection = connect(&server.url()).await;
        let declared = stream::declare::declare(&connection, spec)
            .await
            .expect("the stream is declared");
        Self {
            server,
            connection,
            declared,
        }
    }

    pub(crate) async fn appender(&self, settings: &AppendSettings) -> Appender {
        appender(&self.connection, &self.declared, settings).await
    }

    pub(crate) async fn stream(&self) -> jetstream::stream::Stream {
        let stream = self.connection.jetstream.get_stream(self.declared.name());
        stream.await.expect("the stream is there")
    }

    /// Messages on the stream, by their message id.
    pub(crate) async fn stored(&self, seq: u64) -> Option<(String, Bytes)> {
        let stream = self.stream().await;
        let message = stream.get_raw_message(seq).await.ok()?;
        let id = message
            .headers
            .get("Nats-Msg-Id")
            .map(ToString::to_string)
            .unwrap_or_default();
        Some((id, message.payload))
    }

    /// Changes the stream behind the back of everybody.
    pub(crate) async fn reconfigure(&self, change: impl FnOnce(&mut jetstream::stream::Config)) {
        let mut config = self.stream().await.cached_info().config.clone();
        change(&mut config);
        let updated = self.connection.jetstream.update_stream(config).await;
        updated.expect("the stream can be changed");
    }

    /// The message ids of all that is stored.
    pub(crate) async fn all_ids(&self) -> Vec<String> {
        let mut ids = Vec::new();
        for seq in 1..=self.last_seq().await {
            ids.extend(self.stored(seq).await.map(|(id, _)| id));
        }
        ids
    }

    /// How many of the stored messages came in a batch.
    pub(crate) async fn batched(&self) -> usize {
        let stream = self.stream().await;
        let mut batched = 0;
        for seq in 1..=self.last_seq().await {
            let message = stream.get_raw_message(seq).await.expect("nothing was deleted");
            batched += usize::from(message.headers.get("Nats-Batch-Id").is_some());
        }
        batched
    }

    pub(crate) async fn try_last_seq(&self) -> Option<u64> {
        let stream = self
            .connection
            .jetstream
            .get_stream(self.declared.name())
            .await
            .ok()?;
        Some(stream.cached_info().state.last_sequence)
    }

    pub(crate) async fn last_seq(&self) -> u64 {
        let stream = self.stream().await;
        stream.cached_info().state.last_sequence
    }
}

pub(crate) async fn connect(url: &str) -> Connection {
    let settings = Settings {
        ping_interval: Duration::from_secs(1),
        ..Settings::for_url(url)
    };
    stream::connect::connect(&settings, "test")
        .await
        .expect("the broker is there")
}

/// An appender whose worker runs by itself.
pub(crate) async fn appender(
    connection: &Connection,
    declared: &Declared,
    settings: &AppendSettings,
) -> Appender {
    let (appender, worker) = Appender::start(connection, declared, settings, Metrics::unregistered())
        .await
        .expect("the connection is open");
    tokio::spawn(worker.run());
    appender
}

pub(crate) fn mode(mode: Mode) -> AppendSettings {
    AppendSettings {
        mode,
        ..AppendSettings::default()
    }
}

/// A task that ended with `result`.
pub(crate) fn completed(task: &str, result: &str) -> Event {
    event(&format!(
        r#"{{"task":{{"id":"{task}","status":"COMPLETED","createdAt":"2026-11-30T12:00:00.000Z"}},"response":{{"result":"{result}"}}}}"#
    ))
}

pub(crate) fn event(body: &str) -> Event {
    let source = Source::new("urn:answerline").expect("a URN is a source");
    classify(
        Bytes::copy_from_slice(body.as_bytes()),
        Via::Webhook,
        &source,
        Trace::default(),
    )
    .into_event()
    .expect("no test delivery")
}
