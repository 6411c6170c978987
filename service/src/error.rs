use std::error::Error;
use std::fmt;

/// Prints an error and all its causes in one line, `what was attempted: why: why`.
#[derive(Debug)]
pub struct Chain<'e>(pub &'e (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
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
}
