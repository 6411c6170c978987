//! Streams that do not hold everything, and streams that are not the one that the rows came from.

use schemas::event::Subjects;
use stream::StreamSpec;

use super::{dump, history, run};
use crate::pooler::Pooler;
use crate::projector::Builder;
use crate::world::World;

/// So many results, projected, and nobody projecting any more.
async fn projected(results: usize) -> World {
    let world = World::new().await;
    world.publish_all(history(results)).await;
    let projector = world.start().await;
    world.rows("answers", i64::try_from(results).unwrap()).await;
    world.settled().await;
    projector.stop().await;
    world
}

async fn new_stream(world: &World) {
    let jetstream = &world.connection.jetstream;
    jetstream.delete_stream(&world.spec.name).await.unwrap();
    stream::declare::declare(&world.connection, &world.spec)
        .await
        .unwrap();
}

#[tokio::test]
async fn rows_whose_events_are_gone_are_counted_and_kept_until_they_are_pruned() {
    let world = projected(100).await;
    let stream = world.stream().await;
    stream.purge().sequence(6).await.unwrap();
    for seq in [20, 21, 40] {
        stream.delete_message(seq).await.unwrap();
    }
    // Wrong all the same: the event that it names is there.
    world
        .sql
        .batch_execute("update answers set response = null where task_id = 't50'")
        .await
        .unwrap();
    let builder = world.projector();
    let verified = run(&builder, &["verify", "--deep"]).await;
    assert_eq!(verified.code, Some(1), "{verified:?}");
    assert_eq!(verified.number("/replayed/gone/head"), 5);
    assert_eq!(verified.number("/replayed/gone/holes"), 3);
    assert_eq!(verified.report["replayed"]["gone"]["ranges"][1]["first"], 20);
    assert_eq!(verified.found("answers"), [0, 1, 0, 0, 8], "{verified:?}");
    let lost_winners = verified.found("winners")[4];
    assert!(
        lost_winners > 0 && verified.found("winners")[..4] == [0; 4],
        "{verified:?}"
    );

    let kept = run(&builder, &["rebuild"]).await;
    assert_eq!(kept.code, Some(0), "{kept:?}");
    assert_eq!(kept.repaired("answers"), [0, 1, 0, 0, 0]);
    assert_eq!(world.count("answers").await, 100);
    let (_, text) = builder.stdout(&["verify"]).await;
    assert!(
        text.contains("no longer holds 8 of them, 5 at its head: 1 to 5, 20 to 21, 40"),
        "{text}"
    );

    let pruned = run(&builder, &["rebuild", "--prune"]).await;
    assert_eq!(pruned.code, Some(0), "{pruned:?}");
    assert_eq!(pruned.repaired("answers"), [0, 0, 0, 0, 8]);
    assert_eq!(world.count("answers").await, 92);
    let clean = run(&builder, &["verify", "--deep"]).await;
    assert_eq!(
        (clean.code, clean.found("answers"), clean.found("winners")),
        (Some(0), [0; 5], [0; 5])
    );
}

/// It is older than the rows, and everything in it would do.
#[tokio::test]
async fn a_stream_of_another_name_than_the_rows_came_from_is_refused() {
    let other = World::new().await;
    other.publish_all(history(40).skip(30)).await;
    let world = projected(30).await;
    let builder = Builder::new(&other.nats_url, &world.database.url(), &other.spec);
    for command in ["verify", "rebuild"] {
        let refused = run(&builder, &[command]).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.said.contains(&world.spec.name), "{refused:?}");
    }
    assert_eq!(world.count("answers").await, 30);

    // A projector of it, started by mistake, makes it no less strange.
    let mistaken = builder.start_ready().await;
    world.rows("answers", 40).await;
    mistaken.stop().await;
    let own = world.projector();
    for (builder, named) in [(&builder, &world), (&own, &other)] {
        let refused = run(builder, &["rebuild"]).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.said.contains(&named.spec.name), "{refused:?}");
    }

    let forced = run(&builder, &["rebuild", "--force"]).await;
    assert_eq!(forced.repaired("answers"), [0; 5], "{forced:?}");
    let refused = run(&builder, &["rebuild"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_eq!(world.count("answers").await, 40);
}

#[tokio::test]
async fn other_subjects_than_those_of_the_stream_are_refused() {
    let world = projected(10).await;
    let spec = StreamSpec {
        subjects: Subjects::new("mistyped").unwrap(),
        ..world.spec.clone()
    };
    let builder = Builder::new(&world.nats_url, &world.database.url(), &spec);
    for arguments in [
        &["verify"][..],
        &["rebuild"],
        &["explain", "t1"],
        &["erase", "t1"],
    ] {
        let (code, said) = builder.output(arguments).await;
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("--subject-prefix"), "{said}");
    }
    assert_eq!(world.count("answers").await, 10);
}

