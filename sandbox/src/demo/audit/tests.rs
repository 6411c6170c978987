use http::Uri;
use serde_json::json;
use time::macros::datetime;

use super::*;
use crate::provider::secrets::Secret;
use crate::provider::{Provider, Settings};
use crate::seed::Seed;
use crate::workload;

const NOW: OffsetDateTime = datetime!(2026-11-30 12:00 UTC);

/// What the provider holds, and a stream and tables that agree with it.
struct World {
    tasks: Vec<Task>,
    events: Vec<Event>,
    rows: Vec<Row>,
    winners: BTreeMap<String, String>,
    parked: usize,
}

impl World {
    fn right() -> Self {
        let settings = Settings::loopback(Uri::from_static("http://localhost/"));
        let mut provider = Provider::new(settings, Secret::generate(Seed(7), 0), Seed(7));
        workload::play(&mut provider, workload::plan(Seed(7), 60, NOW));
        let tasks = provider.tasks().to_vec();
        let events: Vec<Event> = (1..).zip(&tasks).map(|(seq, task)| event(seq, task)).collect();
        let rows = tasks
            .iter()
            .zip(&events)
            .map(|(task, event)| row(task, event))
            .collect();
        let mut winners: BTreeMap<String, &Task> = BTreeMap::new();
        for task in &tasks {
            let rank = |task: &Task| (task.status, task.created_at, task.id.clone());
            let best = winners.entry(job_key(task)).or_insert(task);
            if rank(task) > rank(best) {
                *best = task;
            }
        }
        let winners = winners
            .into_iter()
            .map(|(job, task)| (job, task.id.clone()))
            .collect();
        Self {
            tasks,
            events,
            rows,
            winners,
            parked: 0,
        }
    }

    fn audit(&self) -> Findings {
        let mut audit = Audit::new(&self.tasks);
        // Rows before events: the order must not matter.
        self.rows.iter().for_each(|row| audit.row(row.clone()));
        self.events.iter().rev().for_each(|event| audit.event(event));
        self.winners
            .iter()
            .for_each(|(job, task)| audit.winner(job.clone(), task.clone()));
        audit.parked(self.parked);
        audit.finish()
    }

    /// The findings after `change`: answered, lost, duplicated, strays.
    fn after(change: impl FnOnce(&mut Self)) -> (usize, usize, usize, usize) {
        let mut world = Self::right();
        change(&mut world);
        let findings = world.audit();
        assert!(!findings.is_clean(), "{findings:?}");
        (
            findings.answered,
            findings.lost.len(),
            findings.duplicated.len(),
            findings.strays.len(),
        )
    }
}

fn event(seq: u64, task: &Task) -> Event {
    Event {
        seq,
        time: NOW + Duration::milliseconds(i64::try_from(seq).unwrap()) + Duration::nanoseconds(789),
        subject: format!("answers.result.{}", task.status.as_str().to_lowercase()),
        body: serde_json::from_slice(&task.body()).unwrap(),
    }
}

fn row(task: &Task, event: &Event) -> Row {
    Row {
        task_id: task.id.clone(),
        job_key: job_key(task),
        idempotency_key: task.request.idempotency_key.clone(),
        status: task.status.as_str().to_owned(),
        created_at: Some(task.created_at),
        response: Some(event.body["response"].clone()),
        via: "webhook".to_owned(),
        stream_seq: i64::try_from(event.seq).unwrap(),
        received_at: event.time - Duration::nanoseconds(789),
        updates: 0,
    }
}

#[test]
fn a_world_that_agrees_is_clean() {
    let findings = World::right().audit();
    assert!(findings.is_clean(), "{findings:?}");
    assert_eq!((findings.tasks, findings.answered, findings.rows), (60, 60, 60));
    assert!(findings.winners < 60, "the workload has reruns");
}

#[test]
fn a_missing_row_is_lost() {
    assert_eq!(World::after(|world| drop(world.rows.remove(5))), (59, 1, 0, 0));
}

#[test]
fn a_row_that_differs_in_any_column_is_lost() {
    let changes: [fn(&mut Row); 6] = [
        |row| {
            row.status = if row.status == "FAILED" {
                "COMPLETED"
            } else {
                "FAILED"
            }
            .to_owned()
        },
        |row| row.created_at = row.created_at.map(|at| at + Duration::milliseconds(1)),
        |row| row.created_at = None,
        |row| row.idempotency_key = Some("another".to_owned()),
        |row| row.response = Some(json!({"result": {"text": "A stranger's words."}})),
        |row| row.response = None,
    ];
    for change in changes {
        assert_eq!(World::after(|world| change(&mut world.rows[5])), (59, 1, 0, 0));
    }
}

