//! The events that a reconciler sends, against `asyncapi.yaml`.

use sandbox::eventually;
use sandbox::provider::outcome::Outcome;
use schemas::documents::Documents;
use schemas::event::{Subjects, header};

use crate::world::{SOON, World};

#[tokio::test]
async fn what_was_found_is_an_event_as_described() {
    let world = World::new().await;
    let (failed, failed_id) = world.queued(None);
    let now = world.clock.now();
    world
        .account
        .with(|provider| provider.finish(failed, Outcome::queue_wait_exceeded(), now))
        .unwrap();
    let (_, completed_id) = world.finished_with_key(Some("best crm|DE é"));
    world.submit(&failed_id).await;
    world.submit(&completed_id).await;
    let _reconciler = world.start().await;
    eventually("both are found", SOON, async || world.events().await == 2).await;

    let documents = Documents::load();
    let described = Subjects::new("answers").unwrap();
    let connection = world.connect().await;
    let stream = connection.jetstream.get_stream(&world.spec.name).await.unwrap();
    for seq in [1, 2] {
        let event = stream.get_raw_message(seq).await.unwrap();
        let kind = world.spec.subjects.parse(&event.subject).unwrap();
        let headers = event.headers.iter().flat_map(|(name, values)| {
            let values = values.iter();
            values.map(move |value| (AsRef::<str>::as_ref(name), value.as_str()))
        });
        let differences = documents.event_differences(described.of(kind), headers, &event.payload);
        assert_eq!(differences, [], "{event:?}");
        assert_eq!(event.headers.get(header::VIA).unwrap().as_str(), "reconciler");
    }
}
