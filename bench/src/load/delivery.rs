//! Deliveries, made and signed before they are needed.

use std::io::Write as _;
use std::ops::Range;
use std::thread;

use sandbox::clock::Clock;
use sandbox::provider::own_scheme;
use sandbox::provider::secrets::Secret;
use sandbox::provider::task::{NewTask, Task};
use sandbox::seed::Seed;
use schemas::signature::{SigningKey, UnixSeconds, sign};
use time::OffsetDateTime;

use super::HOOK;

/// Threads that make deliveries. Nothing else runs meanwhile.
const MAKERS: u64 = 2;

/// How large the bodies are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// About 2 KB, as most results are.
    Usual,
    /// About 20 KB.
    Large,
}

impl Size {
    /// Bytes of the text; its sources and the envelope are another 1,200.
    fn text(self) -> usize {
        match self {
            Self::Usual => 800,
            Self::Large => 18_800,
        }
    }
}

/// A signed delivery.
#[derive(Debug)]
pub struct Delivery {
    /// The task that it tells of.
    pub task_id: String,
    /// The whole request, as it goes over the wire.
    pub request: Box<[u8]>,
}

/// Makes deliveries, all of different tasks.
#[derive(Debug)]
pub struct Mint {
    seed: Seed,
    secret: Secret,
    clock: Clock,
    next: u64,
}

impl Mint {
    /// A mint that signs with `secret`, at the time that `clock` tells.
    pub fn new(seed: Seed, secret: Secret, clock: Clock) -> Self {
        Self {
            seed,
            secret,
            clock,
            next: 0,
        }
    }

    /// `count` deliveries. Their signatures are good for five minutes.
    pub fn deliveries(&mut self, size: Size, count: usize) -> Vec<Delivery> {
        let (first, end) = (self.next, self.next + count as u64);
        self.next = end;
        let (seed, key, now) = (self.seed, self.secret.key(), self.clock.now());
        let share = (count as u64).div_ceil(MAKERS);
        let make = |numbers: Range<u64>| {
            let key = key.clone();
            move || {
                numbers
                    .map(|number| delivery(seed, number, size, &key, now))
                    .collect::<Vec<_>>()
            }
        };
        thread::scope(|scope| {
            let makers: Vec<_> = (0..MAKERS)
                .map(|maker| {
                    let begin = end.min(first + maker * share);
                    scope.spawn(make(begin..end.min(begin + share)))
                })
                .collect();
            let made = makers
                .into_iter()
                .map(|maker| maker.join().expect("making a delivery does not panic"));
            made.flatten().collect()
        })
    }
}

fn delivery(seed: Seed, number: u64, size: Size, key: &SigningKey, now: OffsetDateTime) -> Delivery {
    let rng = &mut seed.rng("delivery", number);
    let request = NewTask {
        task_type: "CHATGPT",
        priority: 5,
        idempotency_key: Some(format!("{}|{number}|DE", seed.0)),
    };
    let task = Task::completed(rng, request, now, size.text());
    let request = http_request(number, &task.body(), key, now.unix_timestamp());
    Delivery {
        task_id: task.id,
        request,
    }
}

fn http_request(number: u64, body: &[u8], key: &SigningKey, now: UnixSeconds) -> Box<[u8]> {
    let id = format!("dlv_{number:016x}");
    let mut request = Vec::with_capacity(body.len() + 384);
    let head = format!(
        "POST {HOOK} HTTP/1.1\r\nhost: localhost\r\nuser-agent: Answerline-Webhooks/1.0\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nwebhook-id: {id}\r\n",
        body.len()
    );
    request.extend_from_slice(head.as_bytes());
    for (name, value) in sign(&own_scheme(), std::slice::from_ref(key), &id, now, body) {
        write!(request, "{name}: ").expect("a vector takes everything");
        request.extend_from_slice(value.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request.extend_from_slice(body);
    request.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use bytes::Bytes;
    use http::{HeaderMap, HeaderName, HeaderValue};
    use schemas::delivery::{self, Delivery as Read};
    use schemas::signature::Verifier;
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-30 12:00 UTC);

    fn mint() -> Mint {
        Mint::new(Seed(7), Secret::generate(Seed(7), 0), Clock::new(|| NOW))
    }

    /// Headers and body of a request.
    fn parsed(request: &[u8]) -> (HeaderMap, Bytes) {
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut head = httparse::Request::new(&mut headers);
        let length = head.parse(request).unwrap().unwrap();
        let headers = head.headers.iter().map(|header| {
            let name: HeaderName = header.name.parse().unwrap();
            (name, HeaderValue::from_bytes(header.value).unwrap())
        });
        (headers.collect(), Bytes::copy_from_slice(&request[length..]))
    }

    #[test]
    fn a_delivery_is_one_that_ingress_takes() {
        let mut mint = mint();
        let delivery = mint.deliveries(Size::Usual, 1).remove(0);
        let (headers, body) = parsed(&delivery.request);
        assert_eq!(headers["content-length"], body.len().to_string());
        let verifier = Verifier::new(own_scheme(), vec![mint.secret.key()], 300).unwrap();
        let claim = verifier.read_claim(&headers, NOW.unix_timestamp()).unwrap();
        let verified = verifier.verify(&claim, body).unwrap();
        let Ok(Read::Result(result)) = delivery::read(verified.body()) else {
            panic!("it is the result of a task");
        };
        assert_eq!(result.task_id.as_str(), delivery.task_id);
    }

    #[test]
    fn deliveries_have_about_the_size_that_was_asked_for() {
        for (size, range) in [(Size::Usual, 1_800..2_600), (Size::Large, 19_000..21_500)] {
            let deliveries = mint().deliveries(size, 50);
            let bytes: usize = deliveries.iter().map(|one| parsed(&one.request).1.len()).sum();
            assert!(range.contains(&(bytes / 50)), "{size:?}: {}", bytes / 50);
        }
    }

    #[test]
    fn no_task_comes_twice_however_many_times_the_mint_is_asked() {
        let mut mint = mint();
        let mut ids = HashSet::new();
        for count in [0, 1, 2, 3, 100] {
            let deliveries = mint.deliveries(Size::Usual, count);
            assert_eq!(deliveries.len(), count);
            ids.extend(deliveries.into_iter().map(|delivery| delivery.task_id));
        }
        assert_eq!(ids.len(), 106);
    }
}
