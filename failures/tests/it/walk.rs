//! Short walks. `make failures MINUTES=30` walks for longer.

use failures::walk::Chapter;
use sandbox::clock::Clock;
use sandbox::seed::Seed;

async fn walk(seed: u64) {
    println!("seed {seed}");
    let chapter = Chapter {
        seed: Seed(seed),
        stretches: 1,
        operations: 25,
    };
    let verdict = chapter.walk(&Default::default()).await;
    assert!(verdict.answers > 0, "{verdict}");
}

#[tokio::test]
async fn a_short_walk_that_is_always_the_same() {
    walk(7).await;
}

#[tokio::test]
async fn a_short_walk_that_is_never_the_same() {
    walk(Clock::system().now().unix_timestamp().unsigned_abs()).await;
}
