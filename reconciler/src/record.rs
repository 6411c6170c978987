//! The command `record`: registers submitted tasks, from arguments or from lines of JSON.

use std::io::BufRead;
use std::time::Duration;

use database::{Database, DatabaseError, FitError};
use schemas::delivery::TaskId;
use serde::Deserialize;
use service::Stop;
use thiserror::Error;
use time::{OffsetDateTime, UtcOffset};
use tokio::sync::mpsc;

use crate::config::RecordConfig;
use crate::open::APPLICATION;
use crate::submissions::{Recorded, Submissions};

/// Lines in one transaction.
const AT_ONCE: usize = 5_000;
/// Bad lines that are named.
const NAMED: usize = 20;

/// A task that somebody submitted. Id and key obey the same rule, and one of them is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Its id, when it is known.
    pub task_id: Option<TaskId>,
    /// Its key, when it was created with one.
    pub idempotency_key: Option<TaskId>,
    /// When it was submitted, when that was not now.
    pub created_at: Option<OffsetDateTime>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    task_id: Option<String>,
    idempotency_key: Option<String>,
    #[serde(default, with = "time::serde::rfc3339::option")]
    created_at: Option<OffsetDateTime>,
}

/// Why a line is no submission.
#[derive(Debug, Error)]
pub enum BadLine {
    /// It is not the JSON object that it should be.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// The id breaks a rule.
    #[error("task_id: {0}")]
    Id(#[source] schemas::delivery::InvalidTaskId),
    /// The key breaks a rule.
    #[error("idempotency_key: {0}")]
    Key(#[source] schemas::delivery::InvalidTaskId),
    /// The time is none that a program can read again.
    #[error("created_at: not within the years that there are")]
    CreatedAt,
    /// There is neither.
    #[error("neither task_id nor idempotency_key")]
    Neither,
}

/// Why not everything was recorded. What was recorded stays; recording all of it again is safe.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The database cannot be used.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Standard input cannot be read.
    #[error("reading standard input")]
    Read(#[source] std::io::Error),
    /// Some lines are none.
    #[error("{0} lines were not recorded")]
    BadLines(u64),
    /// Told to stop.
    #[error("stopped before everything was recorded")]
    Stopped,
}

impl Submission {
    /// `TASK_ID` or `TASK_ID=KEY`.
    ///
    /// # Errors
    /// When id or key cannot be one.
    pub fn from_argument(text: &str) -> Result<Self, schemas::delivery::InvalidTaskId> {
        let (id, key) = match text.split_once('=') {
            Some((id, key)) => (id, Some(key)),
            None => (text, None),
        };
        Ok(Self {
            task_id: Some(id.parse()?),
            idempotency_key: key.map(str::parse).transpose()?,
            created_at: None,
        })
    }

    /// A key alone.
    ///
    /// # Errors
    /// When it cannot be one.
    pub fn from_key(key: &str) -> Result<Self, schemas::delivery::InvalidTaskId> {
        Ok(Self {
            task_id: None,
            idempotency_key: Some(key.parse()?),
            created_at: None,
        })
    }

    /// A line of JSON.
    ///
    /// # Errors
    /// When it is none of a submission.
    pub fn from_line(line: &[u8]) -> Result<Self, BadLine> {
        let line: Line = serde_json::from_slice(line)?;
        let parse = |text: Option<String>| text.map(|text| text.parse()).transpose();
        let submission = Self {
            task_id: parse(line.task_id).map_err(BadLine::Id)?,
            idempotency_key: parse(line.idempotency_key).map_err(BadLine::Key)?,
            created_at: line
                .created_at
                .map(|at| at.checked_to_offset(UtcOffset::UTC).ok_or(BadLine::CreatedAt))
                .transpose()?,
        };
        if submission.task_id.is_none() && submission.idempotency_key.is_none() {
            return Err(BadLine::Neither);
        }
        Ok(submission)
    }
}

/// Records what the arguments and standard input name, and prints how many there were.
///
/// # Errors
/// When not everything was recorded.
pub async fn run(config: RecordConfig, stop: Stop) -> Result<(), RecordError> {
    let database::Target {
        config: target,
        connector,
        ..
    } = config.database;
    let database = Database::new(target, connector, APPLICATION, 1, config.limits);
    // A pause of the provider is no matter here.
    let submissions = Submissions::new(database, "");
    let recording = async {
        submissions.check().await?;
        let mut book = Book {
            submissions: &submissions,
            first_check_after: config.first_check_after,
            recorded: Recorded::default(),
        };
        book.enter(&config.submissions).await?;
        let bad = if config.stdin {
            book.enter_lines().await?
        } else {
            0
        };
        println!(
            "recorded {} submissions, {} were recorded before",
            book.recorded.new, book.recorded.known
        );
        if bad > 0 {
            return Err(RecordError::BadLines(bad));
        }
        Ok(())
    };
    stop.unless_requested(recording)
        .await
        .unwrap_or(Err(RecordError::Stopped))
}

struct Book<'s> {
    submissions: &'s Submissions,
    first_check_after: Duration,
    recorded: Recorded,
}

impl Book<'_> {
    async fn enter(&mut self, submissions: &[Submission]) -> Result<(), DatabaseError> {
        for some in submissions.chunks(AT_ONCE) {
            let recorded = self.submissions.record(some, self.first_check_after).await?;
            self.recorded.new += recorded.new;
            self.recorded.known += recorded.known;
        }
        Ok(())
    }

