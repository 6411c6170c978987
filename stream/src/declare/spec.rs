//! What the stream should be: flags and environment variables, the same for every program.

use std::time::Duration;

use async_nats::jetstream::stream::{Compression, Config, DiscardPolicy, RetentionPolicy, StorageType};
use clap::Args;
use schemas::event::Subjects;
use thiserror::Error;

use crate::settings;

/// What the stream should be.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Stream")]
pub struct StreamSpec {
    /// Name of the stream.
    #[arg(long = "stream", env = "STREAM", value_name = "NAME", default_value = "ANSWERS", value_parser = name)]
    pub name: String,

    /// First part of all subjects of the stream.
    #[arg(long = "subject-prefix", env = "SUBJECT_PREFIX", value_name = "SUBJECT", default_value = "answers", value_parser = Subjects::new)]
    pub subjects: Subjects,

    /// Largest size of the stream. A full stream refuses events, so that the sender tries again; it never drops old ones.
    #[arg(long = "stream-max-bytes", env = "STREAM_MAX_BYTES", value_name = "SIZE", default_value = "10GiB", value_parser = limit)]
    pub max_bytes: i64,

    /// Copies of the stream in a cluster, 1 to 5.
    #[arg(long = "stream-replicas", env = "STREAM_REPLICAS", value_name = "N", default_value_t = 1, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=5))]
    pub replicas: usize,

    /// How long the broker recognises a repeated id. Must outlast the sender's retries, and costs the broker about 140 bytes an id.
    #[arg(long = "duplicate-window", env = "DUPLICATE_WINDOW", value_name = "TIME", default_value = "1h", value_parser = settings::time)]
    pub duplicate_window: Duration,

    /// Age at which the broker deletes an event; 0s keeps all. What is deleted cannot be replayed.
    #[arg(long = "stream-max-age", env = "STREAM_MAX_AGE", value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    pub max_age: Duration,

    /// Largest message, headers and body together; 0 takes what the server takes.
    #[arg(long = "stream-max-message", env = "STREAM_MAX_MESSAGE", value_name = "SIZE", default_value = "0", value_parser = parse_size::<i64>)]
    pub max_message: i64,
}

/// Which stream, for a program that takes it as it is.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Stream")]
pub struct StreamPlace {
    /// Name of the stream.
    #[arg(long = "stream", env = "STREAM", value_name = "NAME", default_value = "ANSWERS", value_parser = name)]
    pub name: String,

    /// First part of all subjects of the stream.
    #[arg(long = "subject-prefix", env = "SUBJECT_PREFIX", value_name = "SUBJECT", default_value = "answers", value_parser = Subjects::new)]
    pub subjects: Subjects,
}

impl Default for StreamSpec {
    fn default() -> Self {
        Self {
            name: "ANSWERS".to_owned(),
            subjects: Subjects::new("answers").expect("one plain token is a prefix"),
            max_bytes: 10 << 30,
            replicas: 1,
            duplicate_window: Duration::from_secs(3600),
            max_age: Duration::ZERO,
            max_message: 0,
        }
    }
}

impl StreamSpec {
    /// `config` with every field that this specification is about set as it should be; the others stay.
    pub(super) fn applied_to(&self, config: Config, max_payload: usize) -> Config {
        Config {
            name: self.name.clone(),
            subjects: vec![self.subjects.all().to_owned()],
            storage: StorageType::File,
            retention: RetentionPolicy::Limits,
            discard: DiscardPolicy::New,
            discard_new_per_subject: false,
            max_bytes: self.max_bytes,
            max_messages: -1,
            max_messages_per_subject: -1,
            max_age: self.max_age,
            max_message_size: i32::try_from(self.wanted_max_message(max_payload)).unwrap_or(i32::MAX),
            duplicate_window: self.duplicate_window,
            num_replicas: self.replicas,
            no_ack: false,
            sealed: false,
            allow_direct: true,
            allow_atomic_publish: true,
            allow_rollup: false,
            compression: Some(Compression::S2),
            persist_mode: None,
            subject_transform: None,
            ..config
        }
    }

    /// The largest message that the stream should take, in bytes.
    pub(super) fn wanted_max_message(&self, max_payload: usize) -> usize {
        match usize::try_from(self.max_message) {
            Ok(0) | Err(_) => max_payload,
            Ok(size) => size,
        }
    }
}

/// Why a text is no stream name.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("a stream name has 1 to 255 printable characters, none of them a space or one of . * > / \\")]
struct InvalidName;

fn name(text: &str) -> Result<String, InvalidName> {
    let fits = |c: char| c.is_ascii_graphic() && !".*>/\\".contains(c);
    if text.is_empty() || text.len() > 255 || !text.chars().all(fits) {
        return Err(InvalidName);
    }
    Ok(text.to_owned())
}

/// A size of more than nothing: to the broker, 0 is no limit at all.
fn limit(text: &str) -> Result<i64, String> {
    match parse_size(text) {
        Ok(0) => Err("must be more than zero".to_owned()),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

/// Why a text is no size.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("a size is a whole number of bytes, or one with KiB, MiB, GiB or TiB behind it")]
pub struct InvalidSize;

/// Reads a size in bytes, such as `8MiB`.
pub fn parse_size<T: TryFrom<i64>>(text: &str) -> Result<T, InvalidSize> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err(InvalidSize),
    };
    let number: i64 = number.parse().map_err(|_| InvalidSize)?;
    let size = number.checked_mul(1 << shift).ok_or(InvalidSize)?;
    T::try_from(size).map_err(|_| InvalidSize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        stream: StreamSpec,
    }

    #[test]
    fn the_defaults_of_the_flags_are_the_default() {
        let parsed = <Program as clap::Parser>::parse_from(["program"]).stream;
        assert_eq!(format!("{parsed:?}"), format!("{:?}", StreamSpec::default()));
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(parse_size("1024"), Ok(1024_i64));
        assert_eq!(parse_size("10GiB"), Ok(10_i64 << 30));
        assert_eq!(parse_size::<u8>("1KiB"), Err(InvalidSize));
        assert_eq!(parse_size("8 MiB"), Ok(8_usize << 20));
        for wrong in [
            "",
            "GiB",
            "-1",
            "1.5GiB",
            "1GB",
            "9999999999TiB",
            "99999999999999999999",
        ] {
            assert_eq!(parse_size::<i64>(wrong), Err(InvalidSize), "{wrong}");
        }
    }

    #[test]
    fn a_stream_without_a_limit_is_refused() {
        assert_eq!(limit("1KiB"), Ok(1024));
        for wrong in ["0", "0GiB", "x"] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_that_would_break_a_subject_are_refused() {
        assert_eq!(name("ANSWERS_2"), Ok("ANSWERS_2".to_owned()));
        for wrong in ["", "a.b", "a b", "a*", ">", "a/b", "ä"] {
            assert_eq!(name(wrong), Err(InvalidName), "{wrong}");
        }
    }
}
