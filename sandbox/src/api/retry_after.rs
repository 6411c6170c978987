//! The forms in which an answer says when to come again.

use std::time::Duration;

use http::HeaderValue;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};

const IMF_FIXDATE: &[BorrowedFormatItem<'static>] =
    format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");
const RFC_850: &[BorrowedFormatItem<'static>] = format_description!(
    "[weekday], [day]-[month repr:short]-[year repr:last_two] [hour]:[minute]:[second] GMT"
);
const ASCTIME: &[BorrowedFormatItem<'static>] = format_description!(
    "[weekday repr:short] [month repr:short] [day padding:space] [hour]:[minute]:[second] [year]"
);

/// What stands in `Retry-After`. Dates are counted from the provider's clock and are cut to whole seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryAfter {
    /// There is no such header.
    Absent,
    /// Whole seconds.
    Seconds(u64),
    /// A date so far ahead, as HTTP writes it today: `Sun, 06 Nov 1994 08:49:37 GMT`.
    Date(Duration),
    /// The same in the first obsolete form: `Sunday, 06-Nov-94 08:49:37 GMT`.
    Rfc850Date(Duration),
    /// The same in the second obsolete form: `Sun Nov  6 08:49:37 1994`.
    AsctimeDate(Duration),
    /// A date that is so long over.
    PastDate(Duration),
    /// These words, which may mean nothing.
    Text(String),
}

impl RetryAfter {
    /// The header's value at `now`.
    pub(super) fn value(&self, now: OffsetDateTime) -> Option<HeaderValue> {
        let text = match self {
            Self::Absent => return None,
            Self::Seconds(seconds) => seconds.to_string(),
            Self::Date(ahead) => date(now + *ahead, IMF_FIXDATE),
            Self::Rfc850Date(ahead) => date(now + *ahead, RFC_850),
            Self::AsctimeDate(ahead) => date(now + *ahead, ASCTIME),
            Self::PastDate(over) => date(now - *over, IMF_FIXDATE),
            Self::Text(text) => text.clone(),
        };
        Some(
            HeaderValue::try_from(text)
                .expect("dates and numbers are ASCII, and words are checked where they enter"),
        )
    }
}

/// The value of `Date` at `now`.
pub(super) fn date_header(now: OffsetDateTime) -> HeaderValue {
    HeaderValue::try_from(date(now, IMF_FIXDATE)).expect("a date is ASCII")
}

fn date(at: OffsetDateTime, form: &[BorrowedFormatItem<'static>]) -> String {
    at.to_offset(UtcOffset::UTC)
        .format(form)
        .expect("a year of four digits")
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    /// The example of RFC 9110, two minutes before.
    const NOW: OffsetDateTime = datetime!(1994-11-06 08:47:37.9 UTC);
    const AHEAD: Duration = Duration::from_secs(120);

    #[test]
    fn every_form_is_written_as_http_defines_it() {
        let forms = [
            (RetryAfter::Seconds(120), "120"),
            (RetryAfter::Date(AHEAD), "Sun, 06 Nov 1994 08:49:37 GMT"),
            (RetryAfter::Rfc850Date(AHEAD), "Sunday, 06-Nov-94 08:49:37 GMT"),
            (RetryAfter::AsctimeDate(AHEAD), "Sun Nov  6 08:49:37 1994"),
            (RetryAfter::PastDate(AHEAD), "Sun, 06 Nov 1994 08:45:37 GMT"),
            (RetryAfter::Text("soon".to_owned()), "soon"),
        ];
        for (form, expected) in forms {
            assert_eq!(form.value(NOW).unwrap(), expected, "{form:?}");
        }
        assert_eq!(RetryAfter::Absent.value(NOW), None);
    }
}
