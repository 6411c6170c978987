//! The password: from the environment or a file, never from a flag.

use std::path::Path;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use service::Secret;
use service::secret::{self, SecretError};

const VARIABLE: &str = "NATS_PASSWORD";

/// The password out of the environment. A group without a flag, so that no command line ever holds it.
#[derive(Clone, Debug)]
pub struct Password(Option<Secret>);

impl Password {
    pub(super) fn none() -> Self {
        Self(None)
    }

    pub(super) fn of(text: impl Into<String>) -> Self {
        Self(Some(Secret::new(text.into())))
    }

    /// This one, or the one in `file`; both at once are an error.
    pub(super) fn or_in(&self, file: Option<&Path>) -> Result<Option<Secret>, SecretError> {
        let environment = |name: &str| match &self.0 {
            _ if name != VARIABLE => file.map(Into::into),
            Some(text) => Some(text.expose().into()),
            None => None,
        };
        Ok(secret::read(VARIABLE, &environment)?.map(|(password, _)| password))
    }
}

impl FromArgMatches for Password {
    #[expect(
        clippy::disallowed_methods,
        reason = "a setting, read where clap reads the variables of the others"
    )]
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        let text = std::env::var(VARIABLE).ok();
        Ok(text
            .filter(|text| !text.is_empty())
            .map_or_else(Self::none, Self::of))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Password {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_one_of_the_environment_or_the_line_in_the_file_and_not_both() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "s3cret\n").unwrap();
        let path = Some(file.path());
        let text = |read: Result<Option<Secret>, SecretError>| {
            read.unwrap().map(|secret| secret.expose().to_owned())
        };
        assert_eq!(text(Password::none().or_in(None)), None);
        assert_eq!(text(Password::of("x\n").or_in(None)).as_deref(), Some("x\n"));
        assert_eq!(text(Password::none().or_in(path)).as_deref(), Some("s3cret"));
        let both = Password::of("x").or_in(path).unwrap_err().to_string();
        assert_eq!(
            both,
            "NATS_PASSWORD and NATS_PASSWORD_FILE are both set: keep one"
        );
    }
}
