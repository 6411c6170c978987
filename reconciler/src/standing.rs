//! How we stand with the provider: whether it may be asked, and what each of its replies means for all calls that follow.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use database::DatabaseError;
use http::StatusCode;
use service::{Chain, Condition, Stop};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::config::Pace;
use crate::doubt::Doubt;
use crate::gate::{Gate, Why};
use crate::metrics::Metrics;
use crate::provider::{Askable, Provider, Queue, Reply, Throttled};
use crate::submissions::Submissions;

/// So many pauses in a row that end without an answer, and the provider is not well, however politely it says so.
const PAUSES: u32 = 5;

/// The one way to ask the provider.
#[derive(Debug)]
pub struct Standing {
    /// Whether to ask.
    pub gate: Gate,
    provider: Provider,
    submissions: Submissions,
    metrics: Metrics,
    condition: Condition,
    stop: Stop,
    /// Bodies over so many bytes are not taken.
    body_limit: usize,
    probe_interval: Duration,
    /// How old an answered task may be for the provider to know it for certain.
    surely_kept: Duration,
    doubt: Mutex<Doubt>,
    /// Whether what answers is the provider at all: none of its answers can be used.
    strange: Mutex<Doubt>,
    /// Whether the last word of the provider was one that it gives only to those whose key it accepts.
    accepted: AtomicBool,
}

/// What a standing is made of.
#[derive(Debug)]
pub struct StandingParts {
    /// Who is asked.
    pub provider: Provider,
    /// The rows, for the pause that all reconcilers share.
    pub submissions: Submissions,
    /// What is counted.
    pub metrics: Metrics,
    /// Whether the provider accepts our key and answers.
    pub condition: Condition,
    /// Bodies over so many bytes are not taken.
    pub body_limit: usize,
}

impl Standing {
    /// Nothing was asked yet.
    pub fn new(parts: StandingParts, pace: &Pace, stop: Stop) -> Self {
        Self {
            gate: Gate::new(pace.max_in_flight),
            provider: parts.provider,
            submissions: parts.submissions,
            metrics: parts.metrics,
            condition: parts.condition,
            stop,
            body_limit: parts.body_limit,
            probe_interval: pace.denied_probe_interval,
            surely_kept: pace.lost_after / 2,
            // Before a task is given up it must have been unknown for that long.
            doubt: Mutex::new(Doubt::new(pace.gone_after)),
            strange: Mutex::new(Doubt::new(Duration::ZERO)),
            accepted: AtomicBool::new(false),
        }
    }

    /// The provider's base URL.
    pub fn provider(&self) -> &str {
        self.provider.base()
    }

    /// Asks for a task. None when the provider is not to be asked, or a stop was requested before it answered.
    pub async fn task(&self, task: &Askable) -> Option<Reply> {
        let reply = self.call(task).await?;
        match &reply {
            Reply::TooLarge | Reply::Gone => {
                self.gate.answered();
                self.well();
            }
            Reply::Denied(StatusCode::FORBIDDEN) => return self.forbidden(reply).await,
            // What the others say shows only whether somebody is there: whether that is the provider of our tasks is for
            // `knows` and `does_not_know` to say.
            other => self.hear(other).await,
        }
        Some(reply)
    }

    /// Asks what the account has left to do, if the provider may be asked. None when it did not say.
    pub async fn queue(&self) -> Option<Queue> {
        if self.gate.closed().is_some() {
            return None;
        }
        match self.stop.unless_requested(self.provider.queue()).await? {
            Ok(queue) => {
                self.gate.answered();
                self.well();
                self.metrics.queue(queue);
                return Some(queue);
            }
            Err(Reply::Denied(status)) => self.close_denied(status),
            Err(Reply::NotFound) => {
                self.gate.answered();
                self.fail("the provider answers 404 when asked for its queue: is --provider-url right?");
            }
            Err(other) => {
                self.hear(&other).await;
                debug!(
                    reply = other.as_str(),
                    "the provider does not say what its queue holds"
                );
            }
        }
        None
    }

    /// After failures: whether the provider is there, or only some tasks cannot be asked for.
    pub async fn try_again(&self) {
        if self.gate.is_to_be_tried() {
            self.queue().await;
        }
    }

    /// It knows a task of ours.
    pub fn knows(&self) {
        lock(&self.doubt).known();
        lock(&self.strange).known();
        self.well();
    }

    /// Its answer about a submission could not be used.
    pub fn cannot_be_used(&self, submission: i64, reason: &str) {
        let strange = {
            let mut strange = lock(&self.strange);
            strange.unknown(submission);
            strange.is_raised()
        };
        if strange {
            self.fail(&format!("none of its answers can be used: {reason}"));
        }
    }

