//! Going through the stream from its first message to an end, decoding on the way.
//!
//! Three things happen at a time: the next messages are read from the broker, on a thread of their own, the ones before are
//! decoded on others, and the ones before those are brought into the database. Between them is room for a few stretches of the stream and no
//! more, so memory does not grow with its length.

use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use stream::read::{Scan, ScanError};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::report::Gone;
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Messages.
    pub(super) events: u64,
    /// Messages that hold a result.
    pub(super) results: u64,
    /// Messages to park.
    pub(super) parked: u64,
    /// Messages of tasks that have not ended.
    pub(super) nonfinal: u64,
    /// Sequences that hold nothing.
    pub(super) gone: Gone,
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
        for (first, last) in &stretch.gone {
            self.gone.add(*first, *last);
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
    let reading = spawn_blocking(move || read_here(scan, first, last, read));
    let waiting = (waiting, reading);
    futures_util::stream::unfold(waiting, async |(mut waiting, reading)| {
        match waiting.recv().await {
            Some(read) => Some((read, (waiting, reading))),
            None => match reading.await {
                Ok(()) => None,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
        }
    })
    .map(move |read| {
        let (decoder, make) = (Arc::clone(&decoder), make.clone());
        async move {
            let (messages, from, to) = read?;
            let decoding = spawn_blocking(move || {
                let stretch = decode(&decoder, messages, from, to);
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

type Read = Result<(Vec<Message>, u64, u64), ScanError>;

/// Reads on this thread alone, the connection included: handed from one to another, each message would wake a thread. Ends when
/// nobody listens any more.
fn read_here(scan: Scan, first: u64, last: u64, read: mpsc::Sender<Read>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a thread with a runtime can have another one");
    runtime.block_on(async {
        tokio::select! {
            ended = read_all(scan, first, last, &read) => if let Err(error) = ended {
                let _ = read.send(Err(error)).await;
            },
            () = read.closed() => {}
        }
    });
}

async fn read_all(mut scan: Scan, first: u64, last: u64, read: &mpsc::Sender<Read>) -> Result<(), ScanError> {
    let mut from = first;
    while let Some(events) = scan.next().await? {
        let to = events.last().map_or(from, |event| event.seq);
        // Only what is needed goes on: headers are many small pieces of memory, best given back by the thread that took them.
        let messages = events.into_iter().map(Message::from).collect();
        if read.send(Ok((messages, from, to))).await.is_err() {
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

fn decode(decoder: &Decoder, messages: Vec<Message>, from: u64, to: u64) -> Stretch {
    let mut gone = Vec::new();
    let mut next = from;
    let mut decoded = Vec::with_capacity(messages.len());
    for message in messages {
        if message.seq > next {
            gone.push((next, message.seq - 1));
        }
        next = message.seq + 1;
        decoded.push(decoder.decode(message));
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
