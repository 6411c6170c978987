//! Field by field: is the stream that is there the one that was asked for, and does it keep the promise?

use std::fmt;
use std::time::Duration;

use async_nats::jetstream::stream::{
    Compression, Config, DiscardPolicy, PersistenceMode, RetentionPolicy, StorageType,
};

use super::{HEADER_ALLOWANCE, StreamSpec};

/// The window that outlasts the sender's own retries, which last up to 45 minutes.
const SAFE_WINDOW: Duration = Duration::from_secs(3600);

/// A field of the stream that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The field's name as the broker spells it.
    pub field: &'static str,
    /// What the stream has.
    pub found: String,
    /// What the settings ask for.
    pub wanted: String,
    /// What comes of it.
    pub consequence: &'static str,
    /// Whether acknowledged events could be lost or never be stored, so that the stream must not be used.
    pub unfit: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is {}, not {}: {}",
            self.field, self.found, self.wanted, self.consequence
        )
    }
}

/// The largest message that goes onto the stream, in bytes.
pub(super) fn max_message(config: &Config, max_payload: usize) -> usize {
    match usize::try_from(config.max_message_size) {
        Ok(size) if size > 0 => size.min(max_payload),
        _ => max_payload,
    }
}

/// All differences, those that make the stream unfit first.
pub(super) fn differences(found: &Config, spec: &StreamSpec, max_payload: usize) -> Vec<Difference> {
    let mut list = List(Vec::new());
    unfit(&mut list, found, spec);
    harmless(&mut list, found, spec, max_payload);
    list.0
}

fn unfit(list: &mut List, found: &Config, spec: &StreamSpec) {
    let wanted = spec.applied_to(found.clone(), 0);
    let mut unfit = |field, is: &dyn fmt::Debug, should: &dyn fmt::Debug, consequence| {
        list.add(true, field, is, should, consequence);
    };
    if found.storage != StorageType::File {
        unfit(
            "storage",
            &found.storage,
            &wanted.storage,
            "a restart loses every event",
        );
    }
    if found.no_ack {
        unfit(
            "no_ack",
            &true,
            &false,
            "nothing says whether an event was stored",
        );
    }
    if found.discard != DiscardPolicy::New {
        unfit(
            "discard",
            &found.discard,
            &wanted.discard,
            "a full stream deletes the oldest events",
        );
    }
    if found.retention != RetentionPolicy::Limits {
        unfit(
            "retention",
            &found.retention,
            &wanted.retention,
            "events are deleted once they are consumed",
        );
    }
    if found.duplicate_window < SAFE_WINDOW.min(spec.duplicate_window) {
        let (is, should) = (found.duplicate_window, spec.duplicate_window);
        unfit(
            "duplicate_window",
            &is,
            &should,
            "a sender's last retries would be stored again",
        );
    }
    if found.subjects != wanted.subjects {
        unfit(
            "subjects",
            &found.subjects,
            &wanted.subjects,
            "events do not reach it, or others do",
        );
    }
    if found.sealed {
        unfit("sealed", &true, &false, "it takes no events");
    }
    if found.max_messages_per_subject > 0 {
        unfit(
            "max_msgs_per_subject",
            &found.max_messages_per_subject,
            &-1,
            "older events are deleted or new ones refused",
        );
    }
    if found.mirror.is_some() {
        unfit(
            "mirror",
            &"set",
            &"not set",
            "it takes events from another stream only",
        );
    }
    if found.subject_transform.is_some() {
        unfit(
            "subject_transform",
            &"set",
            &"not set",
            "events are stored under other subjects",
        );
    }
    if found.persist_mode == Some(PersistenceMode::Async) {
        unfit(
            "persist_mode",
            &"async",
            &"default",
            "events are acknowledged before they are written",
        );
    }
    if max_message(found, usize::MAX) <= HEADER_ALLOWANCE {
        let should = HEADER_ALLOWANCE + 1;
        unfit("max_msg_size", &found.max_message_size, &should, "no event fits");
    }
}

fn harmless(list: &mut List, found: &Config, spec: &StreamSpec, max_payload: usize) {
    let mut warn = |field, is: &dyn fmt::Debug, should: &dyn fmt::Debug, consequence| {
        list.add(false, field, is, should, consequence);
    };
    let safe = SAFE_WINDOW.min(spec.duplicate_window);
    if found.duplicate_window != spec.duplicate_window && found.duplicate_window >= safe {
        let (is, should) = (found.duplicate_window, spec.duplicate_window);
        warn(
            "duplicate_window",
            &is,
            &should,
            "repeats are recognised for another time than asked for",
        );
    }
    if found.max_bytes != spec.max_bytes {
        warn(
            "max_bytes",
            &found.max_bytes,
            &spec.max_bytes,
            "it is full at another size",
        );
    }
    if found.max_messages > 0 {
        warn(
            "max_msgs",
            &found.max_messages,
            &-1,
            "it is also full at that many events",
        );
    }
    if found.max_age != spec.max_age {
        warn(
            "max_age",
            &found.max_age,
            &spec.max_age,
            "events are deleted at another age, and cannot be replayed then",
        );
    }
    if found.num_replicas != spec.replicas {
        warn(
            "num_replicas",
            &found.num_replicas,
            &spec.replicas,
            "it survives the loss of other servers than asked for",
        );
    }
    let wanted = spec.wanted_max_message(max_payload);
    if max_message(found, usize::MAX) < wanted && max_message(found, usize::MAX) > HEADER_ALLOWANCE {
        warn(
            "max_msg_size",
            &found.max_message_size,
            &wanted,
            "larger deliveries are refused",
        );
    }
    if !found.allow_direct {
        warn("allow_direct", &false, &true, "checking a duplicate is slower");
    }
    if !found.allow_atomic_publish {
        warn(
            "allow_atomic",
            &false,
            &true,
            "events cannot be committed in groups",
        );
    }
    if found.compression != Some(Compression::S2) {
        warn(
            "compression",
            &found.compression,
            &Compression::S2,
            "it takes more space",
        );
    }
    if found.allow_rollup {
        warn(
            "allow_rollup_hdrs",
            &true,
            &false,
            "a message can delete those before it",
        );
    }
    if found.sources.as_ref().is_some_and(|sources| !sources.is_empty()) {
        warn(
            "sources",
            &"set",
            &"not set",
            "it also takes events from other streams",
        );
    }
}

struct List(Vec<Difference>);

impl List {
    fn add(
        &mut self,
        unfit: bool,
        field: &'static str,
        is: &dyn fmt::Debug,
        should: &dyn fmt::Debug,
        consequence: &'static str,
    ) {
        let (found, wanted) = (format!("{is:?}"), format!("{should:?}"));
        self.0.push(Difference {
            field,
            found,
            wanted,
            consequence,
            unfit,
        });
    }
}
