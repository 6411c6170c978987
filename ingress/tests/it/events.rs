//! What is on the stream.

use schemas::event::Received;
use stream::connect::{Connection, Settings, connect};

/// One stored event.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) subject: String,
    pub(crate) msg_id: String,
    pub(crate) body: Vec<u8>,
    pub(crate) headers: Received,
    /// Every header, as name and value.
    pub(crate) raw_headers: Vec<(String, String)>,
}

/// A view of one stream.
pub(crate) struct Events {
    connection: Connection,
    stream: String,
}

impl Events {
    pub(crate) async fn of(nats_url: &str, stream: &str) -> Self {
        let connection = connect(&Settings::for_url(nats_url), "test").await.unwrap();
        Self {
            connection,
            stream: stream.to_owned(),
        }
    }

    /// How many events there are.
    pub(crate) async fn count(&self) -> u64 {
        self.state().await.messages
    }

    /// How many bytes the stream counts for them.
    pub(crate) async fn bytes(&self) -> u64 {
        self.state().await.bytes
    }

    async fn state(&self) -> async_nats::jetstream::stream::State {
        let stream = self.connection.jetstream.get_stream(&self.stream).await.unwrap();
        stream.cached_info().state.clone()
    }

    /// Deletes an event, as an operator can.
    pub(crate) async fn delete(&self, seq: u64) {
        let stream = self.connection.jetstream.get_stream(&self.stream).await.unwrap();
        assert!(stream.delete_message(seq).await.unwrap());
    }

    /// All events, in order.
    pub(crate) async fn all(&self) -> Vec<Stored> {
        let stream = self.connection.jetstream.get_stream(&self.stream).await.unwrap();
        let last = stream.cached_info().state.last_sequence;
        let mut all = Vec::new();
        for seq in 1..=last {
            let Ok(message) = stream.get_raw_message(seq).await else {
                continue; // deleted
            };
            let pairs: Vec<_> = message
                .headers
                .iter()
                .flat_map(|(name, values)| values.iter().map(|value| (name.to_string(), value.to_string())))
                .collect();
            let headers = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            all.push(Stored {
                subject: message.subject.to_string(),
                msg_id: message
                    .headers
                    .get("Nats-Msg-Id")
                    .map(ToString::to_string)
                    .unwrap_or_default(),
                body: message.payload.to_vec(),
                headers: Received::from_headers(headers),
                raw_headers: pairs,
            });
        }
        all
    }

    /// The task ids of all results, in order.
    pub(crate) async fn result_ids(&self) -> Vec<String> {
        let results = self
            .all()
            .await
            .into_iter()
            .filter(|event| event.subject.contains(".result."));
        results
            .map(|event| {
                let body: serde_json::Value = serde_json::from_slice(&event.body).unwrap();
                body["task"]["id"].as_str().unwrap().to_owned()
            })
            .collect()
    }
}
