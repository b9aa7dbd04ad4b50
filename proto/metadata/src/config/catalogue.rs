//! The catalogue: every key that a node or a topic may be given, with its facts and its state.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::error::{ConfigError, Problem};
use super::valid::Valid;
use super::value::{Value, ValueType};

const TABLES: [&str; 2] = [include_str!("kafka.tsv"), include_str!("millrace.tsv")];
const STATES: &str = include_str!("states.tsv");

/// Whose key it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Stands in the file of a broker or controller.
    Node,
    /// Belongs to a topic.
    Topic,
}

/// What Millrace does with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Somebody reads it.
    Served,
    /// Kafka knows it; here it does nothing, and giving it earns one warning.
    WithoutEffect,
    /// It promises something that is dangerous to miss and not given yet: refused like an error.
    Protection,
}

/// Which nodes act on a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actors {
    /// Brokers only.
    Brokers,
    /// Controllers only.
    Controllers,
    /// Each in its way.
    Both,
}

impl Actors {
    /// The word for it in tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Brokers => "broker",
            Self::Controllers => "controller",
            Self::Both => "both",
        }
    }

    fn named(word: &str) -> Option<Self> {
        [Self::Brokers, Self::Controllers, Self::Both]
            .into_iter()
            .find(|actors| actors.word() == word)
    }
}

/// How a key can be changed while the cluster runs (R4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Update {
    /// Only with a restart.
    ReadOnly,
    /// For one broker at a time.
    PerBroker,
    /// For one broker or for all.
    ClusterWide,
    /// As above, and not in a file.
    OnlyDynamic,
    /// For a topic.
    Topic,
}

/// One key: its facts and what Millrace does with it.
#[derive(Debug, Clone)]
pub struct Key {
    /// Whose key it is.
    pub scope: Scope,
    /// Its name.
    pub name: &'static str,
    /// The type of its value.
    pub value_type: ValueType,
    /// What holds when nothing is given; `None` when something must be.
    pub default: Option<Value>,
    /// The values allowed.
    pub valid: Valid,
    /// Kafka's word for how much it matters: high, medium or low.
    pub importance: &'static str,
    /// Whether its value is never shown.
    pub sensitive: bool,
    /// How it can be changed.
    pub update: Update,
    /// Other keys that give the value where this one does not, best first, each with its factor to this key's unit.
    pub synonyms: Vec<(&'static str, i64)>,
    /// Whether Kafka hides it from descriptions.
    pub internal: bool,
    /// What Millrace does with it.
    pub state: State,
    /// Which nodes act on it; absent where none does, and for keys of topics.
    pub actors: Option<Actors>,
    /// The value of a protection at which nothing is promised.
    pub harmless: Option<&'static str>,
    /// What it is for, in one line; empty where Millrace does nothing with it.
    pub purpose: &'static str,
}

/// The documentation that DescribeConfigs gives of a key that does nothing here.
pub const WITHOUT_EFFECT: &str = "Known to Kafka; it has no effect here.";

impl Key {
    /// The documentation that DescribeConfigs gives: what the key is for, or that it does nothing.
    pub const fn documentation(&self) -> &'static str {
        if self.purpose.is_empty() {
            WITHOUT_EFFECT
        } else {
            self.purpose
        }
    }

    /// The value that `text` gives this key; an error that says what is allowed where it is none.
    pub fn read(&self, text: &str) -> Result<Value, ConfigError> {
        let refused = |problem| ConfigError::about(self, text, problem, self.valid.sentence(self.value_type));
        let value = self
            .value_type
            .parse(text)
            .ok_or_else(|| refused(Problem::WrongType))?;
        // A default is right by definition, also where the validator would refuse it (`controller.quorum.voters`).
        if self.default.as_ref() == Some(&value) || self.valid.allows(&value) {
            return Ok(value);
        }
        Err(refused(Problem::OutOfRange))
    }

    /// What holds when nothing is given.
    pub fn default_value(&self) -> Value {
        self.default.clone().unwrap_or(Value::Absent)
    }
}

/// All keys, found by scope and name.
#[derive(Debug)]
pub struct Catalogue {
    of_nodes: BTreeMap<&'static str, Key>,
    of_topics: BTreeMap<&'static str, Key>,
}

impl Catalogue {
    /// The key of this scope and name.
    pub fn find(&self, scope: Scope, name: &str) -> Option<&Key> {
        self.of(scope).get(name)
    }

