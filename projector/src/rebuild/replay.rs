//! Going through the stream from its first message to an end, decoding on the way.
//!
//! Three things happen at a time: the broker is asked for the next messages, the ones before are decoded on threads of their
//! own, and the ones before those are brought into the database. Between them is room for a few stretches of the stream and no
//! more, so memory does not grow with its length.

use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use stream::ReadEvent;
use stream::read::{Scan, ScanError};
use tokio::sync::mpsc;

use crate::decode::{Decoded, Decoder, Message};
use crate::reach::Log;

/// Stretches that wait to be decoded.
const WAITING: usize = 1;
/// Stretches that are decoded at a time.
const AT_A_TIME: usize = 2;

/// Some messages in a row.
#[derive(Debug)]
pub(super) struct Stretch {
    /// What they are, in the order of the stream.
    pub(super) events: Vec<Decoded>,
    /// The last sequence of it; behind it, the next stretch begins.
    pub(super) last: u64,
    /// Ranges of sequences in it that hold nothing.
    pub(super) gone: Vec<(u64, u64)>,
}

/// What was counted on the way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Messages.
    pub(super) events: u64,
    /// Messages that hold a result.
    pub(super) results: u64,
    /// Messages to park.
    pub(super) parked: u64,
    /// Messages of tasks that have not ended.
    pub(super) nonfinal: u64,
}

impl Tally {
    /// Adds a stretch.
    pub(super) fn add(&mut self, stretch: &Stretch) {
        for decoded in &stretch.events {
            self.events += 1;
            match decoded {
                Decoded::Result(_) => self.results += 1,
                Decoded::Parked(_) => self.parked += 1,
                Decoded::NonFinal { .. } => self.nonfinal += 1,
            }
        }
    }
}

/// The messages from `first` to `last`, stretch by stretch in order, each with what `make` makes of it on its thread.
pub(super) fn replay<T: Send + 'static, M: Fn(&Stretch) -> T + Clone + Send + 'static>(
    log: &Log,
    decoder: &Arc<Decoder>,
    first: u64,
    last: u64,
    make: M,
) -> impl Stream<Item = Result<(Stretch, T), ScanError>> + use<T, M> {
    let decoder = Arc::clone(decoder);
    let scan = log.reader.scan(&log.nats, first, last);
    let (read, waiting) = mpsc::channel(WAITING);
    let reading = tokio::spawn(async move {
        let ended = read_all(scan, first, last, &read).await;
        if let Err(error) = ended {
            // Nobody listens any more when the work has ended for another reason.
            let _ = read.send(Err(error)).await;
        }
    });
    let waiting = Waiting {
        messages: waiting,
        reading,
    };
    futures_util::stream::unfold(waiting, async |mut waiting| {
        waiting.messages.recv().await.map(|read| (read, waiting))
    })
    .map(move |read| {
        let (decoder, make) = (Arc::clone(&decoder), make.clone());
        async move {
            let (events, from, to) = read?;
            let decoding = tokio::task::spawn_blocking(move || {
                let stretch = decode(&decoder, events, from, to);
                let made = make(&stretch);
                (stretch, made)
            });
            match decoding.await {
                Ok(decoded) => Ok(decoded),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        }
    })
    .buffered(AT_A_TIME)
}

type Read = Result<(Vec<ReadEvent>, u64, u64), ScanError>;

/// Ends with the work that it is done for.
struct Waiting {
    messages: mpsc::Receiver<Read>,
    reading: tokio::task::JoinHandle<()>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

async fn read_all(mut scan: Scan, first: u64, last: u64, read: &mpsc::Sender<Read>) -> Result<(), ScanError> {
    let mut from = first;
    while let Some(events) = scan.next().await? {
        let to = events.last().map_or(from, |event| event.seq);
        if read.send(Ok((events, from, to))).await.is_err() {
            return Ok(());
        }
        from = to + 1;
    }
    if from <= last {
        // What is behind the last message is gone too.
        let _ = read.send(Ok((Vec::new(), from, last))).await;
    }
    Ok(())
}

fn decode(decoder: &Decoder, events: Vec<ReadEvent>, from: u64, to: u64) -> Stretch {
    let mut gone = Vec::new();
    let mut next = from;
    let mut decoded = Vec::with_capacity(events.len());
    for event in events {
        if event.seq > next {
            gone.push((next, event.seq - 1));
        }
        next = event.seq + 1;
        decoded.push(decoder.decode(Message::from(event)));
    }
    if next <= to {
        gone.push((next, to));
    }
    Stretch {
        events: decoded,
        last: to,
        gone,
    }
}
