//! Holding the evidence against itself.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use schemas::delivery::{self, Delivery};
use schemas::event::{Fact, Kind, MsgId, Via};
use schemas::projection::{self, Answer};
use serde_json::Value;
use time::OffsetDateTime;

use super::stream::{Due, Stored, subjects};
use super::tables::{self, Columns, Tables};
use super::{Evidence, Expected, MOST_SHOWN, Verdict};

/// Judges: the verdict names every id that is not where it should be.
pub fn judge(evidence: &Evidence, expected: &Expected) -> Verdict {
    let mut case = Case::open(evidence, expected);
    case.what_was_acknowledged_is_on_the_stream();
    case.what_is_on_the_stream_was_sent_and_is_there_once();
    case.the_tables_are_the_fold_of_the_stream();
    case.what_cannot_be_a_row_is_parked_and_nothing_else();
    case.every_task_that_ended_is_answered();
    Verdict {
        faults: case.faults,
        sent: evidence.sent.len(),
        acknowledged: evidence.sent.iter().filter(|sent| sent.acknowledged).count(),
        events: evidence.events.len(),
        answers: evidence.tables.answers.len(),
        winners: evidence.tables.winners.len(),
        parked: evidence.tables.parked.len(),
        recovered: recovered(&evidence.tables),
        lost: case.lost,
        duplicated: case.duplicated,
    }
}

struct Case<'e> {
    evidence: &'e Evidence,
    expected: &'e Expected,
    /// What must come of each event, beside it.
    events: Vec<(&'e Stored, Due)>,
    faults: Vec<String>,
    lost: usize,
    duplicated: usize,
}

fn recovered(tables: &Tables) -> usize {
    let via = Via::Reconciler.to_string();
    tables.answers.values().filter(|row| row["via"] == via).count()
}

/// What a body is, whatever carries it.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Content {
    Fact(Fact),
    /// A body that holds no result: it counts byte for byte, under the id that says so.
    Other(Kind, String),
}

impl Content {
    /// `None` for a test delivery, which is never stored.
    fn of(body: &[u8]) -> Option<Self> {
        match delivery::read(body) {
            Ok(Delivery::Test) => None,
            Ok(Delivery::Result(result)) => Some(Self::Fact(Fact::of(&result))),
            Ok(Delivery::NonFinal { .. }) => {
                Some(Self::Other(Kind::NonFinal, MsgId::of_nonfinal(body).to_string()))
            }
            Err(_) => Some(Self::Other(
                Kind::Quarantine,
                MsgId::of_quarantine(body).to_string(),
            )),
        }
    }
}

impl<'e> Case<'e> {
    fn open(evidence: &'e Evidence, expected: &'e Expected) -> Self {
        let events = evidence.events.iter().map(|event| (event, event.due()));
        Self {
            evidence,
            expected,
            events: events.collect(),
            faults: Vec::new(),
            lost: 0,
            duplicated: 0,
        }
    }

    fn what_was_acknowledged_is_on_the_stream(&mut self) {
        let mut stored: HashMap<Content, OffsetDateTime> = HashMap::new();
        for (event, _) in &self.events {
            if let Some(content) = Content::of(&event.body) {
                // In order, so the first is the earliest.
                stored.entry(content).or_insert(event.time);
            }
        }
        for sent in self.evidence.sent.iter().filter(|sent| sent.acknowledged) {
            let Some(content) = Content::of(&sent.body) else {
                continue;
            };
            let how = match (stored.get(&content), sent.acknowledged_by) {
                (None, _) => "and is not on the stream".to_owned(),
                (Some(at), Some(by)) if *at > by => format!("by {by} and was not on the stream before {at}"),
                _ => continue,
            };
            self.lost += 1;
            self.faults.push(format!(
                "{} got a 2xx {how}: {}",
                sent.name,
                self.whereabouts(&task_of(&sent.body))
            ));
        }
    }

