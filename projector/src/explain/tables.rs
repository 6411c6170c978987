//! What the tables say. Everything is read at one moment.

use std::collections::HashMap;

use schemas::delivery::{FinalStatus, TaskId};
use schemas::digest::ResponseDigest;
use schemas::job_key::{Rules, of_key};
use schemas::winner::{JobRank, Provenance, TaskRank};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::facts::{AnswerFacts, Submission, WinnerFacts};
use super::submissions;
use crate::config::Question;
use crate::parked::rows::{Parked, of_tasks};
use crate::remembered::{Remembered, look};
use crate::statements::query;
use database::DatabaseError;

const ANSWERS: &str = "
select task_id, job_key, idempotency_key, status, created_at, response_digest, response is not null, problem, via, stream_seq,
       received_at
  from answers where task_id = any($1) or job_key = any($2)
 order by task_id";

const RESPONSES: &str = "
select task_id, response::text from answers where task_id = any($1) and response is not null";

const WINNERS: &str = "
select job_key, task_id, status, created_at, stream_seq from winners where job_key = any($1) order by job_key";

/// What to look for.
#[derive(Debug)]
pub(super) struct Wanted<'q> {
    /// The stream.
    pub(super) stream: &'q str,
    /// When it was created; where it was not looked at, a moment without any.
    pub(super) created: Option<OffsetDateTime>,
    /// What was asked.
    pub(super) question: &'q Question,
    /// The sequences of the events that were found.
    pub(super) seqs: Vec<i64>,
    /// The tasks that these events speak of.
    pub(super) tasks: Vec<String>,
    /// The jobs that they count for.
    pub(super) jobs: Vec<String>,
    /// The keys they were sent with.
    pub(super) keys: Vec<String>,
    /// Responses as well.
    pub(super) response: bool,
}

impl Wanted<'_> {
    /// The jobs that the answer is about: those of the events and of the task's row, or the one that was asked about.
    pub(super) fn jobs_of(&self, tables: &Tables) -> Vec<String> {
        match self.question {
            Question::Job(key) => vec![key.clone()],
            Question::Task(id) => {
                let own = tables.answers.iter().filter(|row| row.task_id == id.as_str());
                let mut jobs: Vec<String> = self
                    .jobs
                    .iter()
                    .cloned()
                    .chain(own.map(|row| row.job_key.clone()))
                    .collect();
                jobs.sort();
                jobs.dedup();
                jobs
            }
        }
    }
}

/// What was found.
#[derive(Debug)]
pub(super) struct Tables {
    /// The row of `projection`.
    pub(super) remembered: Option<Remembered>,
    /// The rows of the tasks, and of every other task of their jobs.
    pub(super) answers: Vec<AnswerFacts>,
    /// The winners of their jobs, with the job keys.
    pub(super) winners: Vec<(String, WinnerFacts)>,
    /// What is parked of them.
    pub(super) parked: Vec<Parked>,
    /// What was submitted.
    pub(super) submissions: Vec<Submission>,
}

/// The rules that the rows were made under; the usual ones where there are none yet.
///
/// # Errors
/// When the database fails.
pub(crate) async fn rules(client: &Client, stream: &str) -> Result<Rules, DatabaseError> {
    let remembered = look(client, stream).await?;
    Ok(remembered.map_or_else(Rules::default, |row| row.rules))
}

/// The job that is meant by a key: the one of this name, or else the one that a task with this idempotency key belongs to.
///
/// # Errors
/// When the database fails.
pub(super) async fn job_of(client: &Client, stream: &str, key: &str) -> Result<String, DatabaseError> {
    let own = winners(client, &[key.to_owned()]).await?;
    if own.is_empty() {
        Ok(of_key(rules(client, stream).await?, key).to_owned())
    } else {
        Ok(key.to_owned())
    }
}

/// Reads it.
///
/// # Errors
/// When the database fails.
pub(super) async fn read(client: &Client, wanted: &Wanted<'_>) -> Result<Tables, DatabaseError> {
    let remembered = look(client, wanted.stream).await?;
    let rules = remembered.as_ref().map_or_else(Rules::default, |row| row.rules);
    let mut tasks = wanted.tasks.clone();
    let mut jobs = wanted.jobs.clone();
    match wanted.question {
        Question::Task(id) => {
            tasks = vec![id.as_str().to_owned()];
            // The job of its row, which may be another than any event says that is still there.
            let own = answers(client, &tasks, &[]).await?;
            jobs.extend(own.into_iter().map(|row| row.job_key));
        }
        Question::Job(key) => jobs.push(key.clone()),
    }
    let winners = winners(client, &jobs).await?;
    let among: Vec<String> = tasks
        .iter()
        .cloned()
        .chain(winners.iter().map(|(_, winner)| winner.task_id.clone()))
        .collect();
    let mut answers = answers(client, &among, &jobs).await?;
    if let Question::Job(key) = wanted.question {
        tasks.extend(
            answers
                .iter()
                .filter(|row| row.job_key == *key)
                .map(|row| row.task_id.clone()),
        );
    }
    if wanted.response {
        respond(client, &mut answers, &tasks).await?;
    }
    let parked = of_tasks(client, &tasks, wanted.created, &wanted.seqs).await?;
    let mut keys = wanted.keys.clone();
    keys.extend(
        answers
            .iter()
            .filter(|row| tasks.contains(&row.task_id))
            .filter_map(|row| row.idempotency_key.clone()),
    );
    let submissions = submissions::read(client, &tasks, &keys, wanted.question, rules).await?;
    Ok(Tables {
        remembered,
        answers,
        winners,
        parked,
        submissions,
    })
}

