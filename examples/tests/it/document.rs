//! What `docs/subscribing.md` shows works on the table of the example.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sandbox::eventually;

use crate::SOON;
use crate::python::EXAMPLES;
use crate::subscriber::{InRust, Subscriber};
use crate::world::{World, result};

/// The blocks of one language, in order.
pub(crate) fn blocks(language: &str) -> Vec<String> {
    let document = Path::new(EXAMPLES).join("../docs/subscribing.md");
    let text = std::fs::read_to_string(document).unwrap();
    let mut blocks = Vec::new();
    for rest in text.split(&format!("```{language}\n")).skip(1) {
        blocks.push(rest.split("```").next().unwrap().to_owned());
    }
    assert!(!blocks.is_empty(), "{language}");
    blocks
}

#[tokio::test]
async fn the_queries_of_the_document_tell_which_result_counts() {
    let mut world = World::start().await;
    let mut subscriber = InRust::of(&world).await;
    let at = |second: u8, status: &str, response: &str| {
        result("twice", status, response).replace("12:00:00Z", &format!("12:00:0{second}Z"))
    };
    for body in [
        at(1, "COMPLETED", "1"),
        at(3, "COMPLETED", "2"),
        at(2, "COMPLETED", "3"),
        at(9, "FAILED", "4"),
        result("once", "FAILED", "5"),
    ] {
        world.append([body]).await;
    }
    subscriber.start();
    subscriber.has_all_of(&world).await;
    subscriber.stop().await;
    let [counting, contradicting] = &blocks("sql")[..] else {
        panic!("the document has other queries");
    };
    let rows = subscriber.sql.query(counting, &[]).await.unwrap();
    let found: Vec<(String, String)> = rows
        .iter()
        .map(|row| (row.get("task_id"), row.get("body")))
        .collect();
    assert_eq!(
        found,
        [
            ("once".to_owned(), result("once", "FAILED", "5")),
            ("twice".to_owned(), at(3, "COMPLETED", "2"))
        ]
    );
    let rows = subscriber.sql.query(contradicting, &[]).await.unwrap();
    let found: Vec<(&str, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(found, [("twice", 4)]);
}

/// Whoever copies the example gets what it is tested with.
#[test]
fn the_packages_that_a_copy_needs_are_those_of_the_example() {
    let read = |path: &str| std::fs::read_to_string(Path::new(EXAMPLES).join(path)).unwrap();
    // The versions of a table of dependencies, by name.
    let versions = |text: &str| -> BTreeMap<String, String> {
        let entries = text.lines().filter_map(|line| {
            let (name, rest) = line.split_once(" = ")?;
            let version = rest.strip_prefix("{ version = ").unwrap_or(rest);
            Some((name.to_owned(), version.split('"').nth(1)?.to_owned()))
        });
        entries.collect()
    };
    let manifest = read("Cargo.toml");
    let (_, needed) = manifest.split_once("nothing of this repository.\n").unwrap();
    let (needed, _) = needed.split_once('#').unwrap();
    let workspace = versions(&read("../Cargo.toml"));
    let expected = needed.lines().map(|line| {
        let name = line.strip_suffix(".workspace = true").unwrap();
        (name.to_owned(), workspace[name].clone())
    });
    assert_eq!(versions(&blocks("toml").concat()), expected.collect());
}

/// Several of them are one subscriber.
#[tokio::test]
async fn two_processes_with_one_consumer_share_the_work() {
    let mut world = World::start().await;
    let (mut first, mut second) = (InRust::of(&world).await, InRust::of(&world).await);
    world.append(crate::world::results(0..1000)).await;
    first.start();
    second.start();
    eventually("all is taken", SOON, async || {
        match first.taken().0 + second.taken().0 {
            1000 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    world.all_is_acknowledged().await;
    let (first, second) = (first.ids().await, second.ids().await);
    assert!(first.is_disjoint(&second));
    assert_eq!(
        first.union(&second).cloned().collect::<BTreeSet<_>>(),
        world.ids()
    );
}
