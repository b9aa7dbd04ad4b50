//! Which key was perhaps meant by one that does not exist.

use metadata::config::{Scope, catalogue};

use crate::args::Target;
use crate::outcome::Failure;

/// Whose keys they are.
pub(super) const fn scope(target: &Target) -> Scope {
    match target {
        Target::Topic(_) => Scope::Topic,
        Target::Broker(_) | Target::Brokers => Scope::Node,
    }
}

/// `; perhaps KEY is meant`, where this one does not exist and another is near.
pub(super) fn suggestion(target: &Target, key: &str) -> Option<String> {
    let scope = scope(target);
    let unknown = catalogue().find(scope, key).is_none();
    let near = catalogue().nearest(scope, key).filter(|_| unknown)?;
    Some(format!("; perhaps {near} is meant"))
}

/// A refusal with the key that was perhaps meant, where one that was given does not exist.
///
/// # Errors
/// When it was refused.
pub fn with_suggestion<'a>(
    refused: Result<(), Failure>,
    target: &Target,
    mut keys: impl Iterator<Item = &'a String>,
) -> Result<(), Failure> {
    match refused {
        Err(Failure::Refused(why)) => {
            let near = keys.find_map(|key| suggestion(target, key)).unwrap_or_default();
            Err(Failure::Refused(why + &near))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_key_that_does_not_exist_is_taken_for_another() {
        let topic = Target::Topic("orders".to_owned());
        let meant = "; perhaps retention.ms is meant";
        assert_eq!(suggestion(&topic, "retention.mss").as_deref(), Some(meant));
        assert_eq!(suggestion(&topic, "retention.ms"), None);
        assert_eq!(suggestion(&topic, "nothing.like.it.at.all"), None);
        let near = suggestion(&Target::Brokers, "log.retention.mss");
        assert_eq!(near.as_deref(), Some("; perhaps log.retention.ms is meant"));
    }
}
