//! What a durable consumer should be, and how one that is there differs.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, Config, DeliverPolicy, ReplayPolicy};
use clap::Args;

/// What a durable consumer should be.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Consumer")]
pub struct ConsumerSpec {
    /// Name of the durable consumer. Processes with the same one share the work.
    #[arg(
        long = "consumer",
        env = "CONSUMER",
        value_name = "NAME",
        value_parser = consumer_name,
        default_value = "projector"
    )]
    pub durable: String,

    /// Time after which an event that was not acknowledged comes again. Must exceed the time a batch may take.
    #[arg(long = "ack-wait", env = "ACK_WAIT", value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub ack_wait: Duration,

    /// Most events delivered and not acknowledged, over all processes. Nothing more is delivered beyond.
    #[arg(long = "max-ack-pending", env = "MAX_ACK_PENDING", value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(i64).range(1..))]
    pub max_ack_pending: i64,
}

impl Default for ConsumerSpec {
    fn default() -> Self {
        Self {
            durable: "projector".to_owned(),
            ack_wait: Duration::from_secs(60),
            max_ack_pending: 20_000,
        }
    }
}

/// What the broker takes as the name of a consumer, and what can be a token of a subject.
///
/// # Errors
/// Says what it should be.
pub fn consumer_name(text: &str) -> Result<String, &'static str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if !text.is_empty() && text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err("must be letters, digits, `-` and `_`")
    }
}

/// Where a consumer begins that is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the first event.
    First,
    /// Behind the event with this sequence.
    After(u64),
}

impl ConsumerSpec {
    pub(super) fn config(&self, filter: &str, start: Start) -> Config {
        let mut config = Config {
            durable_name: Some(self.durable.clone()),
            name: Some(self.durable.clone()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.ack_wait,
            max_deliver: -1,
            filter_subject: filter.to_owned(),
            max_ack_pending: self.max_ack_pending,
            ..Config::default()
        };
        if let Start::After(seq) = start {
            config.deliver_policy = DeliverPolicy::ByStartSequence {
                start_sequence: seq.saturating_add(1),
            };
        }
        config
    }

    /// `found` with everything that can be changed as it runs set as it should be; the others stay.
    pub(super) fn corrected(&self, found: &Config) -> Config {
        Config {
            ack_wait: self.ack_wait,
            max_ack_pending: self.max_ack_pending,
            backoff: Vec::new(),
            inactive_threshold: Duration::ZERO,
            max_batch: 0,
            max_bytes: 0,
            max_expires: Duration::ZERO,
            ..found.clone()
        }
    }

    /// Limits of `found` because of which a fetch of `batch` events gets fewer than there are, or none, in words. Settings that
    /// ask for a lower limit themselves are content with it.
    pub(super) fn hindrances(&self, found: &Config, batch: usize) -> Vec<String> {
        let batch = i64::try_from(batch).unwrap_or(i64::MAX);
        let expires = i64::try_from(found.max_expires.as_millis()).unwrap_or(i64::MAX);
        let limits = [
            (
                "max_ack_pending",
                found.max_ack_pending,
                batch.min(self.max_ack_pending),
            ),
            ("max_batch", found.max_batch, batch),
            // What else limits a fetch is none of our making.
            ("max_bytes", found.max_bytes, i64::MAX),
            ("max_expires, in milliseconds,", expires, i64::MAX),
        ];
        let low = |(field, limit, least): (&str, i64, i64)| {
            (limit > 0 && limit < least).then(|| format!("its {field} is {limit}"))
        };
        limits.into_iter().filter_map(low).collect()
    }

    /// How `found` differs from what it should be.
    pub(super) fn differences(&self, found: &Config, filter: &str) -> Differences {
        let mut differences = Differences::default();
        // With these, events were not delivered that should have been, or counted as done that were not.
        let mut skipping = |field: &'static str, differs: bool| {
            if differs {
                differences.skipping.push(field);
            }
        };
        let whole = found.filter_subject.is_empty() && found.filter_subjects.is_empty();
        let ours = found.filter_subject == filter && found.filter_subjects.is_empty()
            || found.filter_subject.is_empty() && found.filter_subjects == [filter];
        skipping("filter_subject", !(whole || ours));
        skipping("deliver_policy", found.deliver_policy != DeliverPolicy::All);
        skipping("ack_policy", found.ack_policy != AckPolicy::Explicit);
        skipping("max_deliver", found.max_deliver > 0);
        skipping("headers_only", found.headers_only);
        skipping("deliver_subject", found.deliver_subject.is_some());
        skipping("replay_policy", found.replay_policy != ReplayPolicy::Instant);
        let mut changeable = |field: &'static str, differs: bool| {
            if differs {
                differences.changeable.push(field);
            }
        };
        changeable("ack_wait", found.ack_wait != self.ack_wait);
        changeable("max_ack_pending", found.max_ack_pending != self.max_ack_pending);
        changeable("backoff", !found.backoff.is_empty());
        changeable("inactive_threshold", !found.inactive_threshold.is_zero());
        changeable("max_batch", found.max_batch > 0);
        changeable("max_bytes", found.max_bytes > 0);
        changeable("max_expires", !found.max_expires.is_zero());
        differences
    }
}