/// Each row as what `read` makes of it.
pub(super) fn each<T>(
    rows: &[Row],
    attempt: &'static str,
    read: impl Fn(&Row) -> Result<T, tokio_postgres::Error>,
) -> Result<Vec<T>, DatabaseError> {
    rows.iter()
        .map(read)
        .collect::<Result<_, _>>()
        .map_err(DatabaseError::of(attempt))
}

async fn answers(
    client: &Client,
    tasks: &[String],
    jobs: &[String],
) -> Result<Vec<AnswerFacts>, DatabaseError> {
    let attempt = "reading answers";
    let values: [(&(dyn ToSql + Sync), Type); 2] = [(&tasks, Type::TEXT_ARRAY), (&jobs, Type::TEXT_ARRAY)];
    let rows = query(client, attempt, ANSWERS, &values).await?;
    each(&rows, attempt, |row| {
        let (status, created_at): (String, _) = (row.try_get(3)?, row.try_get(4)?);
        let (digest, seq): (Vec<u8>, i64) = (row.try_get(5)?, row.try_get(9)?);
        let received_at = row.try_get(10)?;
        let rank = TaskRank {
            status: of_status(&status),
            created_at,
            // The column holds 32 bytes by its constraint.
            digest: ResponseDigest::from_bytes(digest.as_slice().try_into().unwrap_or_default()),
        };
        let provenance = Provenance {
            received_at,
            stream_seq: seq.unsigned_abs(),
        };
        Ok(AnswerFacts {
            task_id: row.try_get(0)?,
            job_key: row.try_get(1)?,
            idempotency_key: row.try_get(2)?,
            status,
            created_at,
            response_digest: hex::encode(digest),
            has_response: row.try_get(6)?,
            problem: row.try_get(7)?,
            via: row.try_get(8)?,
            stream_seq: seq,
            received_at,
            response: None,
            rank: (rank, provenance),
        })
    })
}

/// Adds the responses of these tasks.
async fn respond(
    client: &Client,
    answers: &mut [AnswerFacts],
    tasks: &[String],
) -> Result<(), DatabaseError> {
    let attempt = "reading responses";
    let rows = query(client, attempt, RESPONSES, &[(&tasks, Type::TEXT_ARRAY)]).await?;
    let found = each(&rows, attempt, |row| Ok((row.try_get(0)?, row.try_get(1)?)))?;
    let mut found: HashMap<String, String> = found.into_iter().collect();
    for row in answers {
        let text = found.remove(&row.task_id);
        row.response = text.and_then(|text| RawValue::from_string(text).ok());
    }
    Ok(())
}

/// The column holds one of the two by its constraint.
fn of_status(text: &str) -> FinalStatus {
    text.parse().unwrap_or(FinalStatus::Failed)
}

/// A task id that a projector wrote. Somebody else can write what is none.
fn of_task_id(text: &str) -> Result<TaskId, DatabaseError> {
    text.parse()
        .map_err(|_| DatabaseError::Unexpected("a row holds a task id that cannot be one"))
}

async fn winners(client: &Client, jobs: &[String]) -> Result<Vec<(String, WinnerFacts)>, DatabaseError> {
    let attempt = "reading winners";
    let rows = query(client, attempt, WINNERS, &[(&jobs, Type::TEXT_ARRAY)]).await?;
    let read = each(&rows, attempt, |row| {
        Ok((
            row.try_get(0)?,
            row.try_get::<_, String>(1)?,
            row.try_get::<_, String>(2)?,
            row.try_get(3)?,
            row.try_get(4)?,
        ))
    })?;
    read.into_iter()
        .map(|(job, task_id, status, created_at, stream_seq)| {
            let rank = JobRank {
                status: of_status(&status),
                created_at,
                task_id: of_task_id(&task_id)?,
            };
            let winner = WinnerFacts {
                task_id,
                status,
                created_at,
                stream_seq,
                rank,
            };
            Ok((job, winner))
        })
        .collect()
}