#[test]
fn a_response_is_compared_as_json_and_not_as_text() {
    let mut world = World::right();
    let response = world.rows[5].response.take().unwrap().to_string();
    world.rows[5].response = Some(serde_json::from_str(&response.replace(',', " ,\n ")).unwrap());
    assert!(world.audit().is_clean());
}

#[test]
fn a_doubled_event_is_duplicated() {
    let doubled = World::after(|world| world.events.push(event(61, &world.tasks[5])));
    assert_eq!(doubled, (60, 0, 1, 0));
}

#[test]
fn a_row_that_tells_of_a_later_copy_is_duplicated_too() {
    let rewritten = World::after(|world| {
        let copy = event(61, &world.tasks[5]);
        world.rows[5] = row(&world.tasks[5], &copy);
        world.events.push(copy);
    });
    assert_eq!(rewritten, (60, 0, 2, 0));
}

#[test]
fn a_row_that_was_written_again_is_duplicated_even_when_nothing_in_it_changed() {
    assert_eq!(World::after(|world| world.rows[5].updates = 1), (60, 0, 1, 0));
}

#[test]
fn a_row_with_another_provenance_than_its_event_is_duplicated() {
    assert_eq!(World::after(|world| world.rows[5].stream_seq += 1), (60, 0, 1, 0));
    let later = |world: &mut World| world.rows[5].received_at += Duration::microseconds(3);
    assert_eq!(World::after(later), (60, 0, 1, 0));
}

#[test]
fn what_the_provider_never_sent_is_a_stray() {
    let altered = |world: &mut World| {
        let mut event = event(61, &world.tasks[5]);
        event.body["response"] = json!({"result": {"text": "A stranger's words."}});
        world.events.push(event);
    };
    assert_eq!(World::after(altered), (60, 0, 0, 1));
    let invented = |world: &mut World| {
        let mut event = event(61, &world.tasks[5]);
        event.body["task"]["id"] = json!("invented-5");
        let mut row = row(&world.tasks[5], &event);
        row.task_id = "invented-5".to_owned();
        world.events.push(event);
        world.rows.push(row);
    };
    assert_eq!(World::after(invented), (60, 0, 0, 2));
    let quarantined = |world: &mut World| {
        let mut event = event(61, &world.tasks[5]);
        event.subject = "answers.quarantine".to_owned();
        event.body = Value::Null;
        world.events.push(event);
    };
    assert_eq!(World::after(quarantined), (60, 0, 0, 1));
}

#[test]
fn a_parked_row_is_not_clean() {
    assert_eq!(World::after(|world| world.parked = 1), (60, 0, 0, 0));
}

#[test]
fn a_wrong_a_missing_and_an_invented_winner_are_strays() {
    let wrong = |world: &mut World| {
        world
            .winners
            .values_mut()
            .take(1)
            .for_each(|winner| winner.push('x'))
    };
    assert_eq!(World::after(wrong), (60, 0, 0, 1));
    assert_eq!(
        World::after(|world| drop(world.winners.pop_first())),
        (60, 0, 0, 1)
    );
    let invented = |world: &mut World| drop(world.winners.insert("no|such|job".to_owned(), "x".to_owned()));
    assert_eq!(World::after(invented), (60, 0, 0, 1));
}

#[test]
fn one_rerun_suffix_is_taken_off_a_key() {
    let world = World::right();
    let job = |key: &str| {
        let mut task = world.tasks[0].clone();
        task.request.idempotency_key = Some(key.to_owned());
        job_key(&task)
    };
    let jobs = ["a|DE-r1", "a-r1-r2", "a-r0", "a-r01", "a-R1", "a-r", "-r1"].map(job);
    assert_eq!(jobs, ["a|DE", "a-r1", "a-r0", "a-r01", "a-R1", "a-r", "-r1"]);
    let keyless = world
        .tasks
        .iter()
        .find(|task| task.request.idempotency_key.is_none())
        .unwrap();
    assert_eq!(job_key(keyless), keyless.id);
}
