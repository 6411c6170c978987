//! What is refused at the start, and the other commands.

use sandbox::servers::Postgres;

use crate::answer::Answer;
use crate::world::World;

#[tokio::test]
async fn all_faults_of_the_configuration_are_named_at_once() {
    let world = World::new().await;
    let builder = world
        .projector()
        .set("DATABASE_URL", "postgres://p:hunter2@db/answers?sslmode=require")
        .set("BATCH_MESSAGES", 1_000_000)
        .set("BATCH_BYTES", "x")
        .set("ACK_WAIT", "1s")
        .set("DATABASE_POOL_SIZE", 1);
    let (code, text) = builder.output(&["run"]).await;
    assert_eq!(code, Some(64), "{text}");
    for name in [
        "--database-ca",
        "--batch-messages",
        "--batch-bytes",
        "--ack-wait",
        "--database-pool-size",
    ] {
        assert!(text.contains(name), "{name} in {text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn a_database_without_the_schema_is_refused_and_migrate_puts_it_right() {
    let world = World::new().await;
    let bare = Postgres::shared().await.empty_database().await;
    let builder = world.projector().set("DATABASE_URL", bare.url());
    let (code, text) = builder.output(&["run"]).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("projector migrate"), "{text}");
    for expected in ["migrated the schema", "the schema is up to date"] {
        let (code, text) = builder.output(&["migrate"]).await;
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(expected), "{text}");
    }
    builder.start_ready().await.stop().await;
}

#[tokio::test]
async fn other_rules_than_the_rows_were_made_with_are_refused() {
    let world = World::new().await;
    let projector = world.start().await;
    world.publish(&Answer::of("t").key("model-r2")).await;
    world.rows("answers", 1).await;
    projector.stop().await;
    let builder = world.projector().set("RERUN_SUFFIX", "false");
    let (code, text) = builder.output(&["run"]).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("rerun_suffix = true") && text.contains("rebuild"),
        "{text}"
    );
    world
        .sql
        .batch_execute("delete from projection; truncate answers, winners")
        .await
        .unwrap();
    let _projector = builder.start_ready().await;
    world.rows("answers", 1).await;
    assert_eq!(
        world.value::<String>("select job_key from answers", &[]).await,
        "model-r2"
    );
}

#[tokio::test]
async fn the_health_check_says_what_readyz_says() {
    let world = World::new().await;
    let projector = world.start().await;
    let admin = projector.admin().to_string();
    let (code, text) = world
        .projector()
        .set("ADMIN_LISTEN", &admin)
        .output(&["healthcheck"])
        .await;
    assert_eq!((code, text.as_str()), (Some(0), ""));
    projector.stop().await;
    let (code, text) = world
        .projector()
        .set("ADMIN_LISTEN", &admin)
        .output(&["healthcheck"])
        .await;
    assert_eq!(code, Some(1), "{text}");
}

#[tokio::test]
async fn a_schema_named_in_the_url_is_where_the_tables_are() {
    let world = World::new().await;
    let database = Postgres::shared().await.empty_database().await;
    let sql = database.connect().await;
    sql.batch_execute("create schema mine").await.unwrap();
    let builder = world.projector().set(
        "DATABASE_URL",
        format!("{}?options=-csearch_path%3Dmine", database.url()),
    );
    assert_eq!(builder.output(&["migrate"]).await.0, Some(0));
    let projector = builder.start_ready().await;
    world.publish(&Answer::of("a")).await;
    world.settled().await;
    let count: i64 = sql
        .query_one("select count(*) from mine.answers", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(count, 1);
    projector.stop().await;
}
