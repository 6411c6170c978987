//! One submission: ask, judge, append, note.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use database::DatabaseError;
use http::StatusCode;
use schemas::delivery::OpenStatus;
use schemas::event::{Event, Source};
use service::health::{Check, Health};
use service::{Chain, Condition, Stop};
use stream::append::{AppendError, Appended};
use tokio::task::block_in_place;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::config::Pace;
use crate::doubt::Doubt;
use crate::gate::{Gate, Why};
use crate::judge::{Judged, judge};
use crate::log::Log;
use crate::metrics::{Metrics, Outcome, Reason};
use crate::provider::{Askable, Provider, Queue, Reply, Throttled};
use crate::submissions::{Due, Note, Submissions, UNUSABLE};

/// Bodies from this size on are read where they hold up nothing else on the same thread.
const LARGE_BODY: usize = 64 << 10;
/// So many pauses in a row that end without an answer, and the provider is not well, however politely it says so.
const PAUSES: u32 = 5;

/// What all checks share.
#[derive(Debug)]
pub struct Checker {
    /// The rows.
    pub submissions: Submissions,
    /// Who is asked.
    pub provider: Provider,
    /// Whether to ask.
    pub gate: Gate,
    /// Where results go.
    pub log: Log,
    /// When to ask again.
    pub pace: Pace,
    /// What the events name as their source.
    pub source: Source,
    /// What is counted.
    pub metrics: Metrics,
    /// What an operator watches.
    pub conditions: Conditions,
    /// Ends every wait.
    pub stop: Stop,
    doubt: Mutex<Doubt>,
    /// Whether what answers is the provider at all: none of its answers can be used.
    strange: Mutex<Doubt>,
    /// Whether each sweep looks at every submission.
    pub(crate) thorough: bool,
    /// The submission up to which the last sweep has looked for rows that came; 0 at the end.
    pub(crate) settled_up_to: AtomicI64,
    /// Whether the last word of the provider was one that it gives only to those whose key it accepts.
    accepted: AtomicBool,
}

/// What an operator watches.
#[derive(Debug)]
pub struct Conditions {
    /// The provider accepts our key and answers.
    pub provider: Condition,
    /// An append would succeed.
    pub stream: Condition,
    /// The database answers.
    pub database: Condition,
    /// The loop is alive.
    pub progress: Check,
}

impl Conditions {
    /// All of them fail with the reason `starting` at first; the loop may be silent for so long.
    pub fn register(health: &Health, silence: Duration) -> Self {
        Self {
            provider: Condition::register(health, "provider"),
            stream: Condition::register(health, "stream"),
            database: Condition::register(health, "database"),
            progress: health.register("loop").alive_within(silence),
        }
    }
}

/// What a check means for those that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The provider was asked.
    Asked,
    /// It was asked, and its result is on the stream.
    Appended,
    /// It was not asked.
    Released,
    /// It was asked, and nothing can be appended at the moment.
    StreamFails,
}

/// What a checker is made of.
#[derive(Debug)]
pub struct Parts {
    /// The rows.
    pub submissions: Submissions,
    /// Who is asked.
    pub provider: Provider,
    /// Where results go.
    pub log: Log,
    /// When to ask.
    pub pace: Pace,
    /// What the events name as their source.
    pub source: Source,
    /// What is counted.
    pub metrics: Metrics,
    /// What an operator watches.
    pub conditions: Conditions,
    /// Whether each sweep looks at every submission, however many there are.
    pub thorough: bool,
}

impl Checker {
    /// Has not asked anything yet.
    pub fn new(parts: Parts, stop: Stop) -> Self {
        // Before a task is given up it must have been unknown for that long.
        let doubt = Doubt::new(parts.pace.gone_after);
        Self {
            submissions: parts.submissions,
            provider: parts.provider,
            gate: Gate::new(parts.pace.max_in_flight),
            log: parts.log,
            pace: parts.pace,
            source: parts.source,
            metrics: parts.metrics,
            conditions: parts.conditions,
            stop,
            doubt: Mutex::new(doubt),
            strange: Mutex::new(Doubt::new(Duration::ZERO)),
            thorough: parts.thorough,
            settled_up_to: AtomicI64::new(0),
            accepted: AtomicBool::new(false),
        }
    }

