//! Whether the configuration given for a topic can be taken (R2.3, R4.14).

use std::collections::BTreeMap;
use std::fmt;

use super::catalogue::{Scope, State, catalogue};
use super::describe::{Layers, topic_value};
use super::error::ConfigError;
use super::node::{NodeConfig, promises_nothing, refused_protection};

/// Why the configuration of a topic is refused. Each is INVALID_CONFIG on the wire, with the display as message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicConfigRefusal {
    /// Keys without a value.
    WithoutValue(Vec<String>),
    /// No topic has this key.
    UnknownKey(String),
    /// The value is of a wrong type, out of range, or promises something that is not given yet.
    BadValue(ConfigError),
    /// Two keys, each good by itself, are at odds.
    AtOdds {
        /// The key that must be the lesser.
        lesser: &'static str,
        /// Its value.
        lesser_value: i64,
        /// The key that must be the greater.
        greater: &'static str,
        /// Its value.
        greater_value: i64,
    },
}

impl fmt::Display for TopicConfigRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WithoutValue(keys) => write!(f, "a topic configuration needs a value: {}", keys.join(", ")),
            Self::UnknownKey(key) => write!(f, "unknown topic configuration: {}", key.escape_debug()),
            Self::BadValue(error) => error.fmt(f),
            Self::AtOdds {
                lesser,
                lesser_value,
                greater,
                greater_value,
            } => {
                write!(
                    f,
                    "{lesser}={lesser_value}: must not be more than {greater}, which is {greater_value}"
                )
            }
        }
    }
}

impl std::error::Error for TopicConfigRefusal {}

/// The overrides that a topic gets, as they were written. A key given twice has its last value; `node` is the
/// file of the node that decides, for keys that are at odds only together with a default.
///
/// # Errors
/// The first thing that refuses the topic.
pub fn validate_topic(
    given: &[(String, Option<String>)],
    node: &NodeConfig,
) -> Result<BTreeMap<String, String>, TopicConfigRefusal> {
    let empty: Vec<String> = given
        .iter()
        .filter(|pair| pair.1.is_none())
        .map(|pair| pair.0.clone())
        .collect();
    if !empty.is_empty() {
        return Err(TopicConfigRefusal::WithoutValue(empty));
    }
    let value = |pair: &(String, Option<String>)| Some((pair.0.clone(), pair.1.clone()?));
    let overrides: BTreeMap<String, String> = given.iter().filter_map(value).collect();
    for (name, text) in &overrides {
        let key = catalogue().find(Scope::Topic, name);
        let key = key.ok_or_else(|| TopicConfigRefusal::UnknownKey(name.clone()))?;
        let value = key.read(text).map_err(TopicConfigRefusal::BadValue)?;
        if key.state == State::Protection && !promises_nothing(key, &value) {
            return Err(TopicConfigRefusal::BadValue(refused_protection(key, text)));
        }
    }
    let layers = Layers {
        topic: &overrides,
        node_dynamic: &(),
        cluster: &(),
        node,
    };
    at_most(&layers, "min.compaction.lag.ms", "max.compaction.lag.ms")?;
    Ok(overrides)
}

fn at_most(
    layers: &Layers<'_>,
    lesser: &'static str,
    greater: &'static str,
) -> Result<(), TopicConfigRefusal> {
    let value = |name| {
        let key = catalogue()
            .find(Scope::Topic, name)
            .expect("the key is in the tables");
        topic_value(key, layers)
            .integer()
            .expect("the key is a whole number")
    };
    let (lesser_value, greater_value) = (value(lesser), value(greater));
    if lesser_value <= greater_value {
        return Ok(());
    }
    Err(TopicConfigRefusal::AtOdds {
        lesser,
        lesser_value,
        greater,
        greater_value,
    })
}
