//! The laws of the winner rule, over histories small enough to collide in every way: few tasks, few keys, few times,
//! so that divergent events of one task with other times and other keys are common.

use proptest::prelude::*;
use proptest::sample::{Index, subsequence};
use time::macros::datetime;

use super::*;

const DAY: OffsetDateTime = datetime!(2026-11-30 0:00 UTC);

fn answer() -> impl Strategy<Value = Answer> {
    let status = prop_oneof![Just(FinalStatus::Failed), Just(FinalStatus::Completed)];
    let created_at = prop::option::of((0..3i64).prop_map(|us| DAY + time::Duration::microseconds(us)));
    let key = prop::option::of(prop_oneof![
        Just("k"),
        Just("k-r1"),
        Just("k-r2"),
        Just("l"),
        Just("1")
    ]);
    (0..3u8, status, created_at, 0..3u8, key, 0..3i64, any::<bool>()).prop_map(
        |(task, status, created_at, digest, key, received, webhook)| {
            let task_id: TaskId = task.to_string().parse().unwrap();
            Answer {
                job_key: job_key(Rules::default(), key, &task_id).to_owned(),
                task_id,
                idempotency_key: key.map(str::to_owned),
                status,
                created_at,
                digest: ResponseDigest::from_bytes([digest; 32]),
                problems: vec![],
                via: if webhook { Via::Webhook } else { Via::Reconciler },
                provenance: Provenance {
                    received_at: DAY + time::Duration::seconds(received),
                    stream_seq: 0,
                },
            }
        },
    )
}

/// A history: the sequence of an event is its place on the stream.
fn history() -> impl Strategy<Value = Vec<Answer>> {
    prop::collection::vec(answer(), 0..14).prop_map(|mut events| {
        for (seq, event) in (1..).zip(&mut events) {
            event.provenance.stream_seq = seq;
        }
        events
    })
}

/// What the projector does: a batch is reduced by itself, then each of its rows replaces a lesser one.
fn upsert(tables: &mut Tables, batch: impl IntoIterator<Item = Answer>) {
    let batch: Vec<Answer> = batch.into_iter().collect();
    let reduced = fold(batch);
    for (task, event) in reduced.answers {
        let row = tables.answers.entry(task).or_insert_with(|| event.clone());
        if event.task_rank() > row.task_rank() {
            *row = event;
        }
    }
    for (job, winner) in reduced.winners {
        let row = tables.winners.entry(job).or_insert_with(|| winner.clone());
        let order = |winner: &Winner| (winner.rank.clone(), Reverse(winner.stream_seq));
        if order(&winner) > order(row) {
            *row = winner;
        }
    }
}

proptest! {
    #[test]
    fn order_and_repetition_make_no_difference(
        (events, shuffled, repeated) in history().prop_flat_map(|events| {
            let shuffled = Just(events.clone()).prop_shuffle();
            let repeated = subsequence(events.clone(), 0..=events.len());
            (Just(events), shuffled, repeated)
        }),
    ) {
        let tables = fold(events);
        prop_assert_eq!(&fold(shuffled.clone()), &tables);
        prop_assert_eq!(&fold([shuffled, repeated].concat()), &tables);
    }

    #[test]
    fn batches_in_any_order_by_any_number_of_projectors_give_the_same_tables(
        (events, arrivals) in history().prop_flat_map(|events| {
            // Everything at least once, some of it again, in any order.
            let again = subsequence(events.clone(), 0..=events.len());
            let arrivals = (Just(events.clone()), again).prop_map(|(all, again)| [all, again].concat()).prop_shuffle();
            (Just(events), arrivals)
        }),
        cuts in prop::collection::vec(any::<Index>(), 0..5),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(arrivals.len() + 1)).collect();
        cuts.extend([0, arrivals.len()]);
        cuts.sort_unstable();
        let mut tables = Tables::default();
        for cut in cuts.windows(2) {
            upsert(&mut tables, arrivals[cut[0]..cut[1]].iter().cloned());
        }
        prop_assert_eq!(tables, fold(events));
    }

    #[test]
    fn rows_only_ever_grow(events in history(), more in answer()) {
        let before = fold(events.clone());
        let after = fold(events.into_iter().chain([more]));
        for (task, row) in &before.answers {
            prop_assert!(after.answers[task].task_rank() >= row.task_rank());
        }
        for (job, winner) in &before.winners {
            prop_assert!(after.winners[job].rank >= winner.rank);
        }
    }

    #[test]
    fn the_ranks_are_total_orders(a in answer(), b in answer(), c in answer()) {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let (task, job) = (|a: &Answer| a.task_rank(), |a: &Answer| a.job_rank());
        for (ab, ba) in [(task(&a).cmp(&task(&b)), task(&b).cmp(&task(&a))), (job(&a).cmp(&job(&b)), job(&b).cmp(&job(&a)))] {
            prop_assert_eq!(ab, ba.reverse());
        }
        if task(&a) <= task(&b) && task(&b) <= task(&c) {
            prop_assert!(task(&a) <= task(&c));
        }
        if job(&a) <= job(&b) && job(&b) <= job(&c) {
            prop_assert!(job(&a) <= job(&c));
        }
        let same = a.status == b.status && a.created_at == b.created_at;
        let expected = match (a.status, b.status) {
            (FinalStatus::Completed, FinalStatus::Failed) => Greater,
            (FinalStatus::Failed, FinalStatus::Completed) => Less,
            _ => a.created_at.cmp(&b.created_at),
        };
        if same {
            prop_assert_eq!(expected, Equal);
        } else {
            prop_assert_eq!(task(&a).0.cmp(&task(&b).0), expected);
            prop_assert_eq!(job(&a).0.cmp(&job(&b).0), expected);
        }
    }

    /// Where each task has one key, a winner is also the greatest of the rows of its job: what a query over `answers`
    /// alone would find.
    #[test]
    fn winners_are_the_greatest_rows_of_their_jobs(events in history()) {
        let events = events.into_iter().map(|event| {
            let key = ["k", "k-r1", "l"][usize::from(event.task_id.as_str().as_bytes()[0] - b'0')];
            let job_key = job_key(Rules::default(), Some(key), &event.task_id).to_owned();
            Answer { job_key, idempotency_key: Some(key.to_owned()), ..event }
        });
        let tables = fold(events);
        let mut greatest: BTreeMap<&str, JobRank> = BTreeMap::new();
        for row in tables.answers.values() {
            let (rank, _) = row.job_rank();
            let best = greatest.entry(&row.job_key).or_insert_with(|| rank.clone());
            if rank > *best {
                *best = rank;
            }
        }
        let winners: BTreeMap<&str, JobRank> =
            tables.winners.iter().map(|(job, winner)| (&**job, winner.rank.clone())).collect();
        prop_assert_eq!(winners, greatest);
    }
}

