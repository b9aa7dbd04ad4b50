//! Whether a broker's key can be given a value while brokers run, for one of them or for all (R4.2).

use super::catalogue::{Key, Scope, State, Update, catalogue};
use super::error::{ConfigError, Problem};
use super::node::{promises_nothing, refused_protection};
use crate::record::ConfigResource;

/// Keys that Kafka takes up at run time and that are only read at the start here.
const READ_AT_START: [&str; 2] = ["listeners", "listener.security.protocol.map"];

/// Keys that a file may set to 0 and that can only be lowered to this while brokers run, as in Kafka.
const AT_LEAST_ONE: [&str; 2] = ["max.connections", "max.connections.per.ip"];

/// Whether `text` can be given to a key of brokers, for one broker or for all of them. A key that no catalogue knows
/// can: it is kept, as a secret, and does nothing.
///
/// # Errors
/// What is wrong with it.
pub fn validate_override(resource: &ConfigResource, name: &str, text: &str) -> Result<(), ConfigError> {
    let Some(key) = catalogue().find(Scope::Node, name) else {
        return Ok(());
    };
    let refused = |allowed: &str| Err(ConfigError::about(key, text, Problem::OutOfRange, allowed));
    if key.update == Update::ReadOnly || READ_AT_START.contains(&name) {
        return refused("it is read when a broker starts: set it in the file and restart");
    }
    if key.update == Update::PerBroker && *resource == ConfigResource::ClusterDefault {
        return refused("it can be set for one broker at a time only");
    }
    value_is_right(key, text)
}

fn value_is_right(key: &Key, text: &str) -> Result<(), ConfigError> {
    let value = key.read(text)?;
    if key.state == State::Protection && !promises_nothing(key, &value) {
        return Err(refused_protection(key, text));
    }
    if AT_LEAST_ONE.contains(&key.name) && value.integer().is_some_and(|number| number < 1) {
        let allowed = "a whole number of 1 or more";
        return Err(ConfigError::about(key, text, Problem::OutOfRange, allowed));
    }
    Ok(())
}
