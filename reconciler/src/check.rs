//! One submission: ask, judge, append, note.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::Duration;

use bytes::Bytes;
use database::DatabaseError;
use schemas::delivery::OpenStatus;
use schemas::event::{Event, Source};
use service::health::{Check, Health};
use service::{Chain, Condition, Stop};
use stream::append::{AppendError, Appended};
use tokio::task::block_in_place;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::config::Pace;
use crate::judge::{Judged, judge};
use crate::log::Log;
use crate::metrics::{Metrics, Outcome, Reason};
use crate::provider::{Askable, Reply, Throttled};
use crate::standing::Standing;
use crate::submissions::{Due, Note, Submissions, UNUSABLE};

/// Bodies from this size on are read where they hold up nothing else on the same thread.
const LARGE_BODY: usize = 64 << 10;

/// What all checks share.
#[derive(Debug)]
pub struct Checker {
    /// The rows.
    pub submissions: Submissions,
    /// Who is asked.
    pub standing: Standing,
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
    /// Whether each sweep looks at every submission, however many there are.
    pub thorough: bool,
    /// What is remembered from sweep to sweep.
    pub sweeping: Sweeping,
}

/// What an operator watches, beside the provider.
#[derive(Debug)]
pub struct Conditions {
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
            stream: Condition::register(health, "stream"),
            database: Condition::register(health, "database"),
            progress: health.register("loop").alive_within(silence),
        }
    }
}

/// What is remembered from sweep to sweep.
#[derive(Debug, Default)]
pub struct Sweeping {
    /// The submission up to which the last one has looked for rows that came; 0 at the end.
    pub(crate) settled_up_to: AtomicI64,
    /// Whether the last one waited for the projection.
    pub(crate) waited: AtomicBool,
    /// When the last one must end, once a stop was requested.
    pub(crate) end: OnceLock<Instant>,
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

impl Checker {
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
        let Some(reply) = self.standing.task(&task).await else {
            self.note(&due, &Note::Released).await?;
            return Ok(Step::Released);
        };
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
            Reply::Denied(status) => {
                let reason = format!("the provider does not allow it ({status})");
                // Where calls go on, it was about this task.
                if self.standing.gate.closed().is_some() {
                    self.refuse(&due, &reason).await?;
                } else {
                    self.note(&due, &Note::Failed(&reason)).await?;
                    warn!(
                        task.id = due.task_id,
                        "the provider does not show a task of ours to this key"
                    );
                }
            }
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

    async fn answered(&self, due: &Due, task: &Askable, body: Bytes) -> Result<Step, DatabaseError> {
        let read = || judge(task.task_id(), body.clone(), &self.source);
        let judged = if body.len() < LARGE_BODY {
            read()
        } else {
            block_in_place(read)
        };
        match judged {
            Judged::Result(event) => {
                self.standing.knows();
                return self.append(due, *event).await;
            }
            Judged::Open(status) => {
                self.standing.knows();
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
        self.standing.cannot_be_used(due.submission, reason);
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
        let believed = self.standing.does_not_know(due.submission, !due.expired);
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

    /// Due again when the gate opens, behind what is due already.
    async fn refuse(&self, due: &Due, reason: &str) -> Result<(), DatabaseError> {
        let rest = self
            .standing
            .gate
            .closed()
            .map_or(Duration::ZERO, |closed| closed.until - Instant::now());
        self.submissions
            .note(due, &Note::Refused(reason), rest)
            .await
            .map(drop)
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
}