#[tokio::test]
async fn another_stream_is_refused_and_by_force_it_takes_nothing_away() {
    let world = projected(30).await;
    new_stream(&world).await;
    let builder = world.projector();
    for command in ["verify", "rebuild"] {
        let refused = run(&builder, &[command]).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.said.contains("the stream is empty"), "{refused:?}");
    }
    world.publish_all(history(33).skip(28)).await;
    let refused = run(&builder, &["rebuild"]).await;
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.said.contains("created at") && refused.said.contains("--force"),
        "{refused:?}"
    );
    assert_eq!(world.count("answers").await, 30);

    let forced = run(&builder, &["rebuild", "--force"]).await;
    assert_eq!(forced.code, Some(0), "{forced:?}");
    // t28 and t29 are on both streams; theirs of before are the first copies, and stay.
    assert_eq!(forced.found("answers")[4], 30, "{forced:?}");
    assert_eq!(world.count("answers").await, 33);
    // It is the stream of these rows now.
    let accepted = run(&builder, &["verify"]).await;
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    assert_eq!(accepted.found("answers"), [0, 0, 0, 0, 30], "{accepted:?}");
    let pruned = run(&builder, &["rebuild", "--prune"]).await;
    assert_eq!(pruned.code, Some(0), "{pruned:?}");
    assert_eq!(world.count("answers").await, 5);
    assert_eq!(
        run(&builder, &["verify", "--deep"]).await.found("answers"),
        [0; 5]
    );
}

#[tokio::test]
async fn a_stream_that_lost_its_end_or_is_younger_than_the_rows_is_refused() {
    let world = projected(10).await;
    let builder = world.projector();
    let short = "update projection set floor_seq = floor_seq + 100";
    world.sql.batch_execute(short).await.unwrap();
    let refused = run(&builder, &["rebuild"]).await;
    assert_eq!(refused.code, Some(2));
    assert!(refused.said.contains("it has lost its end"), "{refused:?}");

    let other = "update projection set floor_seq = floor_seq - 100, floor_msg_id = 'another'";
    world.sql.batch_execute(other).await.unwrap();
    let refused = run(&builder, &["verify"]).await;
    assert_eq!(refused.code, Some(2));
    assert!(refused.said.contains("another message"), "{refused:?}");

    let forgotten = "delete from projection; update answers set received_at = received_at - interval '1 day' where task_id = 't3'";
    world.sql.batch_execute(forgotten).await.unwrap();
    let refused = run(&builder, &["verify"]).await;
    assert_eq!(refused.code, Some(2));
    assert!(refused.said.contains("the stream is younger"), "{refused:?}");
}

/// What the database remembers of its stream, and every row.
async fn all(world: &World) -> (String, Vec<String>) {
    let remembered = world.value("select p::text from projection p", &[]).await;
    (remembered, dump(&world.sql).await)
}

#[tokio::test]
async fn a_stream_that_is_refused_does_not_stop_the_projectors_of_the_right_one() {
    let world = projected(30).await;
    new_stream(&world).await;
    world.publish_all(history(5)).await;
    let before = all(&world).await;
    let refused = run(&world.projector().set("RERUN_SUFFIX", "false"), &["rebuild"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.said.contains("created at"), "{refused:?}");
    assert_eq!(all(&world).await, before);
}

#[tokio::test]
async fn a_database_that_is_read_only_is_left_so() {
    let world = projected(30).await;
    let lose = "delete from answers where task_id in ('t3', 't5')";
    world.sql.batch_execute(lose).await.unwrap();
    let before = all(&world).await;
    let read_only = |on: &str| {
        let database = world.database.name();
        format!("alter database {database} set default_transaction_read_only = {on}")
    };
    world.sql.batch_execute(&read_only("on")).await.unwrap();
    for rerun_suffix in ["true", "false"] {
        let builder = world.projector().set("RERUN_SUFFIX", rerun_suffix);
        let refused = run(&builder, &["rebuild"]).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.said.contains("the database is read-only"), "{refused:?}");
        assert_eq!(all(&world).await, before);
    }
}

// B28
#[tokio::test]
async fn a_pooler_that_gives_each_transaction_another_session_is_noticed() {
    let world = projected(10).await;
    let pooler = Pooler::start(&world.database, 5).await;
    let builder = world.projector().set("DATABASE_URL", pooler.url());
    for command in ["verify", "rebuild"] {
        let refused = run(&builder, &[command]).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.said.contains("pooler"), "{refused:?}");
    }
}

#[tokio::test]
async fn a_stream_that_is_not_there_is_not_made() {
    let world = World::new().await;
    let refused = run(&world.projector().set("STREAM", "NOWHERE"), &["verify"]).await;
    assert_eq!(refused.code, Some(2));
    assert!(refused.said.contains("there is no stream NOWHERE"), "{refused:?}");
    let streams = world.connection.jetstream.get_stream("NOWHERE").await;
    assert!(streams.is_err());
}
