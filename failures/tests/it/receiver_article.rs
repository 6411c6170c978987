//! "Failure modes to test" of the provider's article "Webhook receiver design: retries, duplicates and ordering" (2026-09-18),
//! one by one and by name. Where it speaks of the handler, the inbox and the worker, here stand `ingress`, the stream and
//! `projector`.

use std::time::Duration;

use failures::world::SOON;
use failures::{Setup, Who, World};
use sandbox::eventually;
use sandbox::faults::{FaultPlan, Rates};
use sandbox::provider::delivery::{Reply, State};
use sandbox::seed::Seed;
use sandbox::sender;
use sandbox::servers::PostgresOptions;
use tokio::time::Instant;

use crate::redirect::Redirect;

const INGRESS: Who = Who::Ingress(0);
const PROJECTOR: Who = Who::Projector(0);
const RECONCILER: Who = Who::Reconciler(0);

/// "Kill the process between the insert and the response." The event is stored, and neither ingress nor the provider
/// learns of it.
#[tokio::test]
async fn killed_between_the_append_and_its_acknowledgment() {
    let mut world = World::start().await;
    world.broker_link(INGRESS).hold_answers().await;
    let id = world.finish_tasks(1).remove(0);
    stored(&world, 1).await;
    world.kill(INGRESS);
    came_again_and_changed_nothing(world, &id).await;
}

/// As above, a step later: ingress has the acknowledgment, and its answer never reaches the provider.
#[tokio::test]
async fn killed_between_the_acknowledgment_and_the_answer() {
    let mut world = World::start().await;
    world.hook_link(INGRESS).hold_answers().await;
    let id = world.finish_tasks(1).remove(0);
    eventually("ingress knows that the event is stored", SOON, async || {
        world.metric(INGRESS, "ingress_deliveries_total").await == 1.0
    })
    .await;
    world.kill(INGRESS);
    // What is held back on the way must not arrive after all.
    world.hook_link(INGRESS).cut().await;
    came_again_and_changed_nothing(world, &id).await;
}

async fn came_again_and_changed_nothing(mut world: World, id: &str) {
    let first = async || world.delivery(id, |delivery| delivery.attempts[0].reply.clone());
    let reply = eventually("the provider knows that its first attempt failed", SOON, first).await;
    assert!(matches!(reply, Reply::Nothing(_)), "{reply:?}");
    world.broker_link(INGRESS).restore().await;
    world.hook_link(INGRESS).restore().await;
    world.start_program(INGRESS).await;
    world.delivered_task(id).await;
    let verdict = world.end().await;
    assert_eq!((verdict.events, verdict.answers), (1, 1));
}

async fn stored(world: &World, count: u64) {
    eventually(&format!("{count} events are stored"), SOON, async || match world
        .stream()
        .await
        .cached_info()
        .state
        .messages
    {
        stored if stored == count => Ok(()),
        other => Err(other),
    })
    .await;
}

/// "Send the same signed body twice concurrently." Here two to four times, over two processes.
#[tokio::test]
async fn the_same_signed_body_several_times_at_once() {
    let copies = Rates {
        copies_at_once: 1.0,
        ..Rates::none()
    };
    let setup = Setup {
        ingresses: 2,
        faults: FaultPlan::new(Seed(7), copies),
        ..Setup::default()
    };
    let world = World::with(setup).await;
    world.finish_tasks(60);
    world.delivered(60).await;
    eventually("every copy is answered", SOON, async || {
        let copies = world.tally().of(sender::Kind::Copy);
        if copies.accepted() == copies.sent {
            Ok(())
        } else {
            Err(copies)
        }
    })
    .await;
    assert!(world.tally().of(sender::Kind::Copy).sent >= 60);
    let verdict = world.end().await;
    assert_eq!((verdict.events, verdict.answers), (60, 60));
}

