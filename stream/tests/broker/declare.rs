//! Declaring the stream.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use futures_util::future::join_all;
use sandbox::servers::{NatsOptions, NatsServer};
use stream::declare::{check, declare, update};
use stream::{ConnectError, DeclareError, StreamSpec};

use crate::world::{World, connect};

#[tokio::test]
async fn a_stream_that_is_absent_is_created_as_the_promise_needs_it() {
    let world = World::start().await;
    let config = &world.declared.info.config;
    assert_eq!(config.storage, StorageType::File);
    assert_eq!(config.discard, DiscardPolicy::New);
    assert_eq!(config.subjects, ["answers.>"]);
    assert_eq!(config.duplicate_window, Duration::from_secs(3600));
    assert!(config.allow_atomic_publish && config.allow_direct && !config.no_ack);
    assert_eq!(
        usize::try_from(config.max_message_size),
        Ok(world.connection.max_payload())
    );
    assert_eq!(world.declared.warnings, Vec::<String>::new());
    assert_eq!(
        check(&world.connection, &StreamSpec::default()).await.unwrap(),
        []
    );
}

#[tokio::test]
async fn many_processes_that_declare_at_once_agree() {
    let server = NatsServer::start().await;
    let connection = connect(&server.url()).await;
    let declared = (0..8).map(|n| {
        let connection = connection.clone();
        tokio::spawn(async move {
            // Not all of them are configured alike.
            let spec = StreamSpec {
                max_bytes: (1 << 30) + n % 2,
                ..StreamSpec::default()
            };
            declare(&connection, &spec)
                .await
                .map(|declared| declared.info.created)
        })
    });
    let mut created = Vec::new();
    for declared in declared.collect::<Vec<_>>() {
        created.push(declared.await.unwrap().unwrap());
    }
    created.dedup();
    assert_eq!(created.len(), 1);
}

/// A broker whose streams have this much room in all.
async fn broker_with_room(room: &str) -> NatsServer {
    let options = NatsOptions {
        // The later block stands in place of the sandbox's own.
        extra: format!("jetstream {{ max_file_store: {room} }}"),
        ..NatsOptions::default()
    };
    NatsServer::start_with(options).await.expect("the broker starts")
}

#[tokio::test]
async fn processes_that_create_the_stream_at_once_need_room_for_one() {
    let server = broker_with_room("1500MB").await;
    let connections = join_all((0..8).map(|_| async { connect(&server.url()).await })).await;
    for round in 0..20 {
        let spec = StreamSpec {
            name: format!("ROUND_{round}"),
            max_bytes: 1 << 30,
            ..StreamSpec::default()
        };
        for declared in join_all(connections.iter().map(|one| declare(one, &spec))).await {
            assert_eq!(declared.unwrap().name(), spec.name);
        }
        let jetstream = &connections[0].jetstream;
        jetstream.delete_stream(&spec.name).await.unwrap();
    }
}

#[tokio::test]
async fn a_stream_that_the_broker_has_no_room_for_is_an_error() {
    let server = broker_with_room("500MB").await;
    let spec = StreamSpec {
        max_bytes: 1 << 30,
        ..StreamSpec::default()
    };
    let error = declare(&connect(&server.url()).await, &spec).await.unwrap_err();
    let DeclareError::Create { source, .. } = &error else {
        panic!("{error}")
    };
    assert!(source.to_string().contains("insufficient storage"), "{source}");
}

