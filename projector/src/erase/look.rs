//! Finding every event of the task, and who else competes for the jobs that it won.

use std::collections::BTreeMap;

use memchr::memmem;
use schemas::delivery::{self, Delivery, TaskId};
use schemas::event::Kind;
use schemas::job_key::Rules;
use schemas::winner::JobRank;
use serde::Serialize;
use stream::ReadEvent;
use stream::read::ScanError;
use time::OffsetDateTime;

use crate::config::Question;
use crate::decode::{Decoded, Decoder, Message};
use crate::find::{Matcher, walk};
use crate::reach::Log;

/// What the stream holds of the task.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The events that are of it, by sequence; those that only mention it as well, when they are to go too.
    pub(super) events: Vec<Target>,
    /// Events that no task can be read from, and whose body holds the id; not among the others.
    pub(super) mentions: Vec<u64>,
    /// The other tasks of the jobs that it won.
    pub(super) contenders: Contenders,
}

impl Seen {
    /// Adds what a later look found.
    pub(super) fn add(&mut self, later: Self) {
        self.events.extend(later.events);
        self.mentions.extend(later.mentions);
        for (job, best) in later.contenders.0 {
            if let Some((rank, seq)) = best {
                self.contenders.offer(&job, rank, seq);
            }
        }
    }
}

/// An event to erase.
#[derive(Debug, Serialize)]
pub(super) struct Target {
    pub(super) seq: u64,
    #[serde(with = "time::serde::rfc3339")]
    pub(super) time: OffsetDateTime,
    pub(super) subject: String,
    pub(super) msg_id: Option<String>,
    pub(super) bytes: u64,
}

/// The greatest other event of each of some jobs.
#[derive(Debug, Default, Clone)]
pub(super) struct Contenders(BTreeMap<String, Option<(JobRank, u64)>>);

impl Contenders {
    fn of_jobs(jobs: &[String]) -> Self {
        Self(jobs.iter().map(|job| (job.clone(), None)).collect())
    }

    /// Takes it in if it is greater than what is known of the job. Of equals, the lower sequence counts.
    pub(super) fn offer(&mut self, job: &str, rank: JobRank, seq: u64) {
        let best = self.0.entry(job.to_owned()).or_default();
        let is_greater = match best {
            None => true,
            Some((found, at)) => rank > *found || (rank == *found && seq < *at),
        };
        if is_greater {
            *best = Some((rank, seq));
        }
    }

    /// The greatest of a job.
    pub(super) fn of(&self, job: &str) -> Option<(&JobRank, u64)> {
        let (rank, seq) = self.0.get(job)?.as_ref()?;
        Some((rank, *seq))
    }
}

impl From<&ReadEvent> for Target {
    fn from(event: &ReadEvent) -> Self {
        Self {
            seq: event.seq,
            time: event.time,
            subject: event.subject.clone(),
            msg_id: event.msg_id().map(ToOwned::to_owned),
            bytes: event.body.len() as u64,
        }
    }
}

/// Looks through the whole stream. `wins` are the jobs that the task is the winner of; with `mentions`, what only holds its id
/// is among the events.
pub(super) async fn look(
    log: &Log,
    rules: Rules,
    task: &TaskId,
    wins: &[String],
    mentions: bool,
) -> Result<Seen, ScanError> {
    let question = Question::Task(task.clone());
    let matcher = Matcher::new(&question, rules);
    let decoder = Decoder {
        subjects: log.subjects.clone(),
        rules,
    };
    let mut seen = Seen {
        contenders: Contenders::of_jobs(wins),
        ..Seen::default()
    };
    walk(log, |event| {
        if matcher.matches(&event) {
            seen.events.push(Target::from(&event));
        } else if is_mention(&event, task) {
            if mentions {
                seen.events.push(Target::from(&event));
            } else {
                seen.mentions.push(event.seq);
            }
        } else if !wins.is_empty() && decoder.subjects.parse(&event.subject) != Ok(Kind::NonFinal) {
            compete(&mut seen.contenders, &decoder, wins, event);
        }
    })
    .await?;
    Ok(seen)
}

/// Whether no task can be read from it, and it holds the id all the same, as text.
fn is_mention(event: &ReadEvent, task: &TaskId) -> bool {
    memmem::find(&event.body, task.as_str().as_bytes()).is_some() && delivery::read(&event.body).is_err()
}

fn compete(contenders: &mut Contenders, decoder: &Decoder, wins: &[String], event: ReadEvent) {
    // Most are of other jobs, which shows without computing anything of the response.
    let of_job = match delivery::read(&event.body) {
        Ok(Delivery::Result(result)) => {
            let key = result.idempotency_key.as_deref();
            let job = schemas::job_key::job_key(decoder.rules, key, &result.task_id);
            wins.iter().any(|won| won == job)
        }
        Ok(_) | Err(_) => false,
    };
    if of_job && let Decoded::Result(row) = decoder.decode(Message::from(event)) {
        let rank = JobRank {
            status: row.rank.status,
            created_at: row.rank.created_at,
            task_id: row.task_id,
        };
        contenders.offer(&row.job_key, rank, row.provenance.stream_seq);
    }
}

#[cfg(test)]
mod tests {
    use schemas::delivery::FinalStatus;

    use super::*;

    #[test]
    fn the_greatest_contender_stands_and_of_equals_the_earliest() {
        let rank = |status, task: &str| JobRank {
            status,
            created_at: None,
            task_id: task.parse().unwrap(),
        };
        let mut best = Contenders::of_jobs(&["j".to_owned()]);
        assert_eq!(best.of("j"), None);
        best.offer("j", rank(FinalStatus::Failed, "z"), 1);
        best.offer("j", rank(FinalStatus::Completed, "a"), 9);
        best.offer("j", rank(FinalStatus::Completed, "a"), 7);
        best.offer("j", rank(FinalStatus::Completed, "a"), 8);
        assert_eq!(best.of("j"), Some((&rank(FinalStatus::Completed, "a"), 7)));
        assert_eq!(best.of("k"), None);
    }
}
