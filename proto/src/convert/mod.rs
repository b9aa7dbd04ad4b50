//! Conversions between messages and the types of `metadata`. What a message says wrongly is told in words, for the
//! service to refuse.

mod config;
mod endpoint;
mod topic;

pub use topic::partition;

/// A field that does not say what it must.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Malformed {
    /// Which field.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl Malformed {
    /// A complaint about a field.
    #[must_use]
    pub fn new(field: &'static str, problem: impl std::fmt::Display) -> Self {
        Self {
            field,
            problem: problem.to_string(),
        }
    }
}

/// Reads an id in its text form.
///
/// # Errors
/// [`Malformed`] when it is none.
pub fn id(field: &'static str, text: &str) -> Result<metadata::uuid::Uuid, Malformed> {
    text.parse()
        .map_err(|problem| Malformed::new(field, format!("{:?}: {problem}", text)))
}