    fn what_is_on_the_stream_was_sent_and_is_there_once(&mut self) {
        let sent: HashSet<Content> = self
            .evidence
            .sent
            .iter()
            .filter_map(|sent| Content::of(&sent.body))
            .collect();
        let mut seen: HashMap<Content, u64> = HashMap::new();
        for (event, _) in &self.events {
            let Stored { seq, subject, .. } = event;
            let Some(content) = Content::of(&event.body) else {
                self.faults
                    .push(format!("event {seq} on {subject} is a test delivery"));
                continue;
            };
            let kind = match &content {
                Content::Fact(fact) => fact.status.into(),
                Content::Other(kind, _) => *kind,
            };
            if *subject != subjects().of(kind) {
                self.faults.push(format!(
                    "event {seq} is on {subject}, its body is {}",
                    kind.as_str()
                ));
            }
            if !sent.contains(&content) {
                let task = task_of(&event.body);
                self.faults.push(format!(
                    "event {seq} on {subject} was never sent like this: {}",
                    self.whereabouts(&task)
                ));
            }
            if let Some(first) = seen.insert(content, *seq)
                && !self.expected.repeats
            {
                let task = task_of(&event.body);
                self.duplicated += 1;
                self.faults.push(format!(
                    "events {first} and {seq} on {subject} are the same: {}",
                    self.whereabouts(&task)
                ));
            }
        }
    }

    fn the_tables_are_the_fold_of_the_stream(&mut self) {
        let fold = projection::fold(self.rows().map(|(answer, _)| answer.clone()));
        let answers: BTreeMap<String, Columns> = fold
            .answers
            .iter()
            .map(|(id, row)| (id.to_string(), tables::answer(row)))
            .collect();
        let winners: BTreeMap<String, Columns> = fold
            .winners
            .iter()
            .map(|(job, row)| (job.clone(), tables::winner(row)))
            .collect();
        for (id, fault) in differences("answers", &answers, &self.evidence.tables.answers) {
            self.faults.push(format!("{fault}: {}", self.whereabouts(&id)));
        }
        for (_, fault) in differences("winners", &winners, &self.evidence.tables.winners) {
            self.faults.push(fault);
        }
        self.responses_are_as_sent();
    }

    fn responses_are_as_sent(&mut self) {
        let responses: HashMap<(&str, String), Option<Value>> = self
            .rows()
            .map(|(answer, event)| {
                let digest = tables::answer(answer)["response_digest"].clone();
                let body: Value = serde_json::from_slice(&event.body).unwrap_or_default();
                ((answer.task_id.as_str(), digest), body.get("response").cloned())
            })
            .collect();
        let mut wrong = Vec::new();
        for (id, columns) in &self.evidence.tables.answers {
            let due = responses.get(&(id.as_str(), columns["response_digest"].clone()));
            // Without an event of this digest the row as a whole is wrong, and that is said already.
            let Some(due) = due else { continue };
            if self.evidence.tables.responses.get(id) != Some(due) {
                wrong.push(format!("answers.response of task {id} is not what was sent"));
            }
        }
        self.faults.extend(wrong);
    }

    fn what_cannot_be_a_row_is_parked_and_nothing_else(&mut self) {
        let due: BTreeSet<u64> = self
            .events
            .iter()
            .filter(|(event, due)| match due {
                Due::Parked => true,
                Due::Row(..) => self.is_refused(event),
                Due::Nothing => false,
            })
            .map(|(event, _)| event.seq)
            .collect();
        let parked = &self.evidence.tables.parked;
        for (seq, columns) in parked.iter().filter(|(seq, _)| !due.contains(seq)) {
            self.faults.push(format!(
                "event {seq} is parked and could have become a row: {}",
                shown(columns)
            ));
        }
        for seq in due.iter().filter(|seq| !parked.contains_key(seq)) {
            self.faults.push(format!(
                "event {seq} cannot become a row and is not parked either"
            ));
        }
    }