    /// Checks a submission that was claimed.
    ///
    /// # Errors
    /// When the database fails: the claim then ends by itself, and the submission is due again.
    pub async fn check(&self, due: Due) -> Result<Step, DatabaseError> {
        let task = match Askable::new(&due.task_id) {
            Ok(task) => task,
            Err(reason) => {
                self.note(&due, &Note::Failed(&reason.to_string())).await?;
                return Ok(Step::Released);
            }
        };
        if self.gate.closed().is_some() {
            return self.release(&due).await;
        }
        let began = Instant::now();
        let asked = self.provider.task(&task, self.log.body_limit);
        let Some(reply) = self.stop.unless_requested(asked).await else {
            return self.release(&due).await;
        };
        self.metrics.called(reply.as_str(), began.elapsed());
        self.hear(&reply).await;
        match reply {
            Reply::Answer(body) => return self.answered(&due, &task, body).await,
            Reply::TooLarge => {
                let reason = format!("the answer is over {} bytes", self.log.body_limit);
                warn!(
                    task.id = due.task_id,
                    "the answer of a task is over the limit; it is not asked for again"
                );
                self.note(&due, &Note::TooLarge(&reason)).await?;
            }
            Reply::NotFound => self.not_found(&due).await?,
            Reply::Gone => {
                self.note(&due, &Note::Gone).await?;
                warn!(task.id = due.task_id, "the provider has deleted a task for ever");
            }
            Reply::Throttled(Throttled { status, .. }) => {
                self.refuse(&due, &format!("the provider asked to be left alone ({status})"))
                    .await?;
            }
            Reply::Denied(status) => return self.denied(&due, status).await,
            Reply::Redirected(status) => {
                self.note(
                    &due,
                    &Note::Failed(&format!("the provider answered with a redirect ({status})")),
                )
                .await?;
            }
            Reply::Failed(failure) => {
                let reason = Chain(&failure).to_string();
                self.note(&due, &Note::Failed(&reason)).await?;
            }
            Reply::Unexpected(answer) => {
                self.metrics
                    .unusable
                    .get_or_create(&Reason { reason: "unexpected" })
                    .inc();
                self.unusable(&due, &answer.to_string()).await?;
            }
        }
        Ok(Step::Asked)
    }

