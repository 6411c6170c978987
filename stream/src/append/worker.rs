//! The task that moves events, messages and answers between the callers, the engine and the broker.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_nats::message::OutboundMessage;
use async_nats::{Client, Message, Subscriber};
use futures_util::{FutureExt, Sink, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio::time::{Sleep, sleep_until};
use tracing::{debug, error};

use super::engine::{Compared, Engine, Fixed, Request};
use super::metrics::Metrics;
use super::pace::{Pace, Way};
use super::probe::Look;
use super::recent::RecentIds;
use super::settings::AppendSettings;
use super::standing::NotStored;
use super::{StartError, now};
use crate::connect::{Connection, ServerVersion};
use crate::declare::Declared;
use crate::stored;

/// From this version on an atomic batch is one commit; before it every message of a batch is synced by itself.
const BATCHES_PAY_FROM: ServerVersion = (2, 15, 0);

/// Most events, or answers, taken at once before the others get their turn.
const CHUNK: usize = 256;

/// What an appender and its worker tell each other: events, what was found out about the stream, and whether events are
/// being stored.
type Channels = (
    mpsc::Receiver<Request>,
    watch::Receiver<Option<Look>>,
    watch::Sender<Option<NotStored>>,
);

/// Runs an appender. Spawn [`Worker::run`]; when it ends early, appending has ended.
#[derive(Debug)]
pub struct Worker {
    engine: Engine,
    connection: Connection,
    connects: u64,
    requests: mpsc::Receiver<Request>,
    looks: watch::Receiver<Option<Look>>,
    not_stored: watch::Sender<Option<NotStored>>,
    answers: Subscriber,
    compared: (mpsc::Sender<Compared>, mpsc::Receiver<Compared>),
    /// Whether the stream takes batches.
    atomic: bool,
    /// The largest message that the stream takes; the server may take less.
    stream_max_message: usize,
}

impl Worker {
    pub(super) async fn new(
        connection: Connection,
        declared: &Declared,
        settings: &AppendSettings,
        metrics: Metrics,
        (requests, looks, not_stored): Channels,
    ) -> Result<Self, StartError> {
        let config = &declared.info.config;
        // The last token of a fresh inbox is unique to this client.
        let inbox = connection.client.new_inbox();
        let unique = inbox.rsplit('.').next().unwrap_or(&inbox).to_owned();
        let answers = connection.client.subscribe(format!("{inbox}.>")).await?;
        let fixed = Fixed {
            stream: config.name.clone(),
            subjects: declared.subjects.clone(),
            inbox,
            batch_prefix: format!("{unique}-"),
            read_subject: connection.api(&stored::request(&config.name)).into(),
            max_message: declared.max_message,
            limit: settings.publish_timeout,
        };
        let pace = Pace::new(settings.mode, Way::Plain);
        let recent = RecentIds::new(settings.recent_ids, settings.recent_ids_age);
        let mut worker = Self {
            engine: Engine::new(fixed, pace, recent, metrics),
            connects: 0,
            connection,
            requests,
            looks,
            not_stored,
            answers,
            compared: mpsc::channel(64),
            atomic: config.allow_atomic_publish,
            stream_max_message: usize::try_from(config.max_message_size)
                .ok()
                .filter(|size| *size > 0)
                .unwrap_or(usize::MAX),
        };
        worker.follow_stream();
        worker.follow_connection();
        Ok(worker)
    }

    /// Works until all appenders are gone and everything appended is settled.
    pub async fn run(mut self) {
        let mut requests = Vec::with_capacity(CHUNK);
        let mut timer = Box::pin(sleep_until(tokio::time::Instant::now()));
        let mut open = true;
        let mut client = self.connection.client.clone();
        while open || !self.engine.is_idle() {
            self.engine.pump(now());
            self.start_comparisons();
            self.tell_standing();
            let has_wake = self.set(timer.as_mut());
            let has_output = !self.engine.output.is_empty();
            tokio::select! {
                received = self.requests.recv_many(&mut requests, CHUNK), if open => {
                    open = received > 0;
                    // What was found out about the stream before these came holds for them.
                    if self.looks.has_changed().unwrap_or(false) {
                        self.follow_stream();
                    }
                    let now = now();
                    for request in requests.drain(..) {
                        self.engine.submit(request, now);
                    }
                }
                answer = self.answers.next() => {
                    let Some(answer) = answer else {
                        error!("the NATS client is closed; nothing can be appended any more");
                        return;
                    };
                    self.answered(answer);
                }
                written = poll_fn(|context| write(&mut client, &mut self.engine, context)), if has_output => {
                    if let Err(error) = written {
                        // Sizes were checked and subjects are our own, so this is a client that has ended; its
                        // events are answered at their deadlines.
                        debug!(%error, "the NATS client takes no messages");
                    }
                }
                Some(compared) = self.compared.1.recv() => self.engine.compared(compared, now()),
                () = self.connection.changed() => self.follow_connection(),
                Ok(()) = self.looks.changed() => self.follow_stream(),
                () = timer.as_mut(), if has_wake => {}
            }
        }
    }

    /// Takes the answers that are there, together with the first.
    fn answered(&mut self, first: Message) {
        let now = now();
        self.engine.replied(first, now);
        for _ in 1..CHUNK {
            match self.answers.next().now_or_never() {
                Some(Some(answer)) => self.engine.replied(answer, now),
                Some(None) | None => break,
            }
        }
    }

    fn follow_connection(&mut self) {
        let connects = self.connection.connects();
        if !self.connection.is_connected() {
            return self.engine.disconnected(now());
        }
        if connects != self.connects {
            self.connects = connects;
            let batches = self.atomic && self.connection.server_version() >= BATCHES_PAY_FROM;
            let max_message = self.stream_max_message.min(self.connection.max_payload());
            self.engine.connected(batches, max_message, now());
        }
    }

    fn follow_stream(&mut self) {
        self.engine.looked(*self.looks.borrow_and_update());
    }

    fn tell_standing(&self) {
        let standing = self.engine.standing.not_stored();
        self.not_stored.send_if_modified(|told| {
            let changed = told.as_ref() != standing;
            if changed {
                *told = standing.cloned();
            }
            changed
        });
    }

    fn start_comparisons(&mut self) {
        for comparison in self.engine.comparisons.drain(..) {
            let compared = self.compared.0.clone();
            // Reading megabytes of JSON takes long enough to be kept off the runtime.
            tokio::task::spawn_blocking(move || {
                // The engine has ended, or the event was answered meanwhile: nobody waits for it.
                let _ = compared.blocking_send(comparison.make());
            });
        }
    }

    /// Sets the timer, if there is anything to wait for; to a later time only when it has run out, for most
    /// deadlines are met long before.
    fn set(&self, timer: Pin<&mut Sleep>) -> bool {
        let Some(wake) = self.engine.next_wake().map(tokio::time::Instant::from_std) else {
            return false;
        };
        if timer.is_elapsed() || wake < timer.deadline() {
            timer.reset(wake);
        }
        true
    }
}

/// Hands messages to the client for as long as it takes them.
fn write(
    client: &mut Client,
    engine: &mut Engine,
    context: &mut Context<'_>,
) -> Poll<Result<(), async_nats::PublishError>> {
    loop {
        if engine.output.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let ready = Sink::<OutboundMessage>::poll_ready(Pin::new(client), context);
        match ready {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) => {
                engine.output.clear();
                return Poll::Ready(Err(error));
            }
            Poll::Ready(Ok(())) => {
                let Some(message) = engine.output.pop_front() else {
                    return Poll::Ready(Ok(()));
                };
                if let Err(error) = Sink::start_send(Pin::new(client), message) {
                    return Poll::Ready(Err(error));
                }
            }
        }
    }
}
