//! From what was found to what it means. The rules are those of `schemas::winner`; here they are only asked.

use std::collections::BTreeMap;

use schemas::delivery::{self, Delivery};
use schemas::winner::JobRank;
use serde_json::value::RawValue;
use time::OffsetDateTime;

use super::facts::{AnswerFacts, Contender, EventFacts, JobFacts, Place, Standing, StreamFacts, WinnerFacts};
use super::tables::Tables;
use crate::decode::Decoded;
use crate::find::Found;
use crate::parked::rows::Parked;
use crate::rows::ResultRow;

/// What is known of the stream and its rows, for judging single events.
#[derive(Debug)]
pub(super) struct Judge<'f> {
    /// What the tables say.
    pub(super) tables: &'f Tables,
    /// The stream.
    pub(super) stream: &'f StreamFacts,
    /// When it was created, as the tables hold it.
    pub(super) created: OffsetDateTime,
}

impl Judge<'_> {
    /// What came of an event.
    pub(super) fn standing(&self, found: &Found) -> Standing {
        let parked = self
            .tables
            .parked
            .iter()
            .find(|row| self.is_of(row, found.event.seq));
        match (&found.decoded, parked) {
            (Decoded::Result(row), None) => self.result(row),
            (Decoded::Parked(_), None) => self.absent(found.event.seq),
            (Decoded::NonFinal { .. }, None) => Standing::NotFinal,
            (decoded, Some(parked)) => Standing::Parked {
                reason: parked.reason.clone(),
                detail: parked.detail.clone(),
                readable: !matches!(decoded, Decoded::Parked(_)),
            },
        }
    }

    fn is_of(&self, row: &Parked, seq: u64) -> bool {
        row.stream_created == self.created && row.stream_seq == seq
    }

    fn result(&self, event: &ResultRow) -> Standing {
        let Some(row) = self.row(event.task_id.as_str()) else {
            return self.absent(event.provenance.stream_seq);
        };
        let (rank, provenance) = &row.rank;
        let against = row.stream_seq;
        match rank.decided_by(&event.rank) {
            None if event.provenance == *provenance => Standing::Row,
            // The row may be of an event that had the sequence on a stream that was there before.
            _ if event.provenance.stream_seq == provenance.stream_seq && !self.stream.is_another => {
                Standing::Contradicted
            }
            None if event.provenance < *provenance => Standing::Copy { against },
            Some(rule) if event.rank < *rank => Standing::Outranked {
                against,
                rule: rule.as_str(),
            },
            // Greater than the row: it has not been there.
            None | Some(_) => self.absent(event.provenance.stream_seq),
        }
    }

    fn row(&self, task_id: &str) -> Option<&AnswerFacts> {
        self.tables.answers.iter().find(|row| row.task_id == task_id)
    }

    /// An event that the tables do not show.
    fn absent(&self, seq: u64) -> Standing {
        match self.stream.floor_seq {
            Some(floor) if seq <= floor => Standing::Missing,
            Some(_) | None => Standing::Pending,
        }
    }

    /// An event with what came of it.
    pub(super) fn event(&self, found: &Found, response: bool) -> EventFacts {
        let Found {
            event,
            headers,
            decoded,
        } = found;
        let result = match decoded {
            Decoded::Result(row) => Some(row),
            Decoded::NonFinal { .. } | Decoded::Parked(_) => None,
        };
        let own = found.task_id().map(|id| id.as_str().to_owned());
        EventFacts {
            seq: event.seq,
            time: event.time,
            subject: event.subject.clone(),
            via: headers.via.map(|via| via.as_str()),
            msg_id: headers.msg_id.clone(),
            webhook_id: headers.webhook_id.clone(),
            bytes: event.body.len() as u64,
            task_id: own.or_else(|| headers.task_id.clone()),
            status: result.map(|row| row.rank.status.as_str()),
            created_at: result.and_then(|row| row.rank.created_at),
            idempotency_key: result.and_then(|row| row.idempotency_key.clone()),
            job_key: result.map(|row| row.job_key.clone()),
            response_digest: result.map(|row| row.rank.digest.to_string()),
            problem: result.and_then(|row| row.problem.clone()),
            standing: self.standing(found),
            response: response.then(|| as_sent(&event.body)).flatten(),
        }
    }
}

/// The response in a body.
fn as_sent(body: &[u8]) -> Option<Box<RawValue>> {
    match delivery::read(body) {
        Ok(Delivery::Result(result)) => result.response.map(ToOwned::to_owned),
        Ok(_) | Err(_) => None,
    }
}

/// The jobs of these rows and events, each with its tasks and how they stand. `applied` are the events that are in the
/// tables: events count for a job, not rows, so a task whose events name two jobs competes in both.
pub(super) fn jobs(tables: &Tables, keys: &[String], applied: &[&ResultRow]) -> Vec<JobFacts> {
    let mut best: BTreeMap<(&str, &str), (JobRank, u64)> = BTreeMap::new();
    let of_rows = tables.answers.iter().filter_map(|row| {
        let (rank, provenance) = &row.rank;
        let rank = JobRank {
            status: rank.status,
            created_at: rank.created_at,
            task_id: row.task_id.parse().ok()?,
        };
        Some((
            row.job_key.as_str(),
            row.task_id.as_str(),
            rank,
            provenance.stream_seq,
        ))
    });
    let of_events = applied.iter().map(|event| {
        let rank = JobRank {
            status: event.rank.status,
            created_at: event.rank.created_at,
            task_id: event.task_id.clone(),
        };
        (
            event.job_key.as_str(),
            event.task_id.as_str(),
            rank,
            event.provenance.stream_seq,
        )
    });
    for (job, task, rank, seq) in of_rows.chain(of_events) {
        let best = best.entry((job, task)).or_insert_with(|| (rank.clone(), seq));
        if rank > best.0 {
            *best = (rank, seq);
        }
    }
    keys.iter()
        .map(|key| {
            let winner = tables
                .winners
                .iter()
                .find(|(job, _)| job == key)
                .map(|(_, winner)| winner);
            let of_job = best.iter().filter(|((job, _), _)| job == key);
            job(key, winner, of_job.map(|(_, (rank, seq))| (rank.clone(), *seq)))
        })
        .collect()
}

fn job(key: &str, winner: Option<&WinnerFacts>, known: impl Iterator<Item = (JobRank, u64)>) -> JobFacts {
    let mut ranks: Vec<(JobRank, u64)> = known.collect();
    // Its row may stand in another job, and its event may be gone.
    if let Some(winner) = winner
        && ranks.iter().all(|(rank, _)| rank.task_id != winner.rank.task_id)
    {
        ranks.push((winner.rank.clone(), winner.stream_seq.unsigned_abs()));
    }
    ranks.sort_by(|(a, _), (b, _)| b.cmp(a));
    let tasks = ranks.into_iter().map(|(rank, stream_seq)| Contender {
        task_id: rank.task_id.as_str().to_owned(),
        status: rank.status.as_str(),
        created_at: rank.created_at,
        stream_seq,
        place: place(&rank, winner),
    });
    JobFacts {
        job_key: key.to_owned(),
        winner: winner.cloned(),
        tasks: tasks.collect(),
    }
}

fn place(rank: &JobRank, winner: Option<&WinnerFacts>) -> Place {
    let Some(winner) = winner else {
        return Place::Contradicts;
    };
    match winner.rank.decided_by(rank) {
        None => Place::Wins,
        Some(rule) if *rank < winner.rank => Place::Loses { rule: rule.as_str() },
        // The winner's own row may have an older event of its task to show, where the stream was another one.
        Some(_) => Place::Contradicts,
    }
}
