//! Reading `createdAt`. One code path for all of it: provider text is never cast to a timestamp in SQL, where
//! `infinity`, `now` and `tomorrow` are timestamps too.

use time::format_description::well_known::Rfc3339;
use time::macros::datetime;
use time::{Duration, OffsetDateTime, UtcOffset};

/// Nothing before this is believed: a clock that was never set, or a default value.
pub const EARLIEST: OffsetDateTime = datetime!(2000-01-01 0:00 UTC);

/// How far a stamp may lie ahead of the stream's own timestamp.
pub const MAX_AHEAD: Duration = Duration::DAY;

/// Reads an RFC 3339 timestamp, in UTC and cut (not rounded) to microseconds, which is what Postgres holds.
///
/// Accepted beyond the letter of the RFC: a space for the `T`, any number of fraction digits, and second 60 in
/// any minute, as the last microsecond of that minute. Not accepted: a missing offset, `24:00`, numbers, words.
pub fn parse(text: &str) -> Option<OffsetDateTime> {
    // The parser takes any byte as the separator; a date and a time with an `x` between them are not a timestamp.
    let &separator = text.as_bytes().get(10)?;
    if !matches!(separator, b'T' | b't' | b' ') {
        return None;
    }
    let read = match text.as_bytes().get(17..19) {
        // The parser knows second 60 only at the end of a month in UTC.
        Some(b"60") => {
            let last_second = format!("{}59{}", text.get(..17)?, text.get(19..)?);
            OffsetDateTime::parse(&last_second, &Rfc3339)
                .ok()?
                .replace_microsecond(999_999)
                .ok()?
        }
        _ => OffsetDateTime::parse(text, &Rfc3339).ok()?,
    };
    // With its offset taken off, a stamp can leave the years that exist.
    Some(cut_to_microseconds(read.checked_to_offset(UtcOffset::UTC)?))
}

/// Drops what Postgres cannot hold. Cutting keeps the order; rounding could carry a stamp past another one.
pub fn cut_to_microseconds(at: OffsetDateTime) -> OffsetDateTime {
    at.replace_microsecond(at.microsecond())
        .expect("a microsecond that was read from a timestamp is in range")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(text: &str, expected: OffsetDateTime) {
        assert_eq!(parse(text), Some(expected), "{text}");
    }

    #[test]
    fn every_form_of_rfc_3339_is_read() {
        let noon = datetime!(2026-11-30 12:00:00.418 UTC);
        for text in [
            "2026-11-30T12:00:00.418Z",
            "2026-11-30t12:00:00.418z",
            "2026-11-30 12:00:00.418Z",
            "2026-11-30T17:30:00.418+05:30",
            "2026-11-30T12:00:00.418-00:00",
            "2026-11-29T12:01:00.418-23:59",
        ] {
            same(text, noon);
        }
    }

    #[test]
    fn fractions_are_cut_not_rounded() {
        same(
            "2026-11-30T12:00:00.123456789Z",
            datetime!(2026-11-30 12:00:00.123456 UTC),
        );
        same(
            "2026-11-30T12:00:00.99999999999999999999Z",
            datetime!(2026-11-30 12:00:00.999999 UTC),
        );
        same("2026-11-30T12:00:00.0000001Z", datetime!(2026-11-30 12:00 UTC));
    }

    #[test]
    fn second_60_is_the_last_microsecond_of_its_minute() {
        let last = datetime!(2026-11-30 23:59:59.999999 UTC);
        same("2026-11-30T23:59:60Z", last);
        same("2026-11-30T23:59:60.5Z", last);
        same("2026-12-01T05:29:60+05:30", last);
        same("2026-11-17T10:10:60Z", datetime!(2026-11-17 10:10:59.999999 UTC));
    }

    #[test]
    fn what_is_no_timestamp_is_none_and_never_a_panic() {
        for text in [
            "",
            "infinity",
            "now",
            "tomorrow",
            "epoch",
            "1796040000",
            "2026-11-30",
            "2026-11-30T12:00:00",
            "2026-11-30T24:00:00Z",
            "2026-02-30T12:00:00Z",
            "2026-11-30T12:00:61Z",
            "2026-11-30T12:00Z",
            "2026-11-30T12:00:00.Z",
            "2026-11-30T12:00:00+24:00",
            "2026-11-30T12:00:00+0530",
            "2026-11-30x12:00:00Z",
            " 2026-11-30T12:00:00Z",
            "2026-11-30T12:00:00Z ",
            "10000-01-01T00:00:00Z",
            "+2026-11-30T12:00:00Z",
            "2026-11-30T12:00:é0Z",
            "éééééTéééééééééééé",
            "2026-11-30T12:00:60",
            "9999-12-31T23:59:59-23:59",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_whole_range_of_years_is_read() {
        same("0001-01-01T00:00:00Z", datetime!(0001-01-01 0:00 UTC));
        assert!(parse("0000-01-01T00:00:00+23:59").is_some_and(|at| at < EARLIEST));
        same(
            "9999-12-31T23:59:59.999999Z",
            datetime!(9999-12-31 23:59:59.999999 UTC),
        );
    }
}
