//! Taking events off the stream: a durable pull consumer, shared by any number of processes.
//!
//! Delivery is at least once. The consumer pulls by itself, over one subscription that lives as long as it does, so
//! that whatever the broker sends is kept until it is handed out: an event that arrives behind the end of one fetch
//! comes with the next.

mod api;
mod event;
mod fetch;
mod lost;
mod spec;
mod steward;

use async_nats::jetstream::consumer::Info;
use async_nats::jetstream::stream;
use async_nats::{PublishError, SubscribeError, Subscriber};
use thiserror::Error;
use time::OffsetDateTime;

use crate::connect::Connection;
pub(crate) use api::Api;
pub use api::ApiError;
pub(crate) use event::Place;
pub use event::{Acker, StoredEvent};
use lost::Lost;
pub use spec::{ConsumerSpec, Start, consumer_name};
pub(crate) use steward::CLAIM_KEY;
pub use steward::{Found, Steward};

/// A durable consumer that this process pulls from; [`Steward::attach`] gives one.
#[derive(Debug)]
pub struct Consumer {
    api: Api,
    connection: Connection,
    inbox: String,
    arriving: Subscriber,
    arrived: Vec<StoredEvent>,
    requests: u64,
    lost: Lost,
    /// A request of this size always has room for one event.
    least_bytes: usize,
}

/// How far a consumer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Every event up to this sequence is acknowledged.
    pub ack_floor: u64,
    /// No event beyond this sequence was ever delivered.
    pub delivered: u64,
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

/// Why nothing can be pulled.
#[derive(Debug, Error)]
#[error("subscribing to what the broker delivers")]
pub struct AttachError(#[from] SubscribeError);

/// Why nothing was fetched.
#[derive(Debug, Error)]
pub enum FetchError {
    /// There is no such consumer, or none any more.
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
    async fn subscribe(
        api: Api,
        connection: &Connection,
        least_bytes: usize,
    ) -> Result<Self, SubscribeError> {
        let inbox = connection.client.new_inbox();
        let arriving = connection.client.subscribe(format!("{inbox}.>")).await?;
        Ok(Self {
            api,
            connection: connection.clone(),
            inbox,
            arriving,
            arrived: Vec::new(),
            requests: 0,
            lost: Lost::default(),
            least_bytes,
        })
    }
}

impl Progress {
    pub(crate) fn of(info: &Info) -> Self {
        Self {
            ack_floor: info.ack_floor.stream_sequence,
            delivered: info.delivered.stream_sequence,
            pending: info.num_pending,
            unacknowledged: info.num_ack_pending,
            redelivered: info.num_redelivered,
            created: info.created,
        }
    }
}

impl StreamState {
    pub(crate) fn of(info: &stream::Info) -> Self {
        Self {
            created: info.created,
            first_seq: info.state.first_sequence,
            last_seq: info.state.last_sequence,
            events: info.state.messages,
            bytes: info.state.bytes,
        }
    }
}