    /// What a reply means for all calls that follow.
    async fn hear(&self, reply: &Reply) {
        match reply {
            Reply::TooLarge | Reply::NotFound | Reply::Gone => {
                self.gate.answered();
                self.well();
            }
            // What it says shows only whether somebody is there: whether that is the provider, its body shows.
            Reply::Answer(_) | Reply::Unexpected(_) => self.gate.answered(),
            Reply::Throttled(throttled) => self.throttled(*throttled).await,
            // Only 401 is about the key for certain.
            Reply::Denied(StatusCode::UNAUTHORIZED) => self.close_denied(StatusCode::UNAUTHORIZED),
            Reply::Denied(_) => {}
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
        self.gate.close(self.pace.denied_probe_interval, Why::Denied);
        self.fail(&format!(
            "the provider does not accept the key ({status}); trying again every {}",
            humantime::format_duration(self.pace.denied_probe_interval)
        ));
    }

    /// The provider accepts our key.
    fn well(&self) {
        self.accepted.store(true, Ordering::Relaxed);
        if !lock(&self.strange).is_raised() {
            self.conditions.provider.ok();
        }
    }

    /// The provider knows a task of ours.
    fn knows(&self) {
        self.doubt().known();
        lock(&self.strange).known();
        self.well();
    }

    fn fail(&self, reason: &str) {
        self.accepted.store(false, Ordering::Relaxed);
        self.conditions.provider.failing(reason);
    }

    async fn answered(&self, due: &Due, task: &Askable, body: Bytes) -> Result<Step, DatabaseError> {
        let read = || judge(task.task_id(), body.clone(), &self.source);
        let judged = if body.len() < LARGE_BODY {
            read()
        } else {
            block_in_place(read)
        };
        match judged {
            Judged::Result(event) => {
                self.knows();
                return self.append(due, *event).await;
            }
            Judged::Open(status) => {
                self.knows();
                self.metrics.open.inc();
                let word = match &status {
                    OpenStatus::Queued | OpenStatus::Processing => None,
                    OpenStatus::Unknown(text) => {
                        Some(format!("the provider says that its status is {text:?}"))
                    }
                };
                self.note(due, &Note::Open(word.as_deref())).await?;
            }
            Judged::Unusable(reason) => {
                self.metrics
                    .unusable
                    .get_or_create(&Reason {
                        reason: reason.as_str(),
                    })
                    .inc();
                self.unusable(due, &reason.to_string()).await?;
            }
        }
        Ok(Step::Asked)
    }

    /// The provider told of a task of ours.
    async fn append(&self, due: &Due, event: Event) -> Result<Step, DatabaseError> {
        match self.log.appender.append(event).await {
            Ok(appended) => {
                self.count_append(appended.as_str());
                if matches!(appended, Appended::Divergent { .. }) {
                    warn!(
                        task.id = due.task_id,
                        stream.seq = appended.seq(),
                        "the provider answers another result than the one that was there; both are kept"
                    );
                }
                self.note(due, &Note::Appended { seq: appended.seq() }).await?;
                debug!(
                    task.id = due.task_id,
                    stream.seq = appended.seq(),
                    "appended the result of `{}`",
                    due.task_id
                );
                Ok(Step::Appended)
            }
            Err(error @ AppendError::TooLarge { .. }) => {
                self.count_append(error.as_str());
                warn!(task.id = due.task_id, error = %Chain(&error), "the result of a task does not fit the stream");
                self.note(due, &Note::TooLarge(&error.to_string())).await?;
                Ok(Step::Asked)
            }
            Err(error) => {
                self.count_append(error.as_str());
                self.conditions.stream.failing(&Chain(&error).to_string());
                // Due again as it was: nothing of it is lost, and the broker tells a second append from a first.
                self.note(due, &Note::Released).await?;
                Ok(Step::StreamFails)
            }
        }
    }

    fn count_append(&self, outcome: &'static str) {
        self.metrics.appends.get_or_create(&Outcome { outcome }).inc();
    }

    async fn unusable(&self, due: &Due, reason: &str) -> Result<(), DatabaseError> {
        let strange = {
            let mut strange = lock(&self.strange);
            strange.unknown(due.submission);
            strange.is_raised()
        };
        if strange {
            self.fail(&format!("none of its answers can be used: {reason}"));
        }
        let unusable = self.note(due, &Note::Unusable(reason)).await?;
        if unusable == UNUSABLE {
            warn!(
                task.id = due.task_id,
                reason, "several answers about a task could not be used"
            );
        } else {
            debug!(
                task.id = due.task_id,
                reason, "an answer about a task could not be used"
            );
        }
        Ok(())
    }

    async fn not_found(&self, due: &Due) -> Result<(), DatabaseError> {
        let believed = {
            let mut doubt = self.doubt();
            // Of what the provider keeps no longer, not to be known says nothing.
            if !due.expired {
                doubt.unknown(due.submission);
            }
            !doubt.is_raised()
        };
        let note = Note::NotFound {
            believed,
            checks: self.pace.gone_checks,
            over: self.pace.gone_after,
        };
        let next = self.next(due);
        let noted = self.submissions.note(due, &note, next).await?;
        if noted.is_some_and(|noted| noted.state == "GONE") {
            warn!(task.id = due.task_id, "the provider does not know a task");
        }
        Ok(())
    }

    /// 403 may be about this one task: the queue is shown to every key that is accepted.
    async fn denied(&self, due: &Due, status: StatusCode) -> Result<Step, DatabaseError> {
        let reason = format!("the provider does not allow it ({status})");
        if status == StatusCode::FORBIDDEN && self.gate.closed().is_none() {
            match self.stop.unless_requested(self.provider.queue()).await {
                Some(Ok(_) | Err(Reply::Answer(_))) => {
                    self.gate.answered();
                    self.note(due, &Note::Failed(&reason)).await?;
                    warn!(
                        task.id = due.task_id,
                        "the provider does not show a task of ours to this key"
                    );
                    return Ok(Step::Asked);
                }
                _ => self.close_denied(status),
            }
        }
        self.refuse(due, &reason).await?;
        Ok(Step::Asked)
    }

    /// Due again when the gate opens, behind what is due already.
    async fn refuse(&self, due: &Due, reason: &str) -> Result<(), DatabaseError> {
        let rest = self
            .gate
            .closed()
            .map_or(Duration::ZERO, |closed| closed.until - Instant::now());
        self.submissions
            .note(due, &Note::Refused(reason), rest)
            .await
            .map(drop)
    }

    async fn release(&self, due: &Due) -> Result<Step, DatabaseError> {
        self.note(due, &Note::Released).await?;
        Ok(Step::Released)
    }

    /// Notes what came of it; how many answers in a row could not be used.
    async fn note(&self, due: &Due, note: &Note<'_>) -> Result<i32, DatabaseError> {
        let noted = self.submissions.note(due, note, self.next(due)).await?;
        if noted.is_none() {
            debug!(
                task.id = due.task_id,
                "it was settled or taken by another while it was asked for"
            );
        }
        Ok(noted.map_or(0, |noted| noted.unusable))
    }

    fn next(&self, due: &Due) -> Duration {
        self.pace.schedule().after(due.checks, rand::random())
    }

    fn doubt(&self) -> MutexGuard<'_, Doubt> {
        lock(&self.doubt)
    }