fn read(body: &str, rules: Rules, received_at: OffsetDateTime, seq: u64) -> Answer {
    match delivery::read(body.as_bytes()) {
        Ok(delivery::Delivery::Result(result)) => Answer::of(&result, rules, Via::Webhook, received_at, seq),
        other => panic!("{other:?}"),
    }
}

fn body(id: &str, status: &str, created_at: &str, key: &str) -> String {
    format!(
        r#"{{"task":{{"id":"{id}","status":"{status}","createdAt":"{created_at}","idempotencyKey":"{key}"}},"response":{{}}}}"#
    )
}

#[test]
fn a_rerun_answers_the_job_of_the_first_run() {
    let (rules, early, late) = (Rules::default(), "2026-11-29T10:00:00Z", "2026-11-29T11:00:00Z");
    let first = read(&body("a", "FAILED", late, "job"), rules, DAY, 2);
    let second = read(&body("b", "COMPLETED", early, "job-r1"), rules, DAY, 1);
    let tables = fold([first.clone(), second.clone()]);
    assert_eq!(tables.winners["job"].rank.task_id.as_str(), "b");
    assert_eq!(tables.winners.len(), 1);
    assert_eq!(tables.answers[&first.task_id], first);
    assert_eq!(tables.answers[&second.task_id], second);
}

#[test]
fn without_keys_each_task_is_its_own_job() {
    let answer = |id| read(&body(id, "COMPLETED", "", ""), Rules::default(), DAY, 1);
    let tables = fold([answer("a"), answer("b")]);
    assert_eq!(tables.winners.keys().collect::<Vec<_>>(), ["a", "b"]);
    let problem = "createdAt is not a timestamp";
    assert_eq!(
        tables.answers.values().next().unwrap().problem().as_deref(),
        Some(problem)
    );
}

#[test]
fn ties_of_time_go_to_the_greater_task_id_by_its_bytes() {
    let at = "2026-11-29T10:00:00Z";
    let ids = ["B", "a", "Z", "é", "b"];
    let events = ids.map(|id| read(&body(id, "COMPLETED", at, "job"), Rules::default(), DAY, 1));
    assert_eq!(fold(events).winners["job"].rank.task_id.as_str(), "é");
}

#[test]
fn a_creation_time_ahead_of_the_stream_holds_no_job() {
    let ahead = read(
        &body("z", "COMPLETED", "2026-12-02T00:00:00Z", "job"),
        Rules::default(),
        DAY,
        1,
    );
    let honest = read(
        &body("a", "COMPLETED", "2026-11-29T10:00:00Z", "job"),
        Rules::default(),
        DAY,
        2,
    );
    assert_eq!(ahead.created_at, None);
    assert_eq!(ahead.problems, [Problem::CreatedAtInFuture]);
    assert_eq!(fold([ahead, honest]).winners["job"].rank.task_id.as_str(), "a");
}

#[test]
fn the_first_copy_gives_the_row_its_provenance() {
    let text = body("a", "COMPLETED", "2026-11-29T10:00:00Z", "job");
    let copy = |received_at, seq| read(&text, Rules::default(), received_at, seq);
    let later = DAY + time::Duration::SECOND;
    let first = copy(DAY, 7);
    let tables = fold([copy(later, 3), first.clone(), copy(DAY, 9)]);
    assert_eq!(tables.answers[&first.task_id].provenance, first.provenance);
    // Of equals, a winner names the lowest sequence.
    assert_eq!(tables.winners["job"].stream_seq, 3);
}