    /// It does not know the task of a submission, which it should still keep, or not. Whether that can be believed.
    pub fn does_not_know(&self, submission: i64, kept: bool) -> bool {
        let believed = {
            let mut doubt = lock(&self.doubt);
            // Of what it keeps no longer, not to be known says nothing.
            if kept {
                doubt.unknown(submission);
            }
            !doubt.is_raised()
        };
        if believed {
            self.well();
        }
        believed
    }

    /// Whether it accepts our key, as far as is known.
    pub fn is_accepted(&self) -> bool {
        self.accepted.load(Ordering::Relaxed)
    }

    /// When our tasks seem to be unknown: asks for one that the provider must know. Unless it does, nothing is asked for a
    /// while, and no task is given up.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn resolve_doubt(&self) -> Result<(), DatabaseError> {
        if !lock(&self.doubt).is_raised() || self.gate.closed().is_some() {
            return Ok(());
        }
        let known = self.submissions.known_task(self.surely_kept).await?;
        if let Some(task) = known.as_deref().and_then(|task| Askable::new(task).ok()) {
            let Some(reply) = self.task(&task).await else {
                return Ok(());
            };
            match reply {
                Reply::Answer(_) | Reply::TooLarge => {
                    info!("the provider knows a task that was answered before: the unknown ones are gone");
                    self.knows();
                    return Ok(());
                }
                Reply::NotFound | Reply::Gone => {}
                // Nothing is known by that; the gate was told.
                _ => return Ok(()),
            }
        }
        self.gate.close(self.probe_interval, Why::Unknown);
        self.fail("the provider knows none of our tasks: is the key of another account, or the URL of another environment?");
        Ok(())
    }

    async fn call(&self, task: &Askable) -> Option<Reply> {
        if self.gate.closed().is_some() {
            return None;
        }
        let began = Instant::now();
        let asked = self.provider.task(task, self.body_limit);
        let reply = self.stop.unless_requested(asked).await?;
        self.metrics.called(reply.as_str(), began.elapsed());
        Some(reply)
    }

    /// 403 may be about this one task: the queue is shown to every key that is accepted.
    async fn forbidden(&self, reply: Reply) -> Option<Reply> {
        if self.gate.closed().is_none() {
            match self.stop.unless_requested(self.provider.queue()).await? {
                Ok(_) => {
                    self.gate.answered();
                    self.well();
                }
                Err(_) => self.close_denied(StatusCode::FORBIDDEN),
            }
        }
        Some(reply)
    }

    async fn hear(&self, reply: &Reply) {
        match reply {
            Reply::Answer(_) | Reply::TooLarge | Reply::NotFound | Reply::Gone | Reply::Unexpected(_) => {
                self.gate.answered()
            }
            Reply::Throttled(throttled) => self.throttled(*throttled).await,
            Reply::Denied(status) => self.close_denied(*status),
            Reply::Redirected(status) => {
                self.gate.failed(rand::random());
                self.fail(&format!("the provider answers with redirects ({status}), which are not followed: correct --provider-url"));
            }
            Reply::Failed(failure) => {
                if self.gate.failed(rand::random()) {
                    self.fail(&format!("calls fail one after the other: {}", Chain(failure)));
                }
            }
        }
    }

    async fn throttled(&self, throttled: Throttled) {
        let (pause, closes) = self.gate.throttled(throttled.retry_after, rand::random());
        self.metrics.pauses.inc();
        let reason = throttled.status.to_string();
        let closings = self.gate.closings();
        // Once for a row of them: a pause can be as short as a second.
        if closes && closings == 1 {
            info!(
                status = throttled.status.as_u16(),
                pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
                "the provider asks to be left alone; all calls wait"
            );
        }
        if closings >= PAUSES {
            self.fail(&format!("it asks again and again to be left alone ({reason})"));
        }
        if let Err(error) = self.submissions.pause(pause, &reason).await {
            warn!(error = %Chain(&error), "other reconcilers were not told of the pause");
        }
    }

    fn close_denied(&self, status: StatusCode) {
        self.gate.close(self.probe_interval, Why::Denied);
        self.fail(&format!(
            "the provider does not accept the key ({status}); trying again every {}",
            humantime::format_duration(self.probe_interval)
        ));
    }

    /// It accepts our key.
    fn well(&self) {
        self.accepted.store(true, Ordering::Relaxed);
        if !lock(&self.strange).is_raised() {
            self.condition.ok();
        }
    }

    fn fail(&self, reason: &str) {
        self.accepted.store(false, Ordering::Relaxed);
        self.condition.failing(reason);
    }
}

fn lock(doubt: &Mutex<Doubt>) -> MutexGuard<'_, Doubt> {
    // Nothing panics while it holds the lock.
    doubt.lock().unwrap_or_else(PoisonError::into_inner)
}
