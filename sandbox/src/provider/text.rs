//! Words, sentences and sources such as an answer engine gives.

use std::sync::LazyLock;

use rand::Rng;
use rand::seq::IndexedRandom;
use serde::Serialize;

static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| TEXT.split_whitespace().collect());

const TEXT: &str = "\
    the a most buyers compare price range with build quality before they choose brands that appear in \
    several independent tests and reviews tend to score well for service too recent guides list makers whose \
    models last longer than average café owners report fewer repairs when parts are sold separately delivery \
    times vary between countries so local stock matters naïve rankings often miss warranty terms which \
    differ by market Größe weight noise energy use remain deciding factors however newer entries offer \
    better value at launch some sources disagree on durability “budget” lines usually share components from \
    older premium ones — seen year after support ends early customers switch back quickly señal of trust";

const SITES: &[&str] = &[
    "reviews.example",
    "tests.example",
    "guides.example",
    "market.example",
    "forum.example",
];

/// A page that an answer leans on.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Source {
    position: u32,
    url: String,
    label: String,
    description: String,
}

/// Sentences of altogether at least `bytes` bytes.
pub(super) fn prose(rng: &mut impl Rng, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 160);
    while text.len() < bytes {
        if !text.is_empty() {
            text.push_str(if rng.random_ratio(1, 5) { "\n\n" } else { " " });
        }
        let count = rng.random_range(7..18);
        text.push_str(&phrase(rng, count));
        text.push(if rng.random_ratio(1, 12) { '?' } else { '.' });
    }
    text
}

/// Between 3 and 8 sources.
pub(super) fn sources(rng: &mut impl Rng) -> Vec<Source> {
    let count = rng.random_range(3..=8);
    (1..=count)
        .map(|position| {
            let (site, page) = (
                SITES.choose(rng).expect("there are sites"),
                rng.random_range(100..99_999),
            );
            let (words, more) = (rng.random_range(2..6), rng.random_range(5..14));
            Source {
                position,
                url: format!("https://{site}/articles/{page}"),
                label: phrase(rng, words),
                description: phrase(rng, more),
            }
        })
        .collect()
}

/// `words` words, the first with a capital.
fn phrase(rng: &mut impl Rng, words: usize) -> String {
    let mut text = String::new();
    for _ in 0..words {
        let word = WORDS.choose(rng).expect("there are words");
        if text.is_empty() {
            let mut letters = word.chars();
            text.extend(letters.next().into_iter().flat_map(char::to_uppercase));
            text.push_str(letters.as_str());
        } else {
            text.push(' ');
            text.push_str(word);
        }
    }
    text
}
