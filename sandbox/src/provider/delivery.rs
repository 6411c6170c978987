//! One delivery and the log of its attempts.

use std::str::FromStr;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Uri};
use thiserror::Error;
use time::OffsetDateTime;

use super::endpoint::Undeliverable;
use super::task::TaskNumber;

/// The deliveries of an account in the order in which they arose; the first is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryNumber(pub u64);

/// What a delivery tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A task that ended.
    Task(TaskNumber),
    /// Nothing: a sample, to try a receiver.
    Test,
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is tried again at this time.
    Pending(OffsetDateTime),
    /// An attempt is under way.
    Sending,
    /// An attempt was answered 2xx at this time.
    Delivered(OffsetDateTime),
    /// Its attempts are used up, or its URL is refused.
    Dead,
}

/// Where a delivery stands, as the delivery log shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is tried again by itself, or is on its way.
    Pending,
    /// It was accepted.
    Delivered,
    /// It is not tried again by itself.
    Dead,
}

impl Standing {
    /// The word of the delivery log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }
}

/// Not a word of the delivery log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a delivery is `pending`, `delivered` or `dead`")]
pub struct NoStanding;

impl FromStr for Standing {
    type Err = NoStanding;

    fn from_str(word: &str) -> Result<Self, NoStanding> {
        [Self::Pending, Self::Delivered, Self::Dead]
            .into_iter()
            .find(|standing| standing.as_str() == word)
            .ok_or(NoStanding)
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The receiver answered with this status.
    Status(u16),
    /// No answer came; the words are for the log.
    Nothing(String),
}

impl Reply {
    /// Whether the delivery is done with this.
    pub fn is_accepted(&self) -> bool {
        matches!(self, Self::Status(200..300))
    }
}

/// One attempt in the log.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// When it was signed and sent.
    pub begun: OffsetDateTime,
    /// How it ended; `None` while it is under way.
    pub reply: Option<Reply>,
}

/// A delivery: one body for one URL, tried until it is accepted or its attempts are used up.
#[derive(Debug)]
pub struct Delivery {
    /// Its place in the log.
    pub number: DeliveryNumber,
    /// The value of `Webhook-Id`: the same in every attempt, redelivery included.
    pub webhook_id: String,
    /// What it tells of.
    pub subject: Subject,
    /// What is sent, byte for byte the same in every attempt.
    pub body: Bytes,
    /// Where it is sent.
    pub url: Uri,
    /// When it arose.
    pub opened: OffsetDateTime,
    /// Where it stands.
    pub state: State,
    /// Every attempt so far, those before a redelivery included.
    pub attempts: Vec<Attempt>,
    /// Why it was dead before its first attempt.
    pub refused: Option<Undeliverable>,
    /// How many of `attempts` belong to earlier sets.
    pub(super) earlier: usize,
}

impl Delivery {
    /// Where it stands, as the delivery log shows it.
    pub fn standing(&self) -> Standing {
        match self.state {
            State::Pending(_) | State::Sending => Standing::Pending,
            State::Delivered(_) => Standing::Delivered,
            State::Dead => Standing::Dead,
        }
    }

    /// Whether it is tried again by itself, or is on its way.
    pub fn is_pending(&self) -> bool {
        self.standing() == Standing::Pending
    }

    /// When it was accepted.
    pub fn delivered_at(&self) -> Option<OffsetDateTime> {
        match self.state {
            State::Delivered(at) => Some(at),
            State::Pending(_) | State::Sending | State::Dead => None,
        }
    }

    /// Attempts in the present set.
    pub fn attempts_in_set(&self) -> u32 {
        (self.attempts.len() - self.earlier)
            .try_into()
            .unwrap_or(u32::MAX)
    }

    /// The last status that the receiver answered.
    pub fn last_status(&self) -> Option<u16> {
        self.replies().find_map(|reply| match reply {
            Reply::Status(status) => Some(*status),
            Reply::Nothing(_) => None,
        })
    }

    /// Why the last attempt got no answer, or why there was none.
    pub fn last_error(&self) -> Option<String> {
        self.refused.map(|refused| refused.to_string()).or_else(|| {
            self.replies().find_map(|reply| match reply {
                Reply::Status(_) => None,
                Reply::Nothing(error) => Some(error.clone()),
            })
        })
    }

    /// Replies, latest first.
    fn replies(&self) -> impl Iterator<Item = &Reply> {
        self.attempts
            .iter()
            .rev()
            .filter_map(|attempt| attempt.reply.as_ref())
    }
}

/// An attempt, signed and ready to be sent.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which delivery it belongs to.
    pub delivery: DeliveryNumber,
    /// Which attempt of its set it is, counted from 1.
    pub attempt: u32,
    /// Where to send it.
    pub url: Uri,
    /// Every header but `Host` and `Content-Length`.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The signed body.
    pub body: Bytes,
}
