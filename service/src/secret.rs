//! Secrets: from the environment or a file, never from a flag, and never printed.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A text that must not be shown. `Debug` prints `…`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Keeps `text` as it is.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Where a secret was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// In the variable itself.
    Variable,
    /// In the file that the variable with `_FILE` at its end names.
    File,
}

/// Why a secret could not be read. Names the variable, never shows the value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Both ways are used at once, so that one of them would be ignored.
    #[error("{name} and {name}_FILE are both set: keep one")]
    Both {
        /// The variable.
        name: String,
    },
    /// The variable holds bytes that are not UTF-8.
    #[error("{name} is not valid UTF-8")]
    NotText {
        /// The variable.
        name: String,
    },
    /// The file cannot be read as text.
    #[error("{name}_FILE: cannot read {}", path.display())]
    File {
        /// The variable without `_FILE`.
        name: String,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Reads a secret from the variable `name`, or from the file that `<name>_FILE` names, less one final line ending: files
/// written by editors and by `echo` have one. `None` when neither is set. `environment` gives the value of a variable.
///
/// # Errors
/// When both are set, when the file cannot be read, or when the value is not UTF-8.
pub fn read(
    name: &str,
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Option<(Secret, Origin)>, SecretError> {
    let file = environment(&format!("{name}_FILE")).filter(|path| !path.is_empty());
    let own = || name.to_owned();
    match (environment(name), file) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(SecretError::Both { name: own() }),
        (Some(value), None) => {
            let text = value
                .into_string()
                .map_err(|_| SecretError::NotText { name: own() })?;
            Ok(Some((Secret::new(text), Origin::Variable)))
        }
        (None, Some(path)) => {
            let path = PathBuf::from(path);
            match std::fs::read_to_string(&path) {
                Ok(text) => Ok(Some((
                    Secret::new(without_final_line_ending(&text)),
                    Origin::File,
                ))),
                Err(source) => Err(SecretError::File {
                    name: own(),
                    path,
                    source,
                }),
            }
        }
    }
}

fn without_final_line_ending(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<Option<(Secret, Origin)>, SecretError> {
        read("KEY", &|name| {
            pairs
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| OsString::from(v))
        })
    }

    fn file(text: &str) -> Option<(Secret, Origin)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, text).unwrap();
        with(&[("KEY_FILE", path.to_str().unwrap())]).unwrap()
    }

    #[test]
    fn one_final_line_ending_of_a_file_is_dropped_and_no_more() {
        for (text, secret) in [
            ("a", "a"),
            ("a\n", "a"),
            ("a\r\n", "a"),
            ("a\r", "a"),
            ("a\n\n", "a\n"),
            (" a ", " a "),
        ] {
            assert_eq!(file(text), Some((Secret::new(secret), Origin::File)), "{text:?}");
        }
    }

    #[test]
    fn a_variable_is_taken_as_it_is() {
        assert_eq!(
            with(&[("KEY", "a\n")]).unwrap(),
            Some((Secret::new("a\n"), Origin::Variable))
        );
        assert_eq!(with(&[]).unwrap(), None);
    }

    #[test]
    fn two_sources_and_a_missing_file_are_named() {
        let both = with(&[("KEY", "a"), ("KEY_FILE", "/nowhere")]).unwrap_err();
        assert_eq!(both.to_string(), "KEY and KEY_FILE are both set: keep one");
        let missing = with(&[("KEY_FILE", "/nowhere/key")]).unwrap_err();
        assert_eq!(missing.to_string(), "KEY_FILE: cannot read /nowhere/key");
    }

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "…");
    }
}