    /// The number of lines that are no submissions.
    async fn enter_lines(&mut self) -> Result<u64, RecordError> {
        // Read on a thread that may block: standard input may be a pipe that nobody closes.
        let (sender, mut lines) = mpsc::channel(AT_ONCE);
        std::thread::spawn(move || {
            // As bytes: one that is no text is a bad line like others.
            for line in std::io::stdin().lock().split(b'\n') {
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        let (mut number, mut bad, mut some) = (0_u64, 0_u64, Vec::new());
        let mut read = Vec::new();
        while lines.recv_many(&mut read, AT_ONCE).await > 0 {
            for line in read.drain(..) {
                let line = line.map_err(RecordError::Read)?;
                number += 1;
                if line.trim_ascii().is_empty() {
                    continue;
                }
                match Submission::from_line(&line) {
                    Ok(submission) => some.push(submission),
                    Err(reason) => {
                        bad += 1;
                        if bad <= NAMED as u64 {
                            eprintln!("line {number}: {reason}");
                        }
                    }
                }
            }
            self.enter(&some).await?;
            some.clear();
        }
        Ok(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_an_id_with_or_without_a_key() {
        let submission = Submission::from_argument("t-1").unwrap();
        assert_eq!(submission.task_id.unwrap().as_str(), "t-1");
        assert_eq!(submission.idempotency_key, None);
        let submission = Submission::from_argument("t-1=best crm|DE=2").unwrap();
        assert_eq!(submission.idempotency_key.unwrap().as_str(), "best crm|DE=2");
        for text in ["", "=k", "t=", "t\n"] {
            assert!(Submission::from_argument(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_line_names_a_task_or_a_key_and_nothing_else() {
        let line = br#"{"task_id":"t","idempotency_key":"k","created_at":"2026-11-30T12:00:00Z"}"#;
        assert!(Submission::from_line(line).unwrap().created_at.is_some());
        for line in [
            r#"{"task_id":"t"}"#,
            r#"{"idempotency_key":"k","task_id":null}"#,
            "{\"task_id\":\"t\"}\r",
        ] {
            assert!(Submission::from_line(line.as_bytes()).is_ok(), "{line}");
        }
        for line in [
            "{}",
            "t",
            r#"{"task_id":7}"#,
            r#"{"task_id":""}"#,
            r#"{"taskId":"t"}"#,
            r#"{"task_id":"t","created_at":"noon"}"#,
            r#"{"task_id":"t","created_at":"9999-12-31T23:59:59-01:00"}"#,
            r#"{"idempotency_key":"a\u0000b"}"#,
        ] {
            assert!(Submission::from_line(line.as_bytes()).is_err(), "{line}");
        }
        assert!(Submission::from_line(b"{\"task_id\":\"\xff\"}").is_err());
    }
}
