//! Requests to JetStream about consumers and messages.

use std::time::Duration;

use async_nats::jetstream::consumer::{Config, Info};
use async_nats::jetstream::context::RequestError;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream;
use async_nats::jetstream::stream::RawMessage;
use async_nats::jetstream::{self, ErrorCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use thiserror::Error;

use crate::stored::{self, Stored};

/// A request to JetStream that failed.
#[derive(Debug, Error)]
pub enum ApiError {
    /// The broker did not answer.
    #[error("the broker does not answer {request}")]
    Request {
        /// What was asked.
        request: String,
        /// What the client says.
        source: RequestError,
    },
    /// The broker refuses.
    #[error("the broker refuses {request}")]
    Refused {
        /// What was asked.
        request: String,
        /// What it says.
        source: jetstream::Error,
    },
    /// A message that cannot be read.
    #[error("the answer to {request} cannot be read")]
    Answer {
        /// What was asked.
        request: String,
        /// What is wrong with it.
        source: base64::DecodeError,
    },
}

impl ApiError {
    /// Whether what was asked for is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if source.code() == 404)
    }

    fn is(&self, code: ErrorCode) -> bool {
        matches!(self, Self::Refused { source, .. } if source.error_code() == code)
    }
}

/// The requests about one stream and one durable consumer on it.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) jetstream: jetstream::Context,
    pub(crate) stream: String,
    pub(crate) durable: String,
}

/// How often, and after what pause, a consumer is created again that the broker could not.
const MOST_ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Deserialize)]
struct Got {
    message: RawMessage,
}

/// An answer of which nothing is of interest but that it is no error.
#[derive(Deserialize)]
struct Empty {}

impl Api {
    /// The consumer; None when it or its stream is not there.
    pub(crate) async fn info(&self) -> Result<Option<Info>, ApiError> {
        match self
            .ask(
                format!("CONSUMER.INFO.{}.{}", self.stream, self.durable),
                &json!({}),
            )
            .await
        {
            Ok(info) => Ok(Some(info)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates the consumer; None when there is one that is configured otherwise.
    pub(crate) async fn create(&self, config: &Config) -> Result<Option<Info>, ApiError> {
        let mut attempts = 0;
        loop {
            match self.put(config, "create").await {
                Ok(info) => return Ok(Some(info)),
                Err(error) if error.is(ErrorCode::CONSUMER_ALREADY_EXISTS) => return Ok(None),
                // Of a consumer that was just deleted the broker may still be removing the files, in the place where it
                // puts those of the new one.
                Err(error) if error.is(ErrorCode::CONSUMER_CREATE) && attempts < MOST_ATTEMPTS => {
                    attempts += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) async fn update(&self, config: &Config) -> Result<Info, ApiError> {
        self.put(config, "update").await
    }

    async fn put(&self, config: &Config, action: &str) -> Result<Info, ApiError> {
        // The subject names the filter as well, so that rights can be given by it.
        let filter = if config.filter_subject.is_empty() {
            String::new()
        } else {
            format!(".{}", config.filter_subject)
        };
        let subject = format!("CONSUMER.CREATE.{}.{}{filter}", self.stream, self.durable);
        self.ask(
            subject,
            &json!({"stream_name": self.stream, "config": config, "action": action}),
        )
        .await
    }

    /// Ends a pause of the consumer.
    pub(super) async fn resume(&self) -> Result<(), ApiError> {
        let subject = format!("CONSUMER.PAUSE.{}.{}", self.stream, self.durable);
        self.ask::<Empty>(subject, &json!({})).await.map(drop)
    }

    /// Deletes the consumer; it may be gone already.
    pub(crate) async fn delete(&self) -> Result<(), ApiError> {
        let subject = format!("CONSUMER.DELETE.{}.{}", self.stream, self.durable);
        match self.ask::<Empty>(subject, &json!({})).await {
            Ok(Empty {}) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn stream_info(&self) -> Result<stream::Info, ApiError> {
        self.ask(format!("STREAM.INFO.{}", self.stream), &json!({})).await
    }

    /// The message under a sequence, from the leader; None when there is none.
    pub(crate) async fn message(&self, seq: u64) -> Result<Option<Stored>, ApiError> {
        self.message_by(&json!({"seq": seq})).await
    }

    /// The message that such a request names, from the leader; None when there is none.
    pub(crate) async fn message_by(&self, which: &impl Serialize) -> Result<Option<Stored>, ApiError> {
        let request = stored::request(&self.stream);
        match self.ask::<Got>(request.clone(), which).await {
            Ok(got) => match Stored::decode(got.message) {
                Ok(stored) => Ok(Some(stored)),
                Err(source) => Err(ApiError::Answer { request, source }),
            },
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        request: String,
        payload: &impl Serialize,
    ) -> Result<T, ApiError> {
        match self.jetstream.request(request.clone(), payload).await {
            Ok(Response::Ok(answer)) => Ok(answer),
            Ok(Response::Err { error: source }) => Err(ApiError::Refused { request, source }),
            Err(source) => Err(ApiError::Request { request, source }),
        }
    }
}
