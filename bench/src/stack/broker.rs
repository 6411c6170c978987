//! Brokers: one, or three that keep copies for each other.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use sandbox::fill;
use sandbox::servers::{NatsOptions, NatsServer, Port};
use schemas::event::Event;
use stream::connect::Settings;
use stream::{Connection, StreamSpec};

/// What an acknowledgment of the broker means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// On the disk: as deploy/nats.conf sets it.
    Synced,
    /// In the page cache, for up to two minutes: the broker's default.
    PageCache,
}

/// A broker with a stream, or three with three copies of it. Ends when dropped.
#[derive(Debug)]
pub struct Broker {
    servers: Vec<NatsServer>,
    _ports: Vec<Port>,
}

impl Broker {
    /// One broker.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn one(durability: Durability) -> Result<Self> {
        let server = NatsServer::start_with(options(durability, String::new())).await?;
        Ok(Self {
            servers: vec![server],
            _ports: Vec::new(),
        })
    }

    /// Three of them on this machine.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn three(durability: Durability) -> Result<Self> {
        let ports = [Port::lease()?, Port::lease()?, Port::lease()?];
        let routes: Vec<_> = ports
            .iter()
            .map(|port| format!("nats://{}", port.addr()))
            .collect();
        let routes = routes.join(", ");
        let mut servers = Vec::new();
        for (number, port) in ports.iter().enumerate() {
            let cluster = format!(
                "server_name: bench-{number}\ncluster {{ name: bench, listen: \"{}\", routes: [{routes}] }}\n",
                port.addr()
            );
            servers.push(NatsServer::start_with(options(durability, cluster)).await?);
        }
        Ok(Self {
            servers,
            _ports: ports.into(),
        })
    }

    /// How many there are, and so how many copies the stream has.
    pub fn replicas(&self) -> usize {
        self.servers.len()
    }

    /// Where they are, separated by commas.
    pub fn urls(&self) -> String {
        let urls: Vec<_> = self.servers.iter().map(NatsServer::url).collect();
        urls.join(",")
    }

    /// Their processes.
    pub fn processes(&self) -> Vec<u32> {
        self.servers.iter().filter_map(NatsServer::pid).collect()
    }

    /// A connection, and the stream made, as every program of ours makes it.
    ///
    /// # Errors
    /// When the broker gives none.
    pub async fn connect(&self) -> Result<Connection> {
        let settings = Settings {
            urls: self.servers.iter().map(NatsServer::url).collect(),
            ..Settings::for_url("")
        };
        let connection = stream::connect::connect(&settings, "bench").await?;
        let spec = StreamSpec {
            replicas: self.replicas(),
            ..StreamSpec::default()
        };
        stream::declare::declare(&connection, &spec).await?;
        Ok(connection)
    }

    /// Puts the first `count` of `events` on the stream, in its largest batches; gives how long that took, making them included.
    ///
    /// # Errors
    /// When the broker does not store them.
    pub async fn fill(&self, events: impl Iterator<Item = Event>, count: usize) -> Result<Duration> {
        let (connection, spec) = (self.connect().await?, StreamSpec::default());
        let began = Instant::now();
        fill::fill(&connection.client, &spec.name, &spec.subjects, events, count)
            .await
            .context("filling the stream")?;
        Ok(began.elapsed())
    }

    /// Events on the stream.
    ///
    /// # Errors
    /// When the broker does not say.
    pub async fn stored(&self) -> Result<u64> {
        let connection = self.connect().await?;
        let stream = connection.jetstream.get_stream(StreamSpec::default().name).await;
        let stream = stream.context("asking for the stream")?;
        Ok(stream.cached_info().state.messages)
    }
}

fn options(durability: Durability, extra: String) -> NatsOptions {
    NatsOptions {
        sync_always: durability == Durability::Synced,
        extra,
        ..NatsOptions::default()
    }
}
