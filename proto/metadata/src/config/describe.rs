//! Which value holds for a topic or a broker, where it comes from, and what else was said (R4.20–R4.23).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::catalogue::{Key, Scope, Update, catalogue};
use super::node::NodeConfig;
use super::value::{Value, ValueType};

/// Overrides of one level, as the image holds them: names and texts.
pub trait Layer {
    /// The text given for a key.
    fn given(&self, key: &str) -> Option<&str>;
    /// Every pair, by name.
    fn pairs(&self) -> Vec<(&str, &str)>;
}

/// A level on which nothing is given.
impl Layer for () {
    fn given(&self, _: &str) -> Option<&str> {
        None
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }
}

impl Layer for BTreeMap<String, String> {
    fn given(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        self.iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect()
    }
}

impl<L: Layer + ?Sized> Layer for Arc<L> {
    fn given(&self, key: &str) -> Option<&str> {
        (**self).given(key)
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        (**self).pairs()
    }
}

impl<L: Layer + ?Sized> Layer for &L {
    fn given(&self, key: &str) -> Option<&str> {
        (**self).given(key)
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        (**self).pairs()
    }
}

impl<L: Layer> Layer for Option<L> {
    fn given(&self, key: &str) -> Option<&str> {
        self.as_ref().and_then(|layer| layer.given(key))
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        self.as_ref().map(Layer::pairs).unwrap_or_default()
    }
}

/// Everything that may say something about a topic, the strongest first. Below all of it are the defaults.
#[derive(Clone, Copy)]
pub struct Layers<'a> {
    /// Overrides of the topic.
    pub topic: &'a dyn Layer,
    /// Overrides of the node that answers or decides (R4.21: on a controller, of the active one).
    pub node_dynamic: &'a dyn Layer,
    /// Overrides for all brokers.
    pub cluster: &'a dyn Layer,
    /// The file of that node.
    pub node: &'a NodeConfig,
}

/// Where a value comes from (R4.23).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// An override of the topic.
    Topic,
    /// An override of the one broker.
    Broker,
    /// An override for all brokers.
    Cluster,
    /// The file, the environment or the command line of the node.
    Static,
    /// The default.
    Default,
}

impl Source {
    /// The number that DescribeConfigs carries for this source.
    pub const fn code(self) -> i8 {
        match self {
            Self::Topic => 1,
            Self::Broker => 2,
            Self::Cluster => 3,
            Self::Static => 4,
            Self::Default => 5,
        }
    }
}

/// One thing that was said about a key, be it the strongest or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synonym {
    /// The name under which it was said.
    pub name: String,
    /// What was said; absent for secrets.
    pub value: Option<String>,
    /// Where.
    pub source: Source,
}

/// The value that holds for a key, with what DescribeConfigs tells about it (D-8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The key.
    pub name: String,
    /// The value as it is understood; absent for secrets and where nothing holds.
    pub value: Option<String>,
    /// The value as it was written, which CreateTopics answers with (R2.8).
    pub written: Option<String>,
    /// Where it comes from.
    pub source: Source,
    /// Whether it is never shown.
    pub sensitive: bool,
    /// Whether it can be changed while the cluster runs.
    pub read_only: bool,
    /// Its type; unknown for keys that are in no catalogue (R4.17).
    pub value_type: Option<ValueType>,
    /// What was said about it, the strongest first.
    pub synonyms: Vec<Synonym>,
    /// What it is for.
    pub documentation: &'static str,
}

/// Every configuration of a topic, by name. Internal ones are listed only while they are set.
pub fn describe_topic(layers: &Layers<'_>) -> Vec<Effective> {
    let listed = |key: &&Key| !key.internal || layers.topic.given(key.name).is_some();
    catalogue()
        .keys(Scope::Topic)
        .filter(listed)
        .map(|key| topic_effective(key, layers))
        .collect()
}

