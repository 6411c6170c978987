//! Appending.

use futures_util::future::join_all;
use stream::Appended;
use stream::append::Mode;

use crate::world::{World, completed, mode};

#[tokio::test]
async fn an_event_is_stored_byte_for_byte_under_its_task_id() {
    let world = World::start().await;
    let appender = world.appender(&mode(Mode::Auto)).await;
    let event = completed("t-1", "yes");
    let stored = appender.append(event.clone()).await;
    assert_eq!(stored, Ok(Appended::Stored { seq: 1 }));
    assert_eq!(world.stored(1).await, Some(("t-1".to_owned(), event.body)));
}

#[tokio::test]
async fn every_event_of_a_batch_gets_its_own_sequence() {
    let world = World::start().await;
    let appender = world.appender(&mode(Mode::Batch)).await;
    let events: Vec<_> = (0..300).map(|n| completed(&format!("t-{n}"), "yes")).collect();
    let answers = join_all(events.iter().map(|event| appender.append(event.clone()))).await;
    for (event, answer) in events.into_iter().zip(answers) {
        let Ok(Appended::Stored { seq }) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(
            world.stored(seq).await,
            Some((event.msg_id.to_string(), event.body))
        );
    }
    assert_eq!(world.last_seq().await, 300);
}
