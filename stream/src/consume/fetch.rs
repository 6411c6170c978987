//! Pulling.

use std::mem;
use std::pin::pin;
use std::time::Duration;

use async_nats::{Message, StatusCode};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use tokio::time::{Instant, sleep_until};
use tracing::info;

use super::{Consumer, FetchError, StoredEvent};

/// How long the broker may take to say that there is nothing, beyond the time it was asked to wait.
const GRACE: Duration = Duration::from_secs(2);

/// What one message says about the request under way.
enum Arrival {
    /// An event, of this request or an earlier one.
    Event(Box<StoredEvent>),
    /// The request is served; no more comes of it.
    Served,
    /// The next event has no room in what is left of the request.
    NoRoom,
    /// The consumer was deleted.
    Gone,
    /// The request may have reached nobody.
    Nobody,
    /// The request was refused or given up.
    Refused(String),
    /// Nothing: a late word about an earlier request.
    Stale,
}

impl Consumer {
    /// The events that are there now: at most `max_events` and about `max_bytes`, but always room for one event of
    /// any size. Waits up to `patience` while there are none, and gives an empty list when there still are none then.
    ///
    /// Nothing is lost when the returned future is dropped: what arrived comes with the next call.
    pub async fn fetch(
        &mut self,
        max_events: usize,
        max_bytes: usize,
        patience: Duration,
    ) -> Result<Vec<StoredEvent>, FetchError> {
        self.take_arrived()?;
        if self.arrived.is_empty() {
            self.recover(max_events, max_bytes).await?;
        }
        if !self.arrived.is_empty() {
            return Ok(self.hand_out(max_events));
        }
        let request = self.request(max_events, max_bytes, patience).await?;
        let connection = self.connection.clone();
        let mut lost = pin!(connection.made_after(connection.connects()));
        let deadline = Instant::now() + patience + GRACE;
        while self.arrived.len() < max_events {
            let message = tokio::select! {
                message = self.arriving.next() => message.ok_or(FetchError::Closed)?,
                () = &mut lost => break, // the request went down with the old connection
                () = sleep_until(deadline) => return self.silent().await,
            };
            match self.arrival(message, &request) {
                Arrival::Event(event) => self.arrived.push(*event),
                Arrival::Stale => {}
                Arrival::Served => break,
                Arrival::NoRoom => {
                    if self.arrived.is_empty() {
                        self.make_room(max_bytes);
                    }
                    break;
                }
                _ if !self.arrived.is_empty() => break, // whatever it is, the next request will tell it again
                Arrival::Gone => return Err(FetchError::Gone),
                Arrival::Nobody => return Err(self.nobody().await),
                Arrival::Refused(reason) => return Err(FetchError::Unavailable(reason)),
            }
        }
        Ok(self.hand_out(max_events))
    }

    async fn request(
        &mut self,
        max_events: usize,
        max_bytes: usize,
        patience: Duration,
    ) -> Result<String, FetchError> {
        self.requests += 1;
        let reply = format!("{}.{}", self.inbox, self.requests);
        // Together these two mean: send what is there, and only when there is nothing wait for the first.
        let body = json!({
            "batch": max_events.max(1),
            "max_bytes": max_bytes.max(self.least_bytes),
            "no_wait": true,
            "expires": u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX),
        });
        let next = format!("CONSUMER.MSG.NEXT.{}.{}", self.api.stream, self.api.durable);
        let subject = self.connection.api(&next);
        self.connection
            .client
            .publish_with_reply(subject, reply.clone(), Bytes::from(body.to_string()))
            .await?;
        Ok(reply)
    }

    fn arrival(&self, message: Message, request: &str) -> Arrival {
        let status = message.status;
        let description = message.description.clone().unwrap_or_default();
        let for_request = message.subject.as_str() == request;
        if let Some(event) = StoredEvent::read(message, &self.connection.client) {
            return Arrival::Event(Box::new(event));
        }
        let Some(status) = status else {
            return Arrival::Stale;
        };
        if description == "Consumer Deleted" {
            return Arrival::Gone;
        }
        if !for_request {
            return Arrival::Stale;
        }
        match status {
            StatusCode::NOT_FOUND | StatusCode::TIMEOUT => Arrival::Served,
            StatusCode::NO_RESPONDERS => Arrival::Nobody,
            StatusCode::REQUEST_TERMINATED if description == "Message Size Exceeds MaxBytes" => {
                Arrival::NoRoom
            }
            StatusCode::REQUEST_TERMINATED if description == "Batch Completed" => Arrival::Served,
            StatusCode::IDLE_HEARTBEAT => Arrival::Stale,
            status => Arrival::Refused(format!("{status} {description}")),
        }
    }

    /// The next event is larger than any was allowed to be when the stream was declared: somebody has raised the limit. It would
    /// stop all that come after it, so more is asked for from now on.
    fn make_room(&mut self, max_bytes: usize) {
        self.least_bytes = self.least_bytes.max(max_bytes).saturating_mul(2);
        info!(
            bytes = self.least_bytes,
            "the stream takes larger events than it did; making room for them"
        );
    }

    /// Nobody took the request: the consumer is gone, or JetStream is not up.
    async fn nobody(&self) -> FetchError {
        match self.api.info().await {
            Ok(None) => FetchError::Gone,
            Ok(Some(_)) => FetchError::Unavailable("no responders".to_owned()),
            Err(error) => error.into(),
        }
    }

    /// Not a word about the request, not even that its time is over.
    async fn silent(&mut self) -> Result<Vec<StoredEvent>, FetchError> {
        if !self.arrived.is_empty() {
            return Ok(self.hand_out(usize::MAX));
        }
        match self.api.info().await {
            Ok(None) => Err(FetchError::Gone),
            Ok(Some(_)) | Err(_) => Err(FetchError::Silent),
        }
    }

    /// Takes what came since the last fetch, without waiting.
    fn take_arrived(&mut self) -> Result<(), FetchError> {
        while let Some(message) = self.arriving.next().now_or_never() {
            match message {
                Some(message) => self
                    .arrived
                    .extend(StoredEvent::read(message, &self.connection.client)),
                None if self.arrived.is_empty() => return Err(FetchError::Closed),
                None => break,
            }
        }
        Ok(())
    }

    fn hand_out(&mut self, most: usize) -> Vec<StoredEvent> {
        if self.arrived.len() <= most {
            return mem::take(&mut self.arrived);
        }
        let rest = self.arrived.split_off(most);
        mem::replace(&mut self.arrived, rest)
    }
}
