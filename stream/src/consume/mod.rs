//! Taking events off the stream: a durable pull consumer, shared by any number of processes.
//!
//! Delivery is at least once. The consumer pulls by itself, over one subscription that lives as long as it does, so
//! that whatever the broker sends is kept until it is handed out: an event that arrives behind the end of one fetch
//! comes with the next.

mod api;
mod event;
mod fetch;
mod spec;
mod steward;

use async_nats::jetstream::consumer::Info;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream;
use async_nats::{PublishError, SubscribeError, Subscriber};
use schemas::event::header;
use thiserror::Error;
use time::OffsetDateTime;
use tracing::warn;

use crate::connect::Connection;
use crate::declare::{Declared, HEADER_ALLOWANCE};
use api::Api;
pub use api::ApiError;
pub use event::{Acker, StoredEvent};
pub use spec::{ConsumerSpec, Start};
pub use steward::{Found, Steward};

/// How often a consumer is put right that others change at the same time.
const ATTEMPTS: usize = 5;

/// A durable consumer that this process pulls from.
#[derive(Debug)]
pub struct Consumer {
    api: Api,
    spec: ConsumerSpec,
    filter: String,
    connection: Connection,
    inbox: String,
    arriving: Subscriber,
    arrived: Vec<StoredEvent>,
    requests: u64,
    /// A request of this size always has room for one event.
    least_bytes: usize,
}

/// What binding found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// The consumer was not there and was created.
    pub created: bool,
    /// Fields that were not as they should be and were changed; nothing was passed over because of them.
    pub updated: Vec<&'static str>,
    /// Fields because of which events may have been passed over: the consumer was made anew and begins at the first
    /// event.
    pub restarted: Vec<&'static str>,
}

/// How far a consumer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Every event up to this sequence is acknowledged.
    pub ack_floor: u64,
    /// Events that were not delivered yet.
    pub pending: u64,
    /// Events that are delivered and not acknowledged.
    pub unacknowledged: usize,
    /// Events that are delivered a second time or more, and not acknowledged.
    pub redelivered: usize,
    /// When the consumer was created.
    pub created: OffsetDateTime,
}

/// What the stream holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamState {
    /// When the stream was created.
    pub created: OffsetDateTime,
    /// The first sequence that is there; one more than the last when it is empty.
    pub first_seq: u64,
    /// The last sequence given out.
    pub last_seq: u64,
    /// How many events there are.
    pub events: u64,
    /// Bytes they take.
    pub bytes: u64,
}

/// Why there is no consumer to pull from.
#[derive(Debug, Error)]
pub enum BindError {
    /// A request failed.
    #[error("binding the consumer {durable}")]
    Api {
        /// The consumer's name.
        durable: String,
        /// What failed.
        source: ApiError,
    },
    /// Somebody changes or deletes it as often as it is put right.
    #[error("the consumer {durable} does not stay as it should be; somebody else changes it")]
    Contested {
        /// The consumer's name.
        durable: String,
    },
    /// The connection is closed.
    #[error("subscribing to deliveries")]
    Subscribe(#[from] SubscribeError),
}

/// Why nothing was fetched.
#[derive(Debug, Error)]
pub enum FetchError {
    /// The consumer is not there any more: bind again.
    #[error("the consumer is gone")]
    Gone,
    /// The broker cannot deliver now; trying again after a moment is right.
    #[error("the broker cannot deliver now: {0}")]
    Unavailable(String),
    /// The broker does not answer; trying again is right.
    #[error("the broker does not answer")]
    Silent,
    /// Nothing will ever be fetched again: the client is closed.
    #[error("the connection is closed")]
    Closed,
    /// The request could not be sent.
    #[error("asking for events")]
    Request(#[from] PublishError),
}

impl Consumer {
    /// Binds to the durable consumer. One that is not there is created and begins at `start`; one that is not as it
    /// should be is put right, and begins at the first event again where it may have passed some over.
    pub async fn bind(
        connection: &Connection,
        declared: &Declared,
        spec: &ConsumerSpec,
        start: Start,
    ) -> Result<(Self, Bound), BindError> {
        let api = Api {
            jetstream: connection.jetstream.clone(),
            stream: declared.name().to_owned(),
            durable: spec.durable.clone(),
        };
        let filter = declared.subjects.all().to_owned();
        let bound = put_right(&api, spec, &filter, start).await?;
        let least_bytes = declared.max_message + HEADER_ALLOWANCE;
        let consumer = Self::subscribe(api, spec.clone(), filter, connection, least_bytes).await?;
        Ok((consumer, bound))
    }

