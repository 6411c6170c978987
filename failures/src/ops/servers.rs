//! The broker itself.

use async_nats::jetstream::consumer;

use crate::world::World;

/// The consumer that all projectors share.
const CONSUMER: &str = "projector";

impl World {
    /// Kills the broker as a crash would (SIGKILL). Its store stays.
    pub fn kill_broker(&mut self) {
        self.broker.kill();
    }

    /// Starts the broker again on its port and store, killing it first when it runs; returns when it takes clients.
    pub async fn restart_broker(&mut self) {
        self.broker.restart().await;
    }

    /// The projectors' consumer, as the broker describes it; `None` when there is none.
    pub async fn consumer(&self) -> Option<consumer::Info> {
        self.stream().await.consumer_info(CONSUMER).await.ok()
    }

    /// Deletes the projectors' consumer.
    ///
    /// # Panics
    /// When the broker does not.
    pub async fn delete_consumer(&self) {
        let deleted = self.stream().await.delete_consumer(CONSUMER).await;
        deleted.unwrap_or_else(|e| panic!("deleting the consumer: {e}"));
    }

    /// Gives the stream another limit, as an operator does with tools of the broker's own.
    ///
    /// # Panics
    /// When the broker does not.
    pub async fn limit_stream(&self, max_bytes: i64) {
        let url = self.broker.url();
        let client = async_nats::connect(&url).await;
        let context =
            async_nats::jetstream::new(client.unwrap_or_else(|e| panic!("connecting to {url}: {e}")));
        let mut config = self.stream().await.cached_info().config.clone();
        config.max_bytes = max_bytes;
        let limited = context.update_stream(&config).await;
        limited.unwrap_or_else(|e| panic!("limiting the stream to {max_bytes} bytes: {e}"));
    }
}
