//! `parked retry`: reads parked events again, as a projector of this build would, and makes rows of those that it can read.
//!
//! Each event is a transaction of its own: the row and the winner as projecting writes them, and the event off the list. So it
//! may be killed at any moment and run again, beside projectors and beside itself.

use std::process::ExitCode;

use bytes::Bytes;
use database::{Database, DatabaseError, Trouble};
use schemas::delivery::{self, Delivery, TaskId, Unreadable};
use schemas::event::{Kind, MsgId, Via};
use schemas::timestamp::cut_to_microseconds;
use stream::ReadEvent;
use tokio_postgres::types::Type;

use super::ParkedError;
use super::report::{Outcome, Report, Source};
use super::rows::{Kept, Place, at, list};
use crate::config::{Reach, Which};
use crate::decode::{Decoded, Decoder, Message};
use crate::park::DATABASE_REFUSES;
use crate::print::{plain, print};
use crate::reach::{self, Log};
use crate::remembered::rules_stand;
use crate::removals::{relabel, unpark};
use crate::rows::Folded;
use crate::statements;

/// So many are listed at a time.
const PAGE: i64 = 1_000;
/// Deadlocks and the like are over as soon as one side gives way.
const MOST_CONTENTIONS: u32 = 5;

const APPENDED: &str = "select exists (select from submitted_tasks where task_id = $1 and appended_seq = $2)";

/// Where an event is read from.
struct Again {
    message: Message,
    source: Source,
}

pub(super) async fn run(which: &Which, json: bool, reach: &Reach) -> Result<ExitCode, ParkedError> {
    let database = reach::database(&reach.rows).await?;
    let log = reach::stream(reach).await?;
    let stream = &reach.stream.name;
    let rules = database
        .snapshot(async |client| crate::explain::rules(client, stream).await)
        .await?;
    let retry = Retry {
        decoder: Decoder {
            subjects: log.subjects.clone(),
            rules,
        },
        database,
        log,
    };
    retry.all(which, json).await
}

struct Retry {
    database: Database,
    log: Log,
    decoder: Decoder,
}

