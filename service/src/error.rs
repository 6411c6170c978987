use std::error::Error;
use std::fmt;

/// Prints an error and all its causes in one line, `what was attempted: why: why`.
#[derive(Debug)]
pub struct Chain<'e>(pub &'e (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let why = error.to_string();
            // Errors of some libraries end in the text of their cause.
            if !said.ends_with(&why) {
                said.push_str(": ");
                said.push_str(&why);
            }
            cause = error.source();
        }
        f.write_str(&said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("reading the key")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn causes_follow_what_was_attempted() {
        let error = Outer(std::io::Error::other("disk on fire"));
        assert_eq!(Chain(&error).to_string(), "reading the key: disk on fire");
    }

    /// As the errors of the NATS client do.
    #[derive(Debug, thiserror::Error)]
    #[error("no answer: {0}")]
    struct Telling(#[source] std::io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("asking")]
    struct Asking(#[source] Telling);

    #[test]
    fn a_cause_that_was_told_already_is_not_told_again() {
        let error = Asking(Telling(std::io::Error::other("too late")));
        assert_eq!(Chain(&error).to_string(), "asking: no answer: too late");
    }
}