/// Every configuration of a broker, by name; overrides that no catalogue knows come as secrets (R4.17).
pub fn describe_broker(node: &NodeConfig, node_dynamic: &dyn Layer, cluster: &dyn Layer) -> Vec<Effective> {
    let layers = Layers {
        topic: &(),
        node_dynamic,
        cluster,
        node,
    };
    let overridden = |name: &str| node_dynamic.given(name).is_some() || cluster.given(name).is_some();
    let listed = |key: &&Key| match key.update {
        Update::OnlyDynamic => overridden(key.name),
        _ => !key.internal || overridden(key.name) || node.given_text(key.name).is_some(),
    };
    let mut found: Vec<Effective> = catalogue()
        .keys(Scope::Node)
        .filter(listed)
        .map(|key| broker_effective(key, &layers))
        .collect();
    let unknown = |pairs: Vec<(&str, &str)>, source| -> Vec<Effective> {
        let strange = |name: &&str| catalogue().find(Scope::Node, name).is_none();
        pairs
            .iter()
            .map(|pair| pair.0)
            .filter(strange)
            .map(|name| unknown_key(name, source))
            .collect()
    };
    found.extend(unknown(node_dynamic.pairs(), Source::Broker));
    for entry in unknown(cluster.pairs(), Source::Cluster) {
        if !found.iter().any(|known| known.name == entry.name) {
            found.push(entry);
        }
    }
    found
}

/// What is overridden for all brokers, by name, and nothing else (R4.23).
pub fn describe_cluster_default(cluster: &dyn Layer) -> Vec<Effective> {
    let entry = |(name, text): (&str, &str)| {
        let Some(key) = catalogue().find(Scope::Node, name) else {
            return unknown_key(name, Source::Cluster);
        };
        let said = synonym(key, name, text, Source::Cluster);
        effective(
            key,
            key.value_type.parse(text).unwrap_or(Value::Absent),
            Some(text),
            vec![said],
        )
    };
    cluster.pairs().into_iter().map(entry).collect()
}

fn topic_effective(key: &Key, layers: &Layers<'_>) -> Effective {
    let written = layers.topic.given(key.name);
    let mut synonyms = Vec::new();
    synonyms.extend(written.map(|text| {
        let parsed = key.read(text).ok().and_then(|value| value.text());
        synonym(key, key.name, parsed.as_deref().unwrap_or(text), Source::Topic)
    }));
    if let Some(first) = key
        .synonyms
        .first()
        .and_then(|(name, _)| catalogue().find(Scope::Node, name))
    {
        synonyms.extend(broker_synonyms(first, layers));
    }
    effective(key, topic_value(key, layers), written, synonyms)
}

/// The value of a topic's key: the topic's own, else that of the first broker key that has one, in the
/// topic's unit, else the default (R4.20).
pub(super) fn topic_value(key: &Key, layers: &Layers<'_>) -> Value {
    if let Some(value) = layers.topic.given(key.name).and_then(|text| key.read(text).ok()) {
        return value;
    }
    for (name, factor) in &key.synonyms {
        let Some(broker_key) = catalogue().find(Scope::Node, name) else {
            continue;
        };
        match override_value(broker_key, layers).or_else(|| layers.node.given_value(name).cloned()) {
            // A negative retention of the broker means no limit, which a topic writes as -1.
            Some(Value::Integer(number)) if key.name == "retention.ms" && number < 0 => {
                return Value::Integer(-1);
            }
            Some(Value::Integer(number)) => return Value::Integer(number.saturating_mul(*factor)),
            Some(Value::Absent) | None => {}
            Some(other) => return other,
        }
    }
    key.default_value()
}

fn broker_effective(key: &Key, layers: &Layers<'_>) -> Effective {
    let synonyms = broker_synonyms(key, layers);
    let value = override_value(key, layers).unwrap_or_else(|| static_value(key, layers.node));
    effective(key, value, None, synonyms)
}

