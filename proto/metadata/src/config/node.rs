//! What one node is told: file, environment and command line laid over each other, every value checked.

use std::collections::BTreeMap;
use std::time::Duration;

use super::catalogue::{Key, Scope, State, catalogue, environment_name};
use super::error::{ConfigError, Problem, Warning};
use super::properties::parse_properties;
use super::value::{Value, ValueType};
use super::voters::NodeId;

/// Where a value was given. A later one wins over an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// In `server.properties`.
    File,
    /// In a variable `MILLRACE_CONF_…`.
    Environment,
    /// With `--set`.
    CommandLine,
}

/// What a node is. The two are programs of their own, so a node is one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Serves clients and keeps partitions.
    Broker,
    /// Keeps the metadata log.
    Controller,
}

#[derive(Debug, Clone, PartialEq)]
struct Given {
    text: String,
    value: Value,
    origin: Origin,
}

/// The checked configuration of one node: who it is, and every key that it was given.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeConfig {
    role: Role,
    node_id: NodeId,
    given: BTreeMap<&'static str, Given>,
    warnings: Vec<Warning>,
}

const PREFIX: &str = "MILLRACE_CONF_";

/// Settings that Kafka hands to plugins by these prefixes; without the plugins they do nothing.
const OF_PLUGINS: [&str; 2] = ["rsm.config.", "rlmm.config."];

impl NodeConfig {
    /// A node that was told nothing but who it is: every key has its default.
    pub const fn bare(role: Role, node_id: NodeId) -> Self {
        Self {
            role,
            node_id,
            given: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    /// Lays the text of a file, variables of the environment and `--set` pairs over each other, the later the
    /// stronger. Variables whose name does not begin with `MILLRACE_CONF_` are passed over.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the keys: unknown keys, values of a wrong type or out of range,
    /// protections that are not given yet, and `process.roles` or `node.id` missing.
    pub fn resolve(
        file_text: Option<&str>,
        env: &[(String, String)],
        sets: &[(String, String)],
    ) -> Result<Self, Vec<ConfigError>> {
        let mut errors = Vec::new();
        let mut told: BTreeMap<String, (String, Origin)> = BTreeMap::new();
        match parse_properties(file_text.unwrap_or_default()) {
            Ok(pairs) => told.extend(pairs.into_iter().map(|(key, value)| (key, (value, Origin::File)))),
            Err(error) => {
                let at = format!("line {}", error.line);
                errors.push(ConfigError::new(
                    &at,
                    None,
                    Problem::Syntax,
                    "\\u needs four hexadecimal digits",
                ));
            }
        }
        for (name, value) in env.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
            let key = catalogue()
                .keys(Scope::Node)
                .find(|key| environment_name(key.name) == *name);
            let key = key.map_or(name.as_str(), |key| key.name);
            told.insert(key.to_owned(), (value.clone(), Origin::Environment));
        }
        told.extend(
            sets.iter()
                .map(|(key, value)| (key.clone(), (value.clone(), Origin::CommandLine))),
        );

        let mut node = Self::bare(Role::Broker, NodeId(0));
        for (key, (text, origin)) in told {
            if let Err(error) = node.take(&key, text, origin) {
                errors.push(error);
            }
        }
        node.identify(&mut errors);
        if errors.is_empty() { Ok(node) } else { Err(errors) }
    }

    fn take(&mut self, name: &str, text: String, origin: Origin) -> Result<(), ConfigError> {
        let Some(key) = catalogue().find(Scope::Node, name) else {
            return self.take_unlisted(name, &text);
        };
        let value = key.read(&text)?;
        match key.state {
            State::Protection if !promises_nothing(key, &value) => {
                return Err(refused_protection(key, &text));
            }
            State::WithoutEffect => self.warnings.push(Warning { key: name.to_owned() }),
            State::Protection | State::Served => {}
        }
        self.given.insert(key.name, Given { text, value, origin });
        Ok(())
    }

    /// Keys that stand in no table: those of one listener, those of plugins, and unknown ones.
    fn take_unlisted(&mut self, name: &str, text: &str) -> Result<(), ConfigError> {
        let inner = name
            .strip_prefix("listener.name.")
            .and_then(|rest| rest.split_once('.'))
            .map(|parts| parts.1);
        if let Some(inner) = inner {
            let protects = inner.split('.').any(|part| part == "sasl" || part == "ssl");
            let key = catalogue().find(Scope::Node, inner);
            if protects || key.is_some_and(|key| key.state == State::Protection) {
                return Err(ConfigError::new(name, None, Problem::Protection, NOT_GIVEN));
            }
            if key.is_some() {
                self.warnings.push(Warning { key: name.to_owned() });
                return Ok(());
            }
        }
        if OF_PLUGINS.iter().any(|prefix| name.starts_with(prefix)) {
            self.warnings.push(Warning { key: name.to_owned() });
            return Ok(());
        }
        let allowed = catalogue().nearest(Scope::Node, name).map_or_else(
            || "neither Kafka nor Millrace knows it; `millrace keys` lists the keys".to_owned(),
            |near| format!("perhaps {near} is meant"),
        );
        Err(ConfigError::new(name, Some(text), Problem::UnknownKey, allowed))
    }

    /// Finds out who the node is, from `process.roles`, `node.id` and its older name `broker.id`.
    fn identify(&mut self, errors: &mut Vec<ConfigError>) {
        let wrong = |errors: &[ConfigError], key: &str| errors.iter().any(|error| error.key == key);
        match self
            .list("process.roles")
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()[..]
        {
            ["broker"] => self.role = Role::Broker,
            ["controller"] => self.role = Role::Controller,
            [] if wrong(errors, "process.roles") => {
                let about = errors.iter_mut().filter(|error| error.key == "process.roles");
                about.for_each(|error| "broker or controller".clone_into(&mut error.allowed));
            }
            [] => errors.push(ConfigError::missing(
                "process.roles",
                "broker or controller must be given",
            )),
            _ => {
                let given = self.given_text("process.roles").unwrap_or_default();
                let one =
                    "one role: broker and controller are separate programs and run as separate processes";
                errors.push(ConfigError::conflict("process.roles", given, one));
            }
        }
        let id = self.value("node.id").integer();
        let older = self.value("broker.id").integer().filter(|older| 0 <= *older);
        match (id, older) {
            (Some(id), Some(older)) if id != older => {
                let text = self.given_text("broker.id").unwrap_or_default();
                errors.push(ConfigError::conflict(
                    "broker.id",
                    text,
                    "the same number as node.id, or nothing",
                ));
            }
            (Some(id), _) | (None, Some(id)) => self.name_by_both_keys(id),
            (None, None) if wrong(errors, "node.id") => {}
            (None, None) => {
                errors.push(ConfigError::missing(
                    "node.id",
                    "a whole number of 0 or more must be given",
                ));
            }
        }
    }

    /// As in Kafka, either of the two keys also gives the other, so that a description shows both.
    fn name_by_both_keys(&mut self, id: i64) {
        self.node_id = NodeId(i32::try_from(id).expect("the key is of 32 bits"));
        let known = ["node.id", "broker.id"]
            .iter()
            .find_map(|key| self.given.get(key))
            .cloned();
        if let Some(given) = known {
            self.given.insert("node.id", given.clone());
            self.given.insert("broker.id", given);
        }
    }

    /// What the node is.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// The number of the node.
    pub const fn node_id(&self) -> NodeId {
        self.node_id
    }

    /// The keys that were given although they do nothing here, each once.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Every key that was given, by name, with its text as it was given.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.given
            .iter()
            .map(|(name, given)| (*name, given.text.as_str()))
    }