    const fn of(&self, scope: Scope) -> &BTreeMap<&'static str, Key> {
        match scope {
            Scope::Node => &self.of_nodes,
            Scope::Topic => &self.of_topics,
        }
    }

    /// All keys of a scope, by name.
    pub fn keys(&self, scope: Scope) -> impl Iterator<Item = &Key> {
        self.of(scope).values()
    }

    /// The key of a scope that is spelled most like `name`, where one is near.
    pub fn nearest(&self, scope: Scope, name: &str) -> Option<&'static str> {
        let near = |key: &&Key| key.name.len().abs_diff(name.len()) <= 3;
        let best = self
            .keys(scope)
            .filter(near)
            .map(|key| (distance(key.name, name), key.name))
            .min()?;
        (best.0 <= 3).then_some(best.1)
    }
}

/// The catalogue of this build.
pub fn catalogue() -> &'static Catalogue {
    static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(read_tables);
    &CATALOGUE
}

/// The environment variable that gives a node's key: `MILLRACE_CONF_`, then the key in capitals with `_` for
/// each dot. Keys have neither `_` nor `-` in them, so a name stands for one key only.
pub fn environment_name(key: &str) -> String {
    format!("MILLRACE_CONF_{}", key.to_ascii_uppercase().replace('.', "_"))
}

fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split('\t').collect())
}

fn read_tables() -> Catalogue {
    let (mut of_nodes, mut of_topics) = (BTreeMap::new(), BTreeMap::new());
    for row in TABLES.into_iter().flat_map(rows).filter(|row| row[0] != "scope") {
        let key = read_key(&row).unwrap_or_else(|| panic!("the tables are part of the build: {row:?}"));
        let keys = if key.scope == Scope::Node {
            &mut of_nodes
        } else {
            &mut of_topics
        };
        keys.insert(key.name, key);
    }
    for row in rows(STATES) {
        let [state, scope, pattern, actors, harmless, purpose, ref ours @ ..] = row[..] else {
            panic!("the states are part of the build: {row:?}")
        };
        let scope = scope_named(scope).expect("states name a scope of the tables");
        let state = match state {
            "served" => State::Served,
            "protection" => State::Protection,
            other => panic!("the states are part of the build: {other}"),
        };
        let mut found = false;
        let keys = if scope == Scope::Node {
            &mut of_nodes
        } else {
            &mut of_topics
        };
        for key in keys.values_mut().filter(|key| covers(pattern, key.name)) {
            found = true;
            key.state = state;
            key.purpose = purpose;
            key.actors = Actors::named(actors);
            key.harmless = unquoted(harmless);
            if let [default] = ours {
                key.default = key.value_type.parse(default);
            }
        }
        assert!(found, "a state names keys of the tables: {pattern}");
    }
    Catalogue { of_nodes, of_topics }
}

fn covers(pattern: &str, name: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(pattern == name, |start| name.starts_with(start))
}

fn scope_named(name: &str) -> Option<Scope> {
    match name {
        "broker" => Some(Scope::Node),
        "topic" => Some(Scope::Topic),
        _ => None,
    }
}

fn unquoted(cell: &'static str) -> Option<&'static str> {
    match cell {
        "-" => None,
        "\"\"" => Some(""),
        other => Some(other),
    }
}

fn read_key(row: &[&'static str]) -> Option<Key> {
    let &[
        scope,
        name,
        value_type,
        default,
        valid,
        importance,
        sensitive,
        update,
        synonyms,
        internal,
    ] = row
    else {
        return None;
    };
    let value_type = ValueType::named(value_type)?;
    let default = match default {
        "required" => None,
        "null" => Some(Value::Absent),
        "\"\"" => Some(value_type.parse("")?),
        text => Some(value_type.parse(text)?),
    };
    let update = match update {
        "read-only" => Update::ReadOnly,
        "per-broker" => Update::PerBroker,
        "cluster-wide" => Update::ClusterWide,
        "only-dynamic" => Update::OnlyDynamic,
        "topic" => Update::Topic,
        _ => return None,
    };
    Some(Key {
        scope: scope_named(scope)?,
        name,
        value_type,
        default,
        valid: Valid::read(valid, value_type)?,
        importance,
        sensitive: sensitive == "y",
        update,
        synonyms: unquoted(synonyms).map_or(Some(Vec::new()), |cell| {
            cell.split(' ').map(read_synonym).collect()
        })?,
        internal: internal == "y",
        state: State::WithoutEffect,
        actors: None,
        harmless: None,
        purpose: "",
    })
}

fn read_synonym(cell: &'static str) -> Option<(&'static str, i64)> {
    match cell.split_once('*') {
        Some((name, factor)) => Some((name, factor.parse().ok()?)),
        None => Some((cell, 1)),
    }
}

/// How many letters must be changed, added or dropped to make one word of the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut line: Vec<usize> = (0..=right.len()).collect();
    for (row, letter) in left.chars().enumerate() {
        let mut diagonal = line[0];
        line[0] = row + 1;
        for (column, other) in right.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = line[column + 1];
            line[column + 1] = changed.min(diagonal + 1).min(line[column] + 1);
        }
    }
    line[right.len()]
}
