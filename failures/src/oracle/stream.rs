//! What is on the stream, read from the broker past every program.

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::{self, stream::Stream};
use bytes::Bytes;
use futures_util::StreamExt;
use schemas::delivery::{self, Delivery};
use schemas::event::{Fact, Kind, Received, Subjects, check_other, check_result};
use schemas::job_key::Rules;
use schemas::projection::Answer;
use time::OffsetDateTime;

/// Messages to a fetch.
const FETCH: usize = 500;
/// How long a fetch may take.
const FETCH_TIME: std::time::Duration = std::time::Duration::from_secs(10);

/// An event as it is stored.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its sequence.
    pub seq: u64,
    /// The stream's timestamp.
    pub time: OffsetDateTime,
    /// Its subject.
    pub subject: String,
    /// Its headers.
    pub headers: Received,
    /// Its body.
    pub body: Bytes,
}

/// What must come of an event.
#[derive(Debug, Clone)]
pub enum Due {
    /// A row, as far as this event alone says; it states this fact.
    Row(Box<Answer>, Fact),
    /// Nothing: a task that has not ended.
    Nothing,
    /// It is parked.
    Parked,
}

impl Stored {
    /// What must come of it.
    pub fn due(&self) -> Due {
        let (Ok(kind), Some(id)) = (subjects().parse(&self.subject), self.headers.msg_id.as_deref()) else {
            return Due::Parked;
        };
        match delivery::read(&self.body) {
            Ok(Delivery::Result(result)) => {
                let fact = Fact::of(&result);
                match (check_result(kind, id, &fact), self.headers.via) {
                    (Ok(()), Some(via)) => {
                        let answer = Answer::of(&result, Rules::default(), via, self.time, self.seq);
                        Due::Row(Box::new(answer), fact)
                    }
                    _ => Due::Parked,
                }
            }
            other => match (check_other(kind, id, &self.body, &other), kind) {
                (Ok(()), Kind::NonFinal) => Due::Nothing,
                _ => Due::Parked,
            },
        }
    }
}

/// The subjects that the programs use unless told otherwise, as they are here.
pub(super) fn subjects() -> Subjects {
    Subjects::new("answers").expect("a prefix of letters")
}

/// Everything on the stream `name`, in order.
///
/// # Errors
/// What the broker refused, in words.
pub async fn read(nats_url: &str, name: &str) -> Result<Vec<Stored>, String> {
    let failed = |attempt: &'static str| move |error: async_nats::Error| format!("{attempt}: {error}");
    let client = async_nats::connect(nats_url)
        .await
        .map_err(|e| failed("connecting to the broker")(e.into()))?;
    let stream = jetstream::new(client)
        .get_stream(name)
        .await
        .map_err(|e| failed("looking for the stream")(e.into()))?;
    let left = stream.cached_info().state.messages;
    if left == 0 {
        return Ok(Vec::new());
    }
    read_messages(&stream, left)
        .await
        .map_err(failed("reading the stream"))
}

async fn read_messages(stream: &Stream, count: u64) -> Result<Vec<Stored>, async_nats::Error> {
    let settings = pull::Config {
        deliver_policy: DeliverPolicy::All,
        ack_policy: AckPolicy::None,
        // In memory: a broker whose disk has just been full is asked for nothing more than it must give.
        memory_storage: true,
        ..pull::Config::default()
    };
    let consumer = stream.create_consumer(settings).await?;
    let mut events = Vec::new();
    while (events.len() as u64) < count {
        let wanted = FETCH.min(usize::try_from(count).unwrap_or(FETCH) - events.len());
        let batch = consumer.batch().max_messages(wanted).expires(FETCH_TIME);
        let mut batch = batch.messages().await?;
        let before = events.len();
        while let Some(message) = batch.next().await {
            events.push(stored(message?)?);
        }
        if events.len() == before {
            return Err(format!("it ended after {before} of {count} messages").into());
        }
    }
    let name = consumer.cached_info().name.clone();
    stream.delete_consumer(&name).await?;
    Ok(events)
}

fn stored(message: jetstream::Message) -> Result<Stored, async_nats::Error> {
    let info = message.info()?;
    let (seq, time) = (info.stream_sequence, info.published);
    let headers = message.headers.iter().flat_map(async_nats::HeaderMap::iter);
    let pairs: Vec<(String, String)> = headers
        .flat_map(|(name, values)| values.iter().map(|value| (name.to_string(), value.to_string())))
        .collect();
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Ok(Stored {
        seq,
        time,
        subject: message.subject.to_string(),
        headers: Received::from_headers(pairs),
        body: message.payload.clone(),
    })
}