    /// The text that was given for a key.
    pub fn given_text(&self, key: &str) -> Option<&str> {
        self.given.get(key).map(|given| given.text.as_str())
    }

    /// Where a key was given.
    pub fn origin(&self, key: &str) -> Option<Origin> {
        self.given.get(key).map(|given| given.origin)
    }

    /// The value that was given for a key.
    pub(super) fn given_value(&self, key: &str) -> Option<&Value> {
        self.given.get(key).map(|given| &given.value)
    }

    /// The value of a key, or its default. Asking for a key that is not in the catalogue is a bug.
    pub fn value(&self, key: &str) -> Value {
        let listed = catalogue().find(Scope::Node, key);
        let listed = listed.unwrap_or_else(|| panic!("only keys of the catalogue are asked for: {key}"));
        self.given_value(key)
            .cloned()
            .unwrap_or_else(|| listed.default_value())
    }

    /// The whole number of a key. Asking for a key of another type, or without a default, is a bug.
    pub fn integer(&self, key: &str) -> i64 {
        self.value(key)
            .integer()
            .unwrap_or_else(|| panic!("the key is a whole number: {key}"))
    }

    /// Whether a key is true. Asking for a key of another type is a bug.
    pub fn truth(&self, key: &str) -> bool {
        match self.value(key) {
            Value::Boolean(truth) => truth,
            other => panic!("the key is true or false: {key} is {other:?}"),
        }
    }

    /// The text of a key, where there is one that is not empty.
    pub fn text(&self, key: &str) -> Option<String> {
        self.value(key).text().filter(|text| !text.is_empty())
    }

    /// The entries of a key that is a list; none where nothing is given.
    pub fn list(&self, key: &str) -> Vec<String> {
        match self.value(key) {
            Value::List(items) => items,
            _ => Vec::new(),
        }
    }

    /// The time of a key that counts milliseconds, which must not be negative.
    pub fn millis(&self, key: &str) -> Duration {
        Duration::from_millis(u64::try_from(self.integer(key)).unwrap_or(0))
    }
}

const NOT_GIVEN: &str = "it promises something that Millrace does not give yet; take it out";

/// Whether a protection is given at the value at which it promises nothing.
pub(super) fn promises_nothing(key: &Key, value: &Value) -> bool {
    key.harmless.and_then(|text| key.value_type.parse(text)).as_ref() == Some(value)
}

pub(super) fn refused_protection(key: &Key, text: &str) -> ConfigError {
    let but = |text: &str| {
        if text.is_empty() {
            "empty".to_owned()
        } else {
            text.to_owned()
        }
    };
    let allowed = key.harmless.map_or_else(
        || NOT_GIVEN.to_owned(),
        |harmless| {
            format!(
                "it promises something that Millrace does not give yet; only {} is allowed",
                but(harmless)
            )
        },
    );
    let shown = if key.value_type == ValueType::Password {
        ""
    } else {
        text
    };
    ConfigError::about(key, shown, Problem::Protection, allowed)
}