/// Names of the fields in which a consumer is not as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    /// Events may have been passed over: the consumer has to begin at the first event again.
    pub(super) skipping: Vec<&'static str>,
    /// The rest can be changed as it runs.
    pub(super) changeable: Vec<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILTER: &str = "answers.>";

    fn of(change: impl FnOnce(&mut Config)) -> Differences {
        let spec = ConsumerSpec::default();
        let mut config = spec.config(FILTER, Start::First);
        change(&mut config);
        spec.differences(&config, FILTER)
    }

    #[test]
    fn a_name_that_is_no_token_is_refused() {
        assert_eq!(consumer_name("by-day_2").as_deref(), Ok("by-day_2"));
        for wrong in ["", "a.b", "a b", "*", "é"] {
            assert!(consumer_name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_we_create_is_what_we_accept() {
        assert_eq!(of(|_| {}), Differences::default());
    }

    #[test]
    fn a_consumer_that_may_have_passed_events_over_is_told_apart() {
        let skipping = |change: fn(&mut Config)| of(change).skipping;
        assert_eq!(
            skipping(|config| config.filter_subject = "answers.result.>".to_owned()),
            ["filter_subject"]
        );
        assert_eq!(
            skipping(|config| config.deliver_policy = DeliverPolicy::New),
            ["deliver_policy"]
        );
        let later = |config: &mut Config| {
            config.deliver_policy = DeliverPolicy::ByStartSequence { start_sequence: 7 }
        };
        assert_eq!(skipping(later), ["deliver_policy"]);
        assert_eq!(
            skipping(|config| config.ack_policy = AckPolicy::All),
            ["ack_policy"]
        );
        assert_eq!(skipping(|config| config.max_deliver = 3), ["max_deliver"]);
    }

    #[test]
    fn a_wider_filter_skips_nothing() {
        assert_eq!(of(|config| config.filter_subject.clear()), Differences::default());
    }

    #[test]
    fn a_limit_below_a_batch_hinders_unless_the_settings_ask_for_it() {
        let spec = |max_ack_pending| ConsumerSpec {
            max_ack_pending,
            ..ConsumerSpec::default()
        };
        let found = |max_ack_pending| spec(max_ack_pending).config(FILTER, Start::First);
        for (ours, theirs, hinders) in [
            (20_000, 20_000, false),
            (20_000, 1_000, false),
            (20_000, 999, true),
            (20_000, -1, false),
            (200, 200, false),
            (200, 199, true),
        ] {
            let hindrances = spec(ours).hindrances(&found(theirs), 1_000);
            assert_eq!(
                !hindrances.is_empty(),
                hinders,
                "{ours}, {theirs}: {hindrances:?}"
            );
        }
        let limited = Config {
            max_batch: 10,
            max_bytes: 10,
            max_expires: Duration::from_millis(10),
            ..found(20_000)
        };
        let expected = [
            "its max_batch is 10",
            "its max_bytes is 10",
            "its max_expires, in milliseconds, is 10",
        ];
        assert_eq!(spec(20_000).hindrances(&limited, 1_000), expected);
    }

    #[test]
    fn timing_can_be_changed_as_it_runs() {
        let changed = of(|config| {
            config.ack_wait = Duration::from_secs(1);
            config.backoff = vec![Duration::from_secs(1)];
        });
        assert_eq!(
            changed,
            Differences {
                skipping: Vec::new(),
                changeable: vec!["ack_wait", "backoff"]
            }
        );
    }
}