/// The value of a broker's key as it holds now: its own override, else that of all brokers, else its file, else the
/// default (R4.22). Asking for a key that is not in the catalogue is a bug.
pub fn broker_value(name: &str, node: &NodeConfig, node_dynamic: &dyn Layer, cluster: &dyn Layer) -> Value {
    let key = catalogue().find(Scope::Node, name);
    let key = key.unwrap_or_else(|| panic!("only keys of the catalogue are asked for: {name}"));
    let layers = Layers {
        topic: &(),
        node_dynamic,
        cluster,
        node,
    };
    override_value(key, &layers).unwrap_or_else(|| static_value(key, node))
}

fn override_value(key: &Key, layers: &Layers<'_>) -> Option<Value> {
    let read = |text: &str| key.read(text).ok();
    layers
        .node_dynamic
        .given(key.name)
        .and_then(read)
        .or_else(|| layers.cluster.given(key.name).and_then(read))
}

fn static_value(key: &Key, node: &NodeConfig) -> Value {
    match key.name {
        // `broker.id` may have given it.
        "node.id" => Value::Integer(node.node_id().0.into()),
        name => node
            .given_value(name)
            .cloned()
            .unwrap_or_else(|| key.default_value()),
    }
}

/// What was said about a broker's key under its own name, and after that under the names that stand in for
/// it; names that would have come before it are left out, as Kafka does.
fn broker_synonyms(key: &Key, layers: &Layers<'_>) -> Vec<Synonym> {
    let mut chain: Vec<&Key> = vec![key];
    chain.extend(
        key.synonyms
            .iter()
            .filter_map(|(name, _)| catalogue().find(Scope::Node, name)),
    );
    chain.sort_by_key(|key| unit_rank(key.name));
    let mut said = Vec::new();
    for (layer, source) in [
        (layers.node_dynamic, Source::Broker),
        (layers.cluster, Source::Cluster),
    ] {
        let of_layer = |key: &&Key| {
            layer
                .given(key.name)
                .map(|text| synonym(key, key.name, text, source))
        };
        said.extend(chain.iter().filter_map(of_layer));
    }
    let of_file = |key: &&Key| {
        layers
            .node
            .given_text(key.name)
            .map(|text| synonym(key, key.name, text, Source::Static))
    };
    said.extend(chain.iter().filter_map(of_file));
    let by_default = |key: &&Key| {
        // What cannot stand in a file has no default that a file could fall back to.
        let text = key
            .default_value()
            .text()
            .filter(|_| key.update != Update::OnlyDynamic)?;
        Some(synonym(key, key.name, &text, Source::Default))
    };
    said.extend(chain.iter().filter_map(by_default));
    said.into_iter()
        .skip_while(|synonym| synonym.name != key.name)
        .collect()
}

/// Of several keys for one value, the finer unit wins.
fn unit_rank(name: &str) -> usize {
    [".minutes", ".hours"]
        .iter()
        .position(|unit| name.ends_with(unit))
        .map_or(0, |rank| rank + 1)
}

fn synonym(key: &Key, name: &str, text: &str, source: Source) -> Synonym {
    Synonym {
        name: name.to_owned(),
        value: (!key.sensitive).then(|| text.to_owned()),
        source,
    }
}

fn effective(key: &Key, value: Value, written: Option<&str>, synonyms: Vec<Synonym>) -> Effective {
    let shown = value.text().filter(|_| !key.sensitive);
    Effective {
        name: key.name.to_owned(),
        written: written
            .filter(|_| !key.sensitive)
            .map(str::to_owned)
            .or_else(|| shown.clone()),
        value: shown,
        source: synonyms.first().map_or(Source::Default, |first| first.source),
        sensitive: key.sensitive,
        read_only: key.update == Update::ReadOnly,
        value_type: Some(key.value_type),
        synonyms,
        documentation: key.documentation(),
    }
}

fn unknown_key(name: &str, source: Source) -> Effective {
    Effective {
        name: name.to_owned(),
        value: None,
        written: None,
        source,
        sensitive: true,
        read_only: true,
        value_type: None,
        synonyms: vec![Synonym {
            name: name.to_owned(),
            value: None,
            source,
        }],
        documentation: "",
    }
}