/// "Make the worker raise on one row." One row that the database refuses, and one body that holds no task.
#[tokio::test]
async fn one_message_that_cannot_be_projected() {
    let mut world = World::start().await;
    let raise = "create function raise() returns trigger language plpgsql as
                   $$ begin raise exception 'not this one' using errcode = '22P02'; end $$;
                 create trigger raise before insert on answers for each row
                   when (new.idempotency_key = 'the one') execute function raise();";
    world.sql().await.batch_execute(raise).await.unwrap();
    world.finish_tasks(40);
    let refused = world.finish_task(Some("the one"), world.answered(0));
    assert_eq!(world.post(INGRESS, "no task").await, Some(204));
    world.finish_tasks(40);
    world.delivered_task(&refused).await;
    assert_eq!(world.delivery(&refused, |delivery| delivery.attempts.len()), 1);
    world.expected.refused.insert(refused);
    world.settle_and_judge().await;
    let sql = world.sql().await;
    let reasons = sql.query("select reason from parked order by reason", &[]);
    let reasons: Vec<String> = reasons.await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(reasons, ["database_refuses", "malformed_json"]);
    let verdict = world.end().await;
    assert_eq!((verdict.events, verdict.answers, verdict.parked), (82, 80, 2));
}

/// "Stop the database for a minute." There the handler answers 5xx meanwhile; here it needs no database: every delivery
/// of that minute gets its 204 at the first attempt, and only the rows are late.
#[tokio::test]
async fn the_database_away_for_a_minute() {
    let setup = Setup {
        postgres: Some(PostgresOptions::default()),
        ..Setup::default()
    };
    let minute = Duration::from_secs(60).div_f64(setup.speed);
    let mut world = World::with(setup).await;
    world.finish_tasks(20);
    world.rows("answers", 20).await;
    let (since, stopped) = (Instant::now(), world.postgres().stop());
    stopped.await;
    let load = world.load(50);
    world.becomes_unready(PROJECTOR, "database").await;
    eventually("the minute is over", SOON, async || since.elapsed() > minute).await;
    world.delivered(40).await;
    let during = load.stop().await;
    for id in &during {
        world.delivered_task(id).await;
    }
    world.stayed_ready(INGRESS, since);
    world.postgres().restart().await;
    world.settle_and_judge().await;
    for id in &during {
        let replies = world.delivery(id, |delivery| {
            delivery
                .attempts
                .iter()
                .map(|attempt| attempt.reply.clone())
                .collect::<Vec<_>>()
        });
        assert_eq!(replies, [Some(Reply::Status(204))], "task {id}");
    }
    world.end().await;
}

/// "Deliver two results for one job_key in reverse order." Each pair of ends, the later task's result first.
#[tokio::test]
async fn two_results_of_one_job_in_reverse_order() {
    let world = World::start().await;
    let mut winners = Vec::new();
    let ends = [(true, true), (true, false), (false, true), (false, false)];
    for (number, (older_answered, newer_answered)) in (0..).zip(ends) {
        let end = |answered: bool, number| {
            if answered {
                world.answered(number)
            } else {
                world.failed(number)
            }
        };
        let job = format!("best crm {number}");
        let older = world.create_task(&job);
        // Times are in whole milliseconds; the later task has the later one.
        let begun = Instant::now();
        eventually("a millisecond has passed", SOON, async || {
            begun.elapsed() > Duration::from_millis(2)
        })
        .await;
        let newer = world.create_task(&format!("{job}-r1"));
        world.end_task(&newer, end(newer_answered, 2 * number));
        world.delivered_task(&newer).await;
        world.end_task(&older, end(older_answered, 2 * number + 1));
        world.delivered_task(&older).await;
        let winner = if older_answered && !newer_answered {
            older
        } else {
            newer
        };
        winners.push((job, winner, older_answered || newer_answered));
    }
    let mut world = world;
    world.settle_and_judge().await;
    let sql = world.sql().await;
    // The article's own query.
    let reported = "select distinct on (job_key) job_key, task_id from answers where status = 'COMPLETED'
                    order by job_key, created_at desc";
    for query in [
        reported,
        "select job_key, task_id from reported_answers order by job_key",
    ] {
        let rows = sql.query(query, &[]).await.unwrap();
        let found: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let due = winners.iter().filter(|(_, _, answered)| *answered);
        let due: Vec<_> = due
            .map(|(job, winner, _)| (job.clone(), winner.clone()))
            .collect();
        assert_eq!(found, due, "{query}");
    }
    let failed = sql
        .query("select task_id from failed_answers", &[])
        .await
        .unwrap();
    let failed: Vec<String> = failed.iter().map(|row| row.get(0)).collect();
    assert_eq!(failed, [winners[3].1.clone()]);
    world.end().await;
}

