//! The command `explain`: the story of a task, from its submission to its row, or of a job.
//!
//! First the stream is looked through ([`crate::find`]), then the tables are read at one moment (`tables`), so that an event
//! that was seen and is not in the tables is one that was not there yet. Then each event is judged against the row, and each
//! task against the winner of its job (`judge`), by the ranks of `schemas::winner` alone.

pub mod facts;
mod judge;
mod submissions;
mod tables;
mod text;
mod verdict;

use std::io;
use std::process::ExitCode;

use database::DatabaseError;
use schemas::job_key::Rules;
use schemas::timestamp::cut_to_microseconds;
use stream::read::ScanError;
use thiserror::Error;
use time::OffsetDateTime;

use crate::config::{ExplainConfig, Question};
use crate::decode::{Decoded, Decoder};
use crate::find::{Found, find};
use crate::print::print;
use crate::reach::{self, Log, ReachError};
use crate::rows::ResultRow;
use facts::{EventFacts, Standing, Story, StreamFacts, Verdict};
use judge::Judge;
pub(crate) use tables::rules;
use tables::{Tables, Wanted};

/// Why nothing is explained.
#[derive(Debug, Error)]
pub enum ExplainError {
    /// Stream or rows cannot be reached.
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// The stream cannot be looked through.
    #[error("looking through the stream")]
    Scan(#[from] ScanError),
    /// The tables cannot be read.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Standard output cannot be written to.
    #[error("printing")]
    Print(#[from] io::Error),
}

/// Prints the story. The exit code is 1 when nothing is known.
///
/// # Errors
/// When it cannot be found out.
pub async fn run(config: ExplainConfig) -> Result<ExitCode, ExplainError> {
    let story = tell(&config).await?;
    let text = if config.json {
        serde_json::to_string_pretty(&story).expect("a story is plain data") + "\n"
    } else {
        text::of(&story)
    };
    print(text.as_bytes())?;
    Ok(if story.verdict.is_known() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What was seen of the stream.
struct Look {
    log: Log,
    found: Vec<Found>,
    searched: u64,
}

async fn tell(config: &ExplainConfig) -> Result<Story, ExplainError> {
    let database = reach::database(&config.reach.rows).await?;
    let stream = &config.reach.stream.name;
    let question = match &config.question {
        Question::Task(id) => Question::Task(id.clone()),
        Question::Job(key) => Question::Job(
            database
                .snapshot(async |client| tables::job_of(client, stream, key).await)
                .await?,
        ),
    };
    let look = if config.tables_only {
        None
    } else {
        let rules = database
            .snapshot(async |client| rules(client, stream).await)
            .await?;
        Some(look(config, &question, rules).await?)
    };
    let wanted = wanted(config, &question, look.as_ref());
    let tables = database
        .snapshot(async |client| tables::read(client, &wanted).await)
        .await?;
    Ok(compose(config, &question, &wanted, look, tables))
}

async fn look(config: &ExplainConfig, question: &Question, rules: Rules) -> Result<Look, ExplainError> {
    let log = reach::stream(&config.reach).await?;
    let decoder = Decoder {
        subjects: log.subjects.clone(),
        rules,
    };
    let (found, searched) = find(&log, &decoder, question).await?;
    Ok(Look { log, found, searched })
}

/// Judges what was found, and keeps what the question is about.
fn compose(
    config: &ExplainConfig,
    question: &Question,
    wanted: &Wanted<'_>,
    look: Option<Look>,
    tables: Tables,
) -> Story {
    let stream = look.as_ref().map(|look| stream_facts(look, &tables));
    let mut events = Vec::new();
    let mut found = Vec::new();
    if let (Some(look), Some(stream)) = (look, &stream) {
        let judge = Judge {
            tables: &tables,
            stream,
            created: cut_to_microseconds(look.log.state.created),
        };
        events.extend(look.found.iter().map(|found| judge.event(found, config.response)));
        found = look.found;
    }
    let floor = stream.as_ref().and_then(|stream| stream.floor_seq);
    let applied = applied(&found, &events, floor);
    let jobs = judge::jobs(&tables, &wanted.jobs_of(&tables), &applied);
    let mut answers = tables.answers;
    let (mut task_id, mut job_key) = (None, None);
    match question {
        Question::Task(id) => {
            answers.retain(|row| row.task_id == id.as_str());
            task_id = Some(id.as_str().to_owned());
        }
        Question::Job(key) => {
            answers.retain(|row| row.job_key == *key);
            job_key = Some(key.clone());
        }
    }
    let mut story = Story {
        task_id,
        job_key,
        verdict: Verdict::Unknown,
        summary: String::new(),
        submissions: tables.submissions,
        stream,
        events,
        answers,
        parked: tables.parked,
        jobs,
    };
    (story.verdict, story.summary) = verdict::of(&story);
    story
}

fn wanted<'q>(config: &'q ExplainConfig, question: &'q Question, look: Option<&Look>) -> Wanted<'q> {
    let found = look.map_or(&[][..], |look| &look.found);
    let results = || {
        found.iter().filter_map(|found| match &found.decoded {
            Decoded::Result(row) if is_about(question, row) => Some(row),
            Decoded::Result(_) | Decoded::NonFinal { .. } | Decoded::Parked(_) => None,
        })
    };
    let mut jobs: Vec<String> = results().map(|row| row.job_key.clone()).collect();
    jobs.sort();
    jobs.dedup();
    let mut tasks: Vec<String> = results().map(|row| row.task_id.as_str().to_owned()).collect();
    tasks.sort();
    tasks.dedup();
    Wanted {
        stream: &config.reach.stream.name,
        created: look.map(|look| cut_to_microseconds(look.log.state.created)),
        question,
        seqs: found
            .iter()
            .filter_map(|found| i64::try_from(found.event.seq).ok())
            .collect(),
        tasks,
        jobs,
        keys: results().filter_map(|row| row.idempotency_key.clone()).collect(),
        response: config.response,
    }
}

/// A header can name another task than the body does; the body counts.
fn is_about(question: &Question, row: &ResultRow) -> bool {
    match question {
        Question::Task(id) => row.task_id == *id,
        Question::Job(key) => row.job_key == *key,
    }
}

fn stream_facts(look: &Look, tables: &Tables) -> StreamFacts {
    let log = &look.log;
    let created: OffsetDateTime = cut_to_microseconds(log.state.created);
    let remembered = tables.remembered.as_ref();
    let own = remembered.filter(|row| row.stream_created == created);
    StreamFacts {
        name: log.reader.stream().to_owned(),
        created: log.state.created,
        first_seq: log.state.first_seq,
        last_seq: log.state.last_seq,
        searched: look.searched,
        floor_seq: own.map(|row| row.floor),
        is_another: remembered.is_some() && own.is_none(),
    }
}

/// The results that are known to be in the tables: the one that gives the row, and what lies at or below the floor. (A lesser
/// event beyond it changes no row, and still competes for its job only once it is projected.)
fn applied<'f>(found: &'f [Found], events: &[EventFacts], floor: Option<u64>) -> Vec<&'f ResultRow> {
    let is_applied = |event: &EventFacts| match event.standing {
        Standing::Row => true,
        Standing::Copy { .. } | Standing::Outranked { .. } => floor.is_some_and(|floor| event.seq <= floor),
        Standing::Parked { .. }
        | Standing::NotFinal
        | Standing::Pending
        | Standing::Missing
        | Standing::Contradicted => false,
    };
    // One of each for the other, in the same order.
    let pairs = found.iter().zip(events).filter(|(_, event)| is_applied(event));
    pairs
        .filter_map(|(found, _)| match &found.decoded {
            Decoded::Result(row) => Some(&**row),
            Decoded::NonFinal { .. } | Decoded::Parked(_) => None,
        })
        .collect()
}