    /// Whether the provider accepts our key, as far as is known.
    pub fn is_accepted(&self) -> bool {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Asks what the account has left to do, if the provider may be asked. None when it did not say.
    pub async fn queue(&self) -> Option<Queue> {
        if self.gate.closed().is_some() {
            return None;
        }
        let replied = self.stop.unless_requested(self.provider.queue()).await?;
        match replied {
            Ok(queue) => {
                self.gate.answered();
                self.well();
                self.metrics.queue(queue);
                Some(queue)
            }
            Err(reply) => {
                if let Reply::Denied(status) = reply {
                    self.close_denied(status);
                } else {
                    self.hear(&reply).await;
                }
                debug!(
                    reply = reply.as_str(),
                    "the provider does not say what its queue holds"
                );
                None
            }
        }
    }

    /// When our tasks seem to be unknown: asks for one that the provider must know. Unless it does, nothing is asked for a
    /// while, and no task is given up.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn resolve_doubt(&self) -> Result<(), DatabaseError> {
        if !self.doubt().is_raised() || self.gate.closed().is_some() {
            return Ok(());
        }
        let known = self.submissions.known_task(self.pace.lost_after / 2).await?;
        if let Some(task) = known.as_deref().and_then(|task| Askable::new(task).ok()) {
            let began = Instant::now();
            let asked = self.provider.task(&task, self.log.body_limit);
            let Some(reply) = self.stop.unless_requested(asked).await else {
                return Ok(());
            };
            self.metrics.called(reply.as_str(), began.elapsed());
            match reply {
                Reply::Answer(_) | Reply::TooLarge => {
                    info!("the provider knows a task that was answered before: the unknown ones are gone");
                    self.doubt().known();
                    return Ok(());
                }
                Reply::NotFound | Reply::Gone => {}
                other => {
                    self.hear(&other).await;
                    return Ok(());
                }
            }
        }
        self.gate.close(self.pace.denied_probe_interval, Why::Unknown);
        self.fail("the provider knows none of our tasks: is the key of another account, or the URL of another environment?");
        Ok(())
    }
}

fn lock(doubt: &Mutex<Doubt>) -> MutexGuard<'_, Doubt> {
    // Nothing panics while it holds the lock.
    doubt.lock().unwrap_or_else(PoisonError::into_inner)
}