/// "Send a dashboard test delivery. It verifies, gets a 2xx and creates no row."
#[tokio::test]
async fn a_test_delivery() {
    let world = World::start().await;
    world.send_test_delivery();
    world.delivered(1).await;
    assert_eq!(world.metric(INGRESS, "ingress_deliveries_total").await, 1.0);
    let verdict = world.end().await;
    assert_eq!(
        (
            verdict.acknowledged,
            verdict.events,
            verdict.answers,
            verdict.parked
        ),
        (1, 0, 0, 0)
    );
}

/// "Put the receiver behind a redirect. Confirm attempts fail, then register the final URL."
#[tokio::test]
async fn a_redirect_in_front() {
    let world = World::start().await;
    let last = world.account.with(|provider| provider.settings().url.clone());
    let redirect = Redirect::to(&last).await;
    world.register(redirect.url());
    let dead = world.finish_tasks(5);
    eventually("every attempt is used up", SOON, async || {
        world.hasten_retries();
        let states = dead
            .iter()
            .map(|id| world.delivery(id, |delivery| delivery.state));
        let states: Vec<_> = states.collect();
        if states.iter().all(|state| *state == State::Dead) {
            Ok(())
        } else {
            Err(states)
        }
    })
    .await;
    for id in &dead {
        let (attempts, status) =
            world.delivery(id, |delivery| (delivery.attempts.len(), delivery.last_status()));
        assert_eq!((attempts, status), (10, Some(308)));
    }
    assert_eq!(redirect.answered(), 50);
    assert_eq!(world.stream().await.cached_info().state.messages, 0);

    world.register(last);
    let direct = world.finish_tasks(5);
    for id in &dead {
        world.redeliver(id);
    }
    for id in dead.iter().chain(&direct) {
        world.delivered_task(id).await;
    }
    let verdict = world.end().await;
    assert_eq!((verdict.events, verdict.answers), (10, 10));
}

/// "Take the receiver down for longer than the retry window. Confirm dead deliveries show in the log and the reconciliation
/// job recovers every result." It does so while the receiver is still away: it needs the provider, the stream and the rows.
#[tokio::test]
async fn the_receiver_away_for_longer_than_the_retry_window() {
    let setup = Setup {
        reconcilers: 1,
        // The window of 21 to 43 minutes lasts 1.3 to 2.6 seconds.
        speed: 1000.0,
        ..Setup::default()
    };
    let mut world = World::with(setup).await;
    let before = world.finish_tasks(30);
    world.record(&before, Duration::from_secs(1)).await;
    world.delivered(30).await;
    world.stop(INGRESS).await;

    let during = world.finish_tasks(50);
    // Nobody looks for them before the window has passed.
    world.stop(RECONCILER).await;
    world.record(&during, Duration::ZERO).await;
    eventually("every delivery is dead", SOON, async || {
        let dead = |id: &&String| world.delivery(id, |delivery| delivery.state) == State::Dead;
        match during.iter().filter(dead).count() {
            50 => Ok(()),
            dead => Err(dead),
        }
    })
    .await;
    for id in &during {
        let (attempts, error) =
            world.delivery(id, |delivery| (delivery.attempts.len(), delivery.last_error()));
        assert_eq!(attempts, 10, "task {id}");
        assert!(
            error.is_some_and(|error| error.contains("refused") || error.contains("reset")),
            "task {id}"
        );
    }
    world.rows("answers", 30).await;

    world.start_program(RECONCILER).await;
    world.rows("answers", 80).await;
    world.start_program(INGRESS).await;
    world.settle_and_judge().await;
    assert_eq!(world.submissions("SETTLED").await, 80);
    let sql = world.sql().await;
    let fetched = "select count(*) from answers where via = 'reconciler' and task_id = any($1)";
    let fetched = sql.query_one(fetched, &[&during]).await.unwrap();
    assert_eq!(fetched.get::<_, i64>(0), 50);
    let verdict = world.end().await;
    assert_eq!(
        (verdict.acknowledged, verdict.events, verdict.answers),
        (30, 80, 80)
    );
}
