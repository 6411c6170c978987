//! One request: admit, check the headers, read, verify, classify, append, answer.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, Request, Response};
use http_body::Body;
use http_body_util::Full;
use schemas::event::{Classified, Event, Source, Trace, Via, classify};
use schemas::signature::{Claim, Scheme, UnixSeconds, Verifier};
use service::{Chain, Stop};
use stream::append::{Appended, Appender};
use tokio::task::block_in_place;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::admit::{Gate, Room};
use crate::answer::{self, Notice, Refusal};
use crate::body;
use crate::config::Limits;
use crate::diagnose;
use crate::metrics::Metrics;
use crate::throttle::Throttle;

/// Bodies from this size on are checked and read where they hold up no other request of the same thread.
const LARGE_BODY: usize = 64 << 10;

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");

/// The hook, shared by all connections.
#[derive(Debug)]
pub(crate) struct Hook {
    pub(crate) path: String,
    pub(crate) scheme: Scheme,
    pub(crate) verifier: Verifier,
    pub(crate) source: Source,
    pub(crate) limits: Limits,
    pub(crate) now: fn() -> UnixSeconds,
    pub(crate) gate: Arc<Gate>,
    pub(crate) metrics: Metrics,
    pub(crate) stop: Stop,
    /// Set once the stream was found to be what it should be.
    pub(crate) log: OnceLock<Log>,
    pub(crate) alerts: Throttle,
}

/// Where events go, and how large the body of one can be.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) appender: Appender,
    /// In bytes.
    pub(crate) body_limit: usize,
}

/// A request that was let in.
struct Admitted<'h> {
    log: &'h Log,
    room: Room,
    arrived: Instant,
}

impl Hook {
    /// Answers one request.
    pub(crate) async fn receive<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let arrived = Instant::now();
        let (head, mut body) = request.into_parts();
        let taken = match self.admit(&head, arrived) {
            Ok(admitted) => self.take(admitted, &head.headers, &mut body).await,
            Err(refusal) => Err(refusal),
        };
        match taken {
            Ok(()) => {
                self.metrics.answered(arrived.elapsed());
                answer::accepted()
            }
            Err(refusal) => self.refuse(&refusal, &head.headers, &mut body).await,
        }
    }

    /// What can be told without looking at signature or body, and whether there is room.
    fn admit(&self, head: &Parts, arrived: Instant) -> Result<Admitted<'_>, Refusal> {
        if self.stop.is_requested() {
            return Err(Refusal::Stopping);
        }
        let path = head.uri.path();
        if path.strip_suffix('/').unwrap_or(path) != self.path {
            return Err(Refusal::Path);
        }
        if head.method != Method::POST {
            return Err(Refusal::Method);
        }
        if is_encoded(&head.headers) {
            return Err(Refusal::Encoding);
        }
        let log = self.log.get().ok_or(Refusal::Starting)?;
        if declared_length(&head.headers).is_some_and(|length| length > log.body_limit as u64) {
            return Err(Refusal::DeclaredTooLarge);
        }
        let room = self.gate.enter().ok_or(Refusal::Crowded)?;
        Ok(Admitted { log, room, arrived })
    }

    async fn take<B>(&self, admitted: Admitted<'_>, headers: &HeaderMap, body: &mut B) -> Result<(), Refusal>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let Admitted {
            log,
            mut room,
            arrived,
        } = admitted;
        let now = (self.now)();
        let claim = self
            .verifier
            .read_claim(headers, now)
            .map_err(Refusal::Signature)?;
        let deadline = arrived + self.limits.body_deadline;
        let bytes = body::read(body, log.body_limit, deadline, &mut room)
            .await
            .map_err(Refusal::Body)?;
        let classified = if bytes.len() < LARGE_BODY {
            self.classify(&claim, bytes, headers, now)
        } else {
            block_in_place(|| self.classify(&claim, bytes, headers, now))
        };
        match classified? {
            Classified::Test => {
                self.metrics.tests.inc();
                debug!("a test delivery arrived; nothing is stored for it");
            }
            Classified::Result { event, .. } => {
                let kind = event.kind;
                if let Appended::Divergent { seq } = self.append(log, event).await? {
                    warn!(
                        stream.seq = seq,
                        kind = kind.as_str(),
                        "a task has another result than before; both are kept"
                    );
                }
            }
            Classified::NonFinal {
                event,
                task_id,
                status,
            } => {
                let seq = self.append(log, event).await?.seq();
                warn!(stream.seq = seq, task.id = %task_id, task.status = %status, "a delivery of a task that has not ended");
            }
            Classified::Quarantine { event, reason } => {
                let seq = self.append(log, event).await?.seq();
                self.metrics.quarantined(reason.as_str());
                warn!(
                    stream.seq = seq,
                    reason = reason.as_str(),
                    "no task can be read from a verified body: {reason}"
                );
            }
        }
        Ok(())
    }

    /// Checks the signature, and only then looks into the body.
    fn classify(
        &self,
        claim: &Claim,
        body: Bytes,
        headers: &HeaderMap,
        now: UnixSeconds,
    ) -> Result<Classified, Refusal> {
        let verified = self.verifier.verify(claim, body).map_err(Refusal::Signature)?;
        self.metrics.verified(
            verified.key_index(),
            now - claim.timestamp(),
            verified.body().len(),
        );
        let trace = Trace::from_headers(headers, &WEBHOOK_ID);
        Ok(classify(verified.into_body(), Via::Webhook, &self.source, trace))
    }

    /// Appends and waits until the stream has it.
    async fn append(&self, log: &Log, event: Event) -> Result<Appended, Refusal> {
        let (kind, began) = (event.kind, Instant::now());
        let appended = log.appender.append(event).await.map_err(Refusal::Append)?;
        self.metrics.appended(kind, appended, began.elapsed());
        Ok(appended)
    }

    /// Counts, logs and answers what was not taken. A short rest of the body is taken off the connection first, so that it can be
    /// kept; but a sender that waits for `100 Continue` is not asked for a body that is not wanted.
    async fn refuse<B>(&self, refusal: &Refusal, headers: &HeaderMap, body: &mut B) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        self.note(refusal, headers);
        let problem = refusal.problem();
        let keep = problem.keeps_connection() && !headers.contains_key(EXPECT) && body::drain(body).await;
        problem.response(keep)
    }

    fn note(&self, refusal: &Refusal, headers: &HeaderMap) {
        let reason = refusal.reason();
        self.metrics.refused(reason);
        if matches!(refusal, Refusal::Signature(_)) && diagnose::wrong_scheme_suspected(&self.scheme, headers)
        {
            self.metrics.wrong_scheme_suspected.inc();
        }
        match refusal.notice() {
            Notice::Quiet => debug!(reason, "refused a request"),
            Notice::Alert => {
                if let Some(more) = self.alerts.due(reason) {
                    let error = refusal.cause().map(Chain);
                    let error = error.as_ref().map(tracing::field::display);
                    warn!(
                        reason,
                        error, more, "refused a request; the sender will try again"
                    );
                }
            }
        }
    }
}

fn is_encoded(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// hyper has refused lengths that are not numbers or contradict each other.
fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
