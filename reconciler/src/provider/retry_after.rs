//! How long the provider wants to be left alone.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

/// No time that the provider gives counts as shorter.
const SHORTEST: Duration = Duration::from_secs(1);

/// What `Retry-After` says, from a second to `longest`. None when there is none, when it cannot be read, or when it names a
/// time that is past.
///
/// A date is read against the `Date` of the same answer, in any of the three forms of HTTP: two clocks of one machine
/// agree, this one's need not. Without that `Date` it cannot be read.
pub(crate) fn read(headers: &HeaderMap, longest: Duration) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let asked = match seconds(text) {
        Some(asked) => asked.max(SHORTEST),
        None => date(text)?.duration_since(now(headers)?).ok()?,
    };
    (!asked.is_zero()).then_some(asked.min(longest))
}

fn seconds(text: &str) -> Option<Duration> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // More digits than fit are a very long time all the same.
    digits.then(|| Duration::from_secs(text.parse().unwrap_or(u64::MAX)))
}

fn date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

fn now(headers: &HeaderMap) -> Option<SystemTime> {
    date(headers.get(DATE)?.to_str().ok()?)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const LONGEST: Duration = Duration::from_secs(300);
    const NOON: &str = "Mon, 30 Nov 2026 12:00:00 GMT";

    fn of(retry_after: &str) -> Option<u64> {
        with(retry_after, Some(NOON))
    }

    fn with(retry_after: &str, date: Option<&str>) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(retry_after).unwrap());
        if let Some(date) = date {
            headers.insert(DATE, HeaderValue::from_str(date).unwrap());
        }
        read(&headers, LONGEST).map(|time| time.as_secs())
    }

    #[test]
    fn seconds_count_from_one_to_the_longest() {
        let long = "99999999999999999999999999";
        for (text, seconds) in [
            ("0", 1),
            ("1", 1),
            ("120", 120),
            (" 7 ", 7),
            ("301", 300),
            (long, 300),
        ] {
            assert_eq!(of(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn all_three_forms_of_a_date_are_read() {
        for text in [
            "Mon, 30 Nov 2026 12:00:42 GMT",
            "Monday, 30-Nov-26 12:00:42 GMT",
            "Mon Nov 30 12:00:42 2026",
        ] {
            assert_eq!(of(text), Some(42), "{text}");
        }
        assert_eq!(of("Mon, 30 Nov 2026 18:00:00 GMT"), Some(300));
    }

    #[test]
    fn a_date_is_read_by_the_clock_of_who_wrote_it() {
        let five_minutes_ahead = "Mon, 30 Nov 2026 12:05:00 GMT";
        assert_eq!(
            with("Mon, 30 Nov 2026 12:05:42 GMT", Some(five_minutes_ahead)),
            Some(42)
        );
        assert_eq!(with("Mon, 30 Nov 2026 12:05:42 GMT", None), None);
        assert_eq!(with("Mon, 30 Nov 2026 12:05:42 GMT", Some("noon")), None);
    }

    #[test]
    fn what_is_past_or_cannot_be_read_says_nothing() {
        for text in [
            "Mon, 30 Nov 2026 11:59:59 GMT",
            NOON,
            "Thu, 01 Jan 1970 00:00:00 GMT",
            "-5",
            "1.5",
            "+5",
            "5s",
            "soon",
            "",
            "2026-11-30T12:00:42Z",
            "Mon, 30 Nov 2026 12:00:42",
        ] {
            assert_eq!(of(text), None, "{text:?}");
        }
        assert_eq!(read(&HeaderMap::new(), LONGEST), None);
    }
}
