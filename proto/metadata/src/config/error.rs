//! What is wrong with a configuration, as one line an operator can act on.

use std::fmt;

use super::catalogue::Key;

/// Why a key or its value is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// No such key, neither of Kafka nor of Millrace.
    UnknownKey,
    /// The text is not of the key's type.
    WrongType,
    /// The text is of the type, but not among the values allowed.
    OutOfRange,
    /// The key promises something that is dangerous to miss and that Millrace does not give yet.
    Protection,
    /// A key that this node needs is not given.
    Missing,
    /// Good by itself, but at odds with another key.
    Conflict,
    /// The file itself cannot be read as properties.
    Syntax,
}

/// One thing that is wrong with a configuration. Its display is one line: key, value, what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigError {
    /// The key as it was given.
    pub key: String,
    /// The value as it was given; secrets and missing values are absent.
    pub value: Option<String>,
    /// Which kind of error this is.
    pub problem: Problem,
    /// What would be right, as the end of a sentence.
    pub allowed: String,
}

impl ConfigError {
    pub(super) fn new(key: &str, value: Option<&str>, problem: Problem, allowed: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            value: value.map(str::to_owned),
            problem,
            allowed: allowed.into(),
        }
    }

    /// An error about a key of the catalogue: the value of a secret is left out.
    pub(super) fn about(key: &Key, value: &str, problem: Problem, allowed: impl Into<String>) -> Self {
        let shown = (!key.sensitive).then_some(value);
        Self::new(key.name, shown, problem, allowed)
    }

    pub(super) fn conflict(key: &str, value: &str, allowed: impl Into<String>) -> Self {
        Self::new(key, Some(value), Problem::Conflict, allowed)
    }

    pub(super) fn missing(key: &str, allowed: impl Into<String>) -> Self {
        Self::new(key, None, Problem::Missing, allowed)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.key.escape_debug())?;
        if let Some(value) = &self.value {
            write!(f, "={}", value.escape_debug())?;
        }
        let what = match self.problem {
            Problem::UnknownKey => "unknown key",
            Problem::WrongType => "wrong type",
            Problem::OutOfRange => "not allowed",
            Problem::Protection => "refused",
            Problem::Missing => "missing",
            Problem::Conflict => "conflict",
            Problem::Syntax => "unreadable",
        };
        write!(f, ": {what}; {}", self.allowed)
    }
}

impl std::error::Error for ConfigError {}

/// A key that Kafka knows and that does nothing here. Its display names it in one line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// The key as it was given.
    pub key: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is known to Kafka but has no effect here", self.key)
    }
}