impl Retry {
    async fn all(&self, which: &Which, json: bool) -> Result<ExitCode, ParkedError> {
        let (mut done, mut stay) = (0_u64, 0_u64);
        let mut unseen = which.seqs.clone();
        let mut after: Option<Place> = None;
        loop {
            let page = self
                .database
                .snapshot(async |client| list(client, which, after, PAGE).await)
                .await?;
            let Some(last) = page.last() else { break };
            after = Some(last.place());
            for row in &page {
                unseen.retain(|seq| *seq != row.stream_seq);
                let report = self.one(row.place()).await?;
                match &report.outcome {
                    Outcome::Parked { .. } => stay += 1,
                    Outcome::Projected { .. } | Outcome::NotFinal | Outcome::Gone => done += 1,
                }
                let text = if json {
                    serde_json::to_string(&report).expect("a report is plain data")
                } else {
                    plain(&report.to_string())
                };
                print(format!("{text}\n").as_bytes())?;
            }
        }
        for seq in &unseen {
            eprintln!("nothing is parked with sequence {seq}");
        }
        if !json {
            print(format!("{done} off the list, {stay} stay parked\n").as_bytes())?;
        }
        Ok(if stay == 0 && unseen.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    async fn one(&self, place: Place) -> Result<Report, ParkedError> {
        let report = |task_id: Option<String>, source: Source, outcome: Outcome| Report {
            stream_seq: place.1.unsigned_abs(),
            stream_created: place.0,
            task_id,
            source,
            outcome,
        };
        let Some(kept) = self
            .database
            .snapshot(async |client| at(client, place).await)
            .await?
        else {
            return Ok(report(None, Source::KeptBody, Outcome::Gone));
        };
        let Some(again) = self.again(&kept).await? else {
            let outcome = Outcome::Parked {
                reason: kept.row.reason.clone(),
                detail: Some(
                    "the stream does not hold it any more, and what it was filed under is not kept"
                        .to_owned(),
                ),
            };
            return Ok(report(kept.row.task_id, Source::KeptBody, outcome));
        };
        let source = again.source;
        let decoded = self.decoder.decode(again.message);
        let task = match &decoded {
            Decoded::Result(row) => Some(row.task_id.clone()),
            Decoded::Parked(row) => row.task_id.clone(),
            Decoded::NonFinal { .. } => None,
        };
        let outcome = self.settle(place, &kept, &decoded, task.as_ref()).await?;
        Ok(report(task.map(|id| id.to_string()), source, outcome))
    }

    /// The event as a projector would get it: from the stream when it is there, else what is kept of it, when that is enough to
    /// be sure.
    async fn again(&self, kept: &Kept) -> Result<Option<Again>, ParkedError> {
        if cut_to_microseconds(self.log.state.created) == kept.row.stream_created
            && let Some(event) = self.log.reader.event(kept.row.stream_seq).await?
            // A stream that has lost its end gives sequences out again.
            && is_same(&event, &kept.body)
        {
            return Ok(Some(Again {
                message: Message::from(event),
                source: Source::Stream,
            }));
        }
        let Some((msg_id, task)) = filed_under(&self.decoder, kept) else {
            return Ok(None);
        };
        let via = match &task {
            Some(task) if self.was_appended(task, kept.row.stream_seq).await? => Via::Reconciler,
            Some(_) | None => Via::Webhook,
        };
        Ok(Some(Again {
            message: Message {
                subject: kept.row.subject.clone(),
                msg_id: Some(msg_id.as_str().to_owned()),
                via: Some(via),
                unreadable: None,
                seq: kept.row.stream_seq,
                time: kept.row.parked_at,
                body: kept.body.clone(),
            },
            source: Source::KeptBody,
        }))
    }

    /// Whether the reconciler appended it.
    async fn was_appended(&self, task: &TaskId, seq: u64) -> Result<bool, DatabaseError> {
        let (task, seq) = (task.as_str(), i64::try_from(seq).unwrap_or(-1));
        let attempt = "looking for the submission";
        self.database
            .snapshot(async |client| {
                let row = client
                    .query_typed_one(APPENDED, &[(&task, Type::TEXT), (&seq, Type::INT8)])
                    .await
                    .map_err(DatabaseError::of(attempt))?;
                row.try_get(0).map_err(DatabaseError::of(attempt))
            })
            .await
    }

    async fn settle(
        &self,
        place: Place,
        kept: &Kept,
        decoded: &Decoded,
        task: Option<&TaskId>,
    ) -> Result<Outcome, ParkedError> {
        match decoded {
            Decoded::Result(_) | Decoded::NonFinal { .. } => match self.project(place, decoded).await {
                Ok(outcome) => Ok(outcome),
                Err(ParkedError::Database(error)) if error.trouble() == Trouble::Data => {
                    let detail = crate::park::detail_of(&error);
                    let stays = self.stays(place, kept, DATABASE_REFUSES, Some(detail), task);
                    Ok(stays.await?)
                }
                Err(error) => Err(error),
            },
            Decoded::Parked(row) => {
                let stays = self.stays(place, kept, row.reason, row.detail.clone(), task);
                Ok(stays.await?)
            }
        }
    }

    /// Brings it into the tables and takes it off the list.
    async fn project(&self, place: Place, decoded: &Decoded) -> Result<Outcome, ParkedError> {
        let mut contentions = 0;
        loop {
            let done = self.database.transaction(async |client, _| {
                // First, and waited for: whoever erases the task holds it, and then there is nothing to bring in any more.
                if !unpark(client, place).await? {
                    return Ok(Outcome::Gone);
                }
                let mut outcome = Outcome::NotFinal;
                if let Decoded::Result(row) = decoded {
                    let folded = Folded::of(std::iter::once(&**row), std::iter::empty());
                    let changed = statements::apply(client, place.0, &folded).await?;
                    outcome = Outcome::Projected {
                        changed: changed.answers > 0,
                    };
                }
                if !rules_stand(client, self.log.reader.stream(), self.decoder.rules).await? {
                    return Err(ParkedError::Rules);
                }
                Ok(outcome)
            });
            match done.await {
                Err(ParkedError::Database(error))
                    if error.trouble() == Trouble::Contention && contentions < MOST_CONTENTIONS =>
                {
                    contentions += 1;
                }
                done => return done,
            }
        }
    }

    /// It stays parked; the list says why, as of this build.
    async fn stays(
        &self,
        place: Place,
        kept: &Kept,
        reason: &str,
        detail: Option<String>,
        task: Option<&TaskId>,
    ) -> Result<Outcome, DatabaseError> {
        let row = &kept.row;
        let same = row.reason == reason
            && row.detail == detail
            && row.task_id.as_deref() == task.map(|id| id.as_str());
        let there = same
            || self
                .database
                .transaction(async |client, _| relabel(client, place, reason, detail.as_deref(), task).await)
                .await?;
        Ok(if there {
            Outcome::Parked {
                reason: reason.to_owned(),
                detail,
            }
        } else {
            Outcome::Gone
        })
    }
}

fn is_same(event: &ReadEvent, body: &Bytes) -> bool {
    event.body == *body
}

/// The id that a parked event was filed under, and its task, as far as what is kept of it tells. For a body that could not be
/// read, its subject and its id agreed with it, or else the detail says so; for one that the database refused, they had been
/// found to agree. Of any other event they did not, and nothing kept says what they were.
fn filed_under(decoder: &Decoder, kept: &Kept) -> Option<(MsgId, Option<TaskId>)> {
    let refused = kept.row.reason == DATABASE_REFUSES;
    let unreadable = Unreadable::ALL
        .iter()
        .any(|reason| reason.as_str() == kept.row.reason);
    let agreed = refused || (unreadable && kept.row.detail.is_none());
    match decoder.subjects.parse(&kept.row.subject).ok()? {
        Kind::Quarantine if agreed => Some((MsgId::of_quarantine(&kept.body), None)),
        Kind::NonFinal if refused => Some((MsgId::of_nonfinal(&kept.body), None)),
        Kind::Completed | Kind::Failed if refused => match delivery::read(&kept.body) {
            Ok(Delivery::Result(result)) => Some((MsgId::of_task(&result.task_id), Some(result.task_id))),
            Ok(_) | Err(_) => None,
        },
        Kind::NonFinal | Kind::Quarantine | Kind::Completed | Kind::Failed => None,
    }
}
