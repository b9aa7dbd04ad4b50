//! What may name a topic, and which names are too alike: metrics write `.` as `_` (R2.3).

use std::collections::BTreeMap;

use metadata::image::Image;

use crate::refusal::Refusal;

const LENGTH_MAX: usize = 249;

/// Whether a name can name a topic.
///
/// # Errors
/// What is wrong with it.
pub fn valid_name(name: &str) -> Result<(), Refusal> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let reason = if name.is_empty() {
        "it is empty".to_owned()
    } else if name == "." || name == ".." {
        "it names a directory".to_owned()
    } else if name.len() > LENGTH_MAX {
        format!("it is longer than {LENGTH_MAX} characters")
    } else if !name.chars().all(is_allowed) {
        "only a-z, A-Z, 0-9, '.', '_' and '-' are allowed".to_owned()
    } else {
        return Ok(());
    };
    Err(Refusal::InvalidTopicName {
        name: name.to_owned(),
        reason,
    })
}

/// Existing names that can be mistaken for another, as metrics write them.
#[derive(Debug)]
pub struct NormalisedNames(BTreeMap<String, String>);

impl NormalisedNames {
    /// Those of an image.
    #[must_use]
    pub fn of(image: &Image) -> Self {
        let ambiguous = image.topic_names.keys().filter(|name| is_ambiguous(name));
        Self(ambiguous.map(|name| (normalised(name), name.clone())).collect())
    }

    /// Whether no existing topic is written the same.
    ///
    /// # Errors
    /// When one is.
    pub fn free(&self, name: &str) -> Result<(), Refusal> {
        if !is_ambiguous(name) {
            return Ok(());
        }
        match self.0.get(&normalised(name)) {
            None => Ok(()),
            Some(other) => Err(Refusal::InvalidTopicName {
                name: name.to_owned(),
                reason: format!("it is too like topic {other}: metrics write '.' as '_'"),
            }),
        }
    }
}

fn is_ambiguous(name: &str) -> bool {
    name.contains(['.', '_'])
}

fn normalised(name: &str) -> String {
    name.replace('.', "_")
}