#[tokio::test]
async fn a_stream_that_would_lose_events_is_refused_by_the_name_of_the_field_and_left_as_it_is() {
    type Change = fn(&mut Config);
    let unfit: [(&str, Change); 6] = [
        ("storage", |config| config.storage = StorageType::Memory),
        ("no_ack", |config| {
            config.no_ack = true;
            config.allow_atomic_publish = false;
        }),
        ("discard", |config| config.discard = DiscardPolicy::Old),
        ("duplicate_window", |config| {
            config.duplicate_window = Duration::from_secs(3599)
        }),
        ("subjects", |config| {
            config.subjects = vec!["answers.result.>".to_owned()]
        }),
        ("sealed", |config| config.sealed = true),
    ];
    let world = World::start().await;
    let good = world.declared.info.config.clone();
    for (field, change) in unfit {
        let name = format!("S_{field}");
        let spec = StreamSpec {
            name: name.clone(),
            subjects: schemas::event::Subjects::new(&field.replace('_', "-")).unwrap(),
            ..StreamSpec::default()
        };
        let mut config = Config {
            name: name.clone(),
            subjects: vec![spec.subjects.all().to_owned()],
            max_bytes: 1 << 20,
            ..good.clone()
        };
        let sealed = field == "sealed";
        if !sealed {
            change(&mut config);
        }
        if field == "subjects" {
            config.subjects = vec!["subjects.result.>".to_owned()];
        }
        let jetstream = &world.connection.jetstream;
        jetstream.create_stream(config.clone()).await.unwrap();
        if sealed {
            change(&mut config);
            jetstream.update_stream(&config).await.unwrap();
        }
        let before = jetstream
            .get_stream(&name)
            .await
            .unwrap()
            .cached_info()
            .config
            .clone();
        let error = declare(&world.connection, &spec).await.unwrap_err();
        let DeclareError::Unfit { differences, .. } = &error else {
            panic!("{error}")
        };
        assert!(
            differences.iter().any(|difference| difference.field == field),
            "{field}: {error}"
        );
        assert!(error.to_string().contains(field), "{error}");
        assert_eq!(
            jetstream.get_stream(&name).await.unwrap().cached_info().config,
            before
        );
    }
}

#[tokio::test]
async fn harmless_differences_warn_and_update_removes_them() {
    let world = World::start().await;
    world
        .reconfigure(|config| {
            config.max_bytes = 1 << 20;
            config.allow_atomic_publish = false;
            config.max_message_size = 100_000;
        })
        .await;
    let spec = StreamSpec::default();
    let declared = declare(&world.connection, &spec).await.unwrap();
    let text = declared.warnings.join("\n");
    for field in ["max_bytes", "allow_atomic", "max_msg_size"] {
        assert!(text.contains(field), "{field} in {text}");
    }
    assert_eq!(declared.max_message, 100_000);
    assert_eq!(check(&world.connection, &spec).await.unwrap().len(), 3);
    assert_eq!(update(&world.connection, &spec).await.unwrap().len(), 3);
    assert_eq!(check(&world.connection, &spec).await.unwrap(), []);
}

#[tokio::test]
async fn checking_a_stream_that_is_absent_creates_none() {
    let server = NatsServer::start().await;
    let connection = connect(&server.url()).await;
    let error = check(&connection, &StreamSpec::default()).await.unwrap_err();
    assert!(matches!(error, DeclareError::Absent { .. }), "{error}");
    assert!(connection.jetstream.get_stream("ANSWERS").await.is_err());
}

#[tokio::test]
async fn wrong_credentials_are_an_error_and_right_ones_are_none() {
    let options = NatsOptions {
        extra: "authorization { user: bob, password: s3cret }".to_owned(),
        user: Some(("bob".to_owned(), "s3cret".to_owned())),
        ..NatsOptions::default()
    };
    let server = NatsServer::start_with(options).await.unwrap();
    let settings = stream::connect::Settings::for_url(server.url());
    let wrong = settings.clone().with_user("bob", "wrong");
    let error = stream::connect::connect(&wrong, "test").await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
    assert!(!format!("{error:?}").contains("wrong"));
    stream::connect::connect(&settings.with_user("bob", "s3cret"), "test")
        .await
        .unwrap();
}

#[tokio::test]
async fn a_broker_that_comes_later_is_waited_for() {
    let mut server = NatsServer::start().await;
    let url = server.url();
    server.kill();
    let connecting = tokio::spawn(async move { connect(&url).await });
    server.restart().await;
    assert!(connecting.await.unwrap().is_connected());
}