    async fn subscribe(
        api: Api,
        spec: ConsumerSpec,
        filter: String,
        connection: &Connection,
        least_bytes: usize,
    ) -> Result<Self, SubscribeError> {
        let inbox = connection.client.new_inbox();
        let arriving = connection.client.subscribe(format!("{inbox}.>")).await?;
        Ok(Self {
            api,
            spec,
            filter,
            connection: connection.clone(),
            inbox,
            arriving,
            arrived: Vec::new(),
            requests: 0,
            least_bytes,
        })
    }

    /// Deletes the durable consumer and creates it anew, to begin behind `after`. What was fetched and not yet handed
    /// out is dropped: it comes again if it lies behind `after`.
    pub async fn restart(&mut self, after: u64) -> Result<(), BindError> {
        let failed = |source| BindError::Api {
            durable: self.spec.durable.clone(),
            source,
        };
        let config = self.spec.config(&self.filter, Start::After(after));
        for _ in 0..ATTEMPTS {
            self.api.delete().await.map_err(failed)?;
            if self.api.create(&config).await.map_err(failed)?.is_some() {
                self.forget_arrived();
                return Ok(());
            }
        }
        Err(BindError::Contested {
            durable: self.spec.durable.clone(),
        })
    }

    /// How far the consumer is; None when it is gone.
    pub async fn progress(&self) -> Result<Option<Progress>, ApiError> {
        Ok(self.api.info().await?.as_ref().map(Progress::of))
    }

    /// What the stream holds.
    pub async fn stream_state(&self) -> Result<StreamState, ApiError> {
        Ok(StreamState::of(&self.api.stream_info().await?))
    }

    /// The message id of the event under a sequence. The outer None: there is no event; the inner one: it has no id.
    pub async fn message_id(&self, seq: u64) -> Result<Option<Option<String>>, ApiError> {
        Ok(self.api.message(seq).await?.map(id_of))
    }

    /// Whether the connection is there.
    pub fn is_connected(&self) -> bool {
        self.connection.is_connected()
    }
}

impl Progress {
    fn of(info: &Info) -> Self {
        Self {
            ack_floor: info.ack_floor.stream_sequence,
            pending: info.num_pending,
            unacknowledged: info.num_ack_pending,
            redelivered: info.num_redelivered,
            created: info.created,
        }
    }
}

impl StreamState {
    fn of(info: &stream::Info) -> Self {
        Self {
            created: info.created,
            first_seq: info.state.first_sequence,
            last_seq: info.state.last_sequence,
            events: info.state.messages,
            bytes: info.state.bytes,
        }
    }
}

fn id_of(message: StreamMessage) -> Option<String> {
    message
        .headers
        .get(header::MSG_ID)
        .map(|id| id.as_str().to_owned())
}

async fn put_right(api: &Api, spec: &ConsumerSpec, filter: &str, start: Start) -> Result<Bound, BindError> {
    let failed = |source| BindError::Api {
        durable: spec.durable.clone(),
        source,
    };
    let mut bound = Bound::default();
    for _ in 0..ATTEMPTS {
        let Some(Info { config, .. }) = api.info().await.map_err(failed)? else {
            let start = if bound.restarted.is_empty() {
                start
            } else {
                Start::First
            };
            if api
                .create(&spec.config(filter, start))
                .await
                .map_err(failed)?
                .is_some()
            {
                bound.created = bound.restarted.is_empty();
                return Ok(bound);
            }
            continue; // another process was faster; see what it made
        };
        let differences = spec.differences(&config, filter);
        if !differences.skipping.is_empty() {
            let fields = differences.skipping.join(", ");
            warn!(
                consumer = spec.durable,
                "the consumer may have passed events over ({fields}); it begins anew"
            );
            api.delete().await.map_err(failed)?;
            bound.restarted.extend(differences.skipping);
            continue;
        }
        if differences.changeable.is_empty() {
            return Ok(bound);
        }
        let fields = differences.changeable.join(", ");
        warn!(
            consumer = spec.durable,
            "the consumer was configured otherwise ({fields}); changing it"
        );
        let config = spec.corrected(&config);
        api.update(&config).await.map_err(failed)?;
        bound.updated.extend(differences.changeable);
    }
    Err(BindError::Contested {
        durable: spec.durable.clone(),
    })
}
