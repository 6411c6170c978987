//! Backup and restore, as docs/retention.md has them.

use std::{fs, path::Path, time::Duration};

use sandbox::{eventually, program::page};

use crate::{
    SOON,
    delivery::{connect, migrate},
    deployment::{Deployment, Running},
    retention::{BACKUP, PAGE, TASKS, as_user, becomes, sent, text},
    said,
    walk::{Person, Section, well},
};

const FLOOR: &str = "select max(floor_seq)::text from projection";

/// Everything in order: the database is saved first, and nothing is lost that the broker had by the time it was saved.
#[tokio::test]
async fn broker_and_database_are_saved_and_restored_together_and_apart() {
    let mut deployment = Deployment::start().await;
    migrate(&deployment);
    let mut section = Section::of(PAGE, BACKUP);
    let client = connect(&deployment).await;
    let mut person = Person::beside(&deployment);
    {
        let (ingress, projector) = both(&deployment).await;
        assert_eq!(sent(&ingress, "before", "").await, 204);
        becomes(&client, TASKS, "before").await;
        well(&section.run(&person, "pg_dump"));
        assert_eq!(sent(&ingress, "between", "").await, 204);
        becomes(&client, TASKS, "before between").await;
        drop((ingress, projector));
    }
    deployment.nats.stop().await;
    well(&section.run(&person, "tar --create"));
    deployment.nats.restart().await;
    {
        let (ingress, _projector) = both(&deployment).await;
        assert_eq!(sent(&ingress, "after", "").await, 204);
        becomes(&client, TASKS, "after before between").await;
    }

    // The database alone: everything that the stream has comes back by itself.
    drop(client);
    let restore_database = section.block("pg_restore");
    well(&person.shell(&restore_database));
    let client = connect(&deployment).await;
    assert_eq!(text(&client, TASKS).await.as_deref(), Some("before"));
    {
        let (_ingress, _projector) = both(&deployment).await;
        becomes(&client, TASKS, "after before between").await;
        becomes(&client, FLOOR, "3").await;
    }

    // The broker alone: it has lost its end, the rows have not, and somebody has to know.
    let restore_broker = section.block("tar --extract");
    deployment.nats.stop().await;
    well(&person.shell(&restore_broker));
    deployment.nats.restart().await;
    {
        let ingress = deployment.run("ingress");
        let projector = deployment.run("projector");
        ingress.is_healthy().await;
        let why = "it has lost its end";
        eventually(why, SOON, async || {
            match page(projector.admin.addr(), "/readyz").await {
                Ok((503, reasons)) if reasons.contains(why) => Ok(()),
                other => Err(other.map_err(|e| e.to_string())),
            }
        })
        .await;
        // What comes now takes sequences that were given out before.
        assert_eq!(sent(&ingress, "anew", "").await, 204);
        becomes(&client, TASKS, "after anew before between").await;
        well(&section.run(&person, "delete from projection"));
        projector.is_healthy().await;
        becomes(&client, TASKS, "after anew before between").await;
    }
    as_user(&mut person, "projector");
    let told = person.shell("projector explain after");
    assert!(said(&told).contains("does not hold the event"), "{}", said(&told));

    // Both together: nothing needs to be accepted.
    drop(client);
    deployment.nats.stop().await;
    well(&person.shell(&restore_broker));
    deployment.nats.restart().await;
    well(&person.shell(&restore_database));
    let (_ingress, _projector) = both(&deployment).await;
    let client = connect(&deployment).await;
    becomes(&client, TASKS, "before between").await;
}

async fn both(deployment: &Deployment) -> (Running<'_>, Running<'_>) {
    let pair = (deployment.run("ingress"), deployment.run("projector"));
    pair.0.is_healthy().await;
    pair.1.is_healthy().await;
    pair
}

/// In the other order the rows reach further than the stream.
#[tokio::test]
async fn a_broker_that_was_saved_before_the_database_is_noticed_when_both_are_restored() {
    let mut deployment = Deployment::start().await;
    migrate(&deployment);
    let client = connect(&deployment).await;
    let saved = deployment.dir.path().join("store");
    {
        let (ingress, _projector) = both(&deployment).await;
        assert_eq!(sent(&ingress, "early", "").await, 204);
        becomes(&client, TASKS, "early").await;
    }
    deployment.nats.stop().await;
    copy(&deployment.nats.store_dir(), &saved);
    deployment.nats.restart().await;
    {
        let (ingress, _projector) = both(&deployment).await;
        assert_eq!(sent(&ingress, "later", "").await, 204);
        becomes(&client, TASKS, "early later").await;
        becomes(&client, FLOOR, "2").await;
    }
    // As if the database had been saved and restored here.
    deployment.nats.stop().await;
    let store = deployment.nats.store_dir();
    fs::remove_dir_all(&store).unwrap();
    copy(&saved, &store);
    deployment.nats.restart().await;
    let _ingress = deployment.run("ingress");
    let projector = deployment.run("projector");
    eventually("it is noticed", Duration::from_secs(60), async || {
        let (status, reasons) = page(projector.admin.addr(), "/readyz")
            .await
            .map_err(|e| e.to_string())?;
        if status == 503 && reasons.contains("it has lost its end") {
            Ok(())
        } else {
            Err(reasons)
        }
    })
    .await;
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
