//! What single settings may be, checked where they are read.

use std::time::Duration;

/// A time of more than nothing, such as `5s`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("must be more than zero".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

/// The first tokens of subjects: none of them empty or a wildcard.
pub(crate) fn subject_prefix(text: &str) -> Result<String, &'static str> {
    let fits = |token: &str| {
        !token.is_empty() && token.bytes().all(|c| c.is_ascii_graphic()) && !token.contains(['*', '>'])
    };
    if text.split('.').all(fits) {
        Ok(text.to_owned())
    } else {
        Err(
            "a subject prefix is made of tokens of visible characters without * and >, with single dots between them",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_nothing_is_refused() {
        assert_eq!(time("5s"), Ok(Duration::from_secs(5)));
        for wrong in ["0s", "0ms", "5", ""] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_prefix_that_is_no_subject_is_refused() {
        for right in ["_INBOX", "$JS.API", "ANSWERS.API"] {
            assert_eq!(subject_prefix(right).as_deref(), Ok(right));
        }
        for wrong in ["", "a..b", "a.", ".a", "a.*", ">", "a b", "a\n"] {
            assert!(subject_prefix(wrong).is_err(), "{wrong:?}");
        }
    }
}
