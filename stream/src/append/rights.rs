//! Do the subjects of the events lead to the stream, and may this user publish to them?
//!
//! Asked with messages that the stream cannot store: they expect it to end at a sequence that no stream reaches. The
//! stream refuses such a message before it does anything else with it. A user who may not publish gets no answer at all.

use std::time::Duration;

use async_nats::{HeaderMap, header};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use super::outcome::AppendError;
use super::probe::ProbeError;
use super::wire::{self, Receipt};
use crate::connect::Connection;

/// Ten million events a second for 3,000 years. Has one digit less than the largest number of the broker, which reads what it
/// cannot read as no expectation.
const IMPOSSIBLE: &str = "999999999999999999";

/// Publishes to each subject what cannot be stored.
pub(super) async fn ask(
    connection: &Connection,
    stream: &str,
    subjects: &[&str],
    limit: Duration,
) -> Result<(), ProbeError> {
    let deadline = Instant::now() + limit;
    let client = &connection.client;
    // A subscription of its own, which goes with this call: a request that is never answered would leave something behind in
    // the client.
    let inbox = client.new_inbox();
    let unsent = |_| ProbeError::Disconnected;
    let mut answers = client.subscribe(format!("{inbox}.*")).await.map_err(unsent)?;
    let mut headers = HeaderMap::new();
    headers.insert(header::NATS_EXPECTED_STREAM, stream);
    headers.insert(header::NATS_EXPECTED_LAST_SEQUENCE, IMPOSSIBLE);
    for (number, subject) in subjects.iter().enumerate() {
        let reply = format!("{inbox}.{number}");
        let sent = client.publish_with_reply_and_headers(
            (*subject).to_owned(),
            reply,
            headers.clone(),
            Bytes::new(),
        );
        sent.await.map_err(|_| ProbeError::Disconnected)?;
    }
    let mut open: Vec<&str> = subjects.to_vec();
    while !open.is_empty() {
        let Ok(Some(answer)) = timeout_at(deadline, answers.next()).await else {
            return Err(not_taken(
                open[0],
                "there is no answer; may this user publish to it?",
            ));
        };
        let number = answer
            .subject
            .rsplit('.')
            .next()
            .and_then(|number| number.parse().ok());
        let Some(subject) = number.and_then(|number: usize| subjects.get(number)) else {
            continue;
        };
        match wire::receipt(&answer, 0) {
            Receipt::Refused(AppendError::WrongStream(reason)) | Receipt::NotNow(reason) => {
                return Err(not_taken(subject, &reason));
            }
            Receipt::Stored(seq) | Receipt::Duplicate(seq) => {
                return Err(not_taken(
                    subject,
                    &format!("it took what it must refuse, as {seq}"),
                ));
            }
            Receipt::Refused(_) | Receipt::NoBatches(_) => open.retain(|other| other != subject),
        }
    }
    Ok(())
}

fn not_taken(subject: &str, reason: &str) -> ProbeError {
    ProbeError::NotTaken {
        subject: subject.to_owned(),
        reason: reason.to_owned(),
    }
}
