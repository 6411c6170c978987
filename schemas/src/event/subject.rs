//! The subjects of a stream.

use thiserror::Error;

use super::Kind;

/// The subjects of one deployment, `<prefix>.result.completed` and so on. Four fixed ones: the broker holds every
/// subject in memory, and ids may hold what no subject may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subjects {
    all: String,
    results: String,
    of_kind: [String; 4],
}

impl Subjects {
    /// The default prefix.
    pub const DEFAULT_PREFIX: &str = "answers";

    /// Subjects under `prefix`: tokens of letters, digits, `-` and `_`, with dots between them.
    pub fn new(prefix: &str) -> Result<Self, InvalidPrefix> {
        let proper = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let tokens_proper = prefix
            .split('.')
            .all(|token| !token.is_empty() && token.bytes().all(proper));
        if !tokens_proper {
            return Err(InvalidPrefix);
        }
        Ok(Self {
            all: format!("{prefix}.>"),
            results: format!("{prefix}.result.>"),
            of_kind: Kind::ALL.map(|kind| format!("{prefix}.{}", kind.subject())),
        })
    }

    /// Every subject of the stream, `answers.>`.
    pub fn all(&self) -> &str {
        &self.all
    }

    /// The results subject, for other consumers: `answers.result.>`.
    pub fn results(&self) -> &str {
        &self.results
    }

    /// The subject of one kind of event.
    pub fn of(&self, kind: Kind) -> &str {
        &self.of_kind[kind.index()]
    }

    /// The kind of event that a subject is for. Compared exactly: every subject of ours is one of the four.
    pub fn parse(&self, subject: &str) -> Result<Kind, ForeignSubject> {
        let kind = Kind::ALL.into_iter().find(|kind| self.of(*kind) == subject);
        kind.ok_or(ForeignSubject)
    }
}

/// Why a text cannot be a subject prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a subject prefix is made of letters, digits, `-` and `_`, with single dots between them")]
pub struct InvalidPrefix;

/// A subject that is not one of this stream's four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the subject is not one of this stream's")]
pub struct ForeignSubject;