    fn every_task_that_ended_is_answered(&mut self) {
        for sent in self.evidence.sent.iter().filter(|sent| sent.owed) {
            let task = task_of(&sent.body);
            let excused = self.expected.refused.contains(&task) || self.expected.unanswered.contains(&task);
            if !excused && !self.evidence.tables.answers.contains_key(&task) {
                self.lost += 1;
                self.faults.push(format!(
                    "task {task} ended and is not answered: {}",
                    self.whereabouts(&task)
                ));
            }
        }
    }

    /// The events that must become rows.
    fn rows(&self) -> impl Iterator<Item = (&Answer, &Stored)> {
        self.events.iter().filter_map(|(event, due)| match due {
            Due::Row(answer, _) if !self.is_refused(event) => Some((&**answer, *event)),
            Due::Row(..) | Due::Nothing | Due::Parked => None,
        })
    }

    fn is_refused(&self, event: &Stored) -> bool {
        !self.expected.refused.is_empty() && self.expected.refused.contains(&task_of(&event.body))
    }

    /// Where everything of one task is. Searching costs time, so only for the first faults.
    fn whereabouts(&self, task: &str) -> String {
        if self.faults.len() >= MOST_SHOWN {
            return format!("task `{task}`");
        }
        let mut places = Vec::new();
        for sent in self
            .evidence
            .sent
            .iter()
            .filter(|sent| task_of(&sent.body) == task)
        {
            places.push(format!("sent as {} ({})", sent.name, sent.standing));
        }
        for (event, due) in &self.events {
            if task_of(&event.body) == task {
                let due = match due {
                    Due::Row(..) => "for a row",
                    Due::Nothing => "for nothing",
                    Due::Parked => "to be parked",
                };
                let id = event.headers.msg_id.as_deref().unwrap_or("none");
                places.push(format!(
                    "event {} on {}, id {id}, {due}",
                    event.seq, event.subject
                ));
            }
        }
        let tables = &self.evidence.tables;
        if let Some(row) = tables.answers.get(task) {
            places.push(format!("row of answers {}", shown(row)));
        }
        for (job, row) in tables.winners.iter().filter(|(_, row)| row["task_id"] == task) {
            places.push(format!("wins job `{job}` {}", shown(row)));
        }
        for (seq, row) in tables.parked.iter().filter(|(_, row)| row["task_id"] == task) {
            places.push(format!("parked as {seq} {}", shown(row)));
        }
        if places.is_empty() {
            places.push("nowhere".to_owned());
        }
        format!("task `{task}`: {}", places.join("; "))
    }
}

/// Keys whose rows differ, each with what is wrong.
fn differences(
    table: &str,
    due: &BTreeMap<String, Columns>,
    found: &BTreeMap<String, Columns>,
) -> Vec<(String, String)> {
    let mut differences = Vec::new();
    let keys: BTreeSet<&String> = due.keys().chain(found.keys()).collect();
    for key in keys {
        let fault = match (due.get(key), found.get(key)) {
            (Some(due), Some(found)) if due == found => continue,
            (Some(due), Some(found)) => {
                let wrong = due
                    .iter()
                    .filter(|(column, value)| found.get(*column) != Some(value));
                let wrong: Vec<String> = wrong
                    .map(|(column, value)| format!("{column} is {}, not {value}", found[column]))
                    .collect();
                format!("{table} `{key}` differs from the stream ({})", wrong.join(", "))
            }
            (Some(_), None) => format!("{table} `{key}` is missing"),
            (None, _) => format!("{table} `{key}` comes from nothing on the stream"),
        };
        differences.push((key.clone(), fault));
    }
    differences
}

fn shown(columns: &Columns) -> String {
    let pairs: Vec<String> = columns
        .iter()
        .map(|(column, value)| format!("{column}={value}"))
        .collect();
    format!("({})", pairs.join(" "))
}

/// The task that a body speaks of, for people; empty when it speaks of none.
fn task_of(body: &[u8]) -> String {
    match delivery::read(body) {
        Ok(Delivery::Result(result)) => result.task_id.to_string(),
        Ok(Delivery::NonFinal { task_id, .. }) => task_id.to_string(),
        Ok(Delivery::Test) | Err(_) => String::new(),
    }
}
