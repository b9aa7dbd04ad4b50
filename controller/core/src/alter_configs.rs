//! Configurations, as operators wish them (R4.10–R4.17), and what follows from a change at once: eligible replicas that
//! are not trusted under another minimum (R3.34–R3.36), and elections that have become allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use metadata::config::{Scope, ValueType, catalogue, validate_override, validate_topic};
use metadata::feature::MIN_IN_SYNC_REPLICAS;
use metadata::image::Image;
use metadata::record::{ConfigResource, Record};

use crate::command::{AlterConfigs, ConfigAlteration, ConfigOperation, ConfigWish, Reply};
use crate::decision::{Decision, View};
use crate::departure;
use crate::refusal::Refusal;
use crate::rules::{UNCLEAN_KEY, eligible_replicas_served};

/// Longest value, in bytes (R4.13).
const VALUE_BYTES_MAX: usize = 32_767;

type Overrides = BTreeMap<String, String>;

/// Changes configurations.
///
/// # Errors
/// When what is asked together is more than one request may write. Refusals of single resources are in the reply.
pub fn alter(view: &View<'_>, command: &AlterConfigs) -> Result<Decision, Refusal> {
    let twice = given_twice(&command.resources);
    let mut records = Vec::new();
    let mut refusals = Vec::new();
    for alteration in &command.resources {
        let result = match twice.contains(&alteration.resource) {
            true => Err(Refusal::InvalidRequest("the resource is given twice".to_owned())),
            false => alter_one(view, alteration),
        };
        refusals.push(match result {
            Ok(new) => {
                records.extend(new);
                None
            }
            Err(refusal) => Some(refusal),
        });
    }
    if command.validate_only {
        records.clear();
    }
    records.extend(elections(view, &records));
    Ok(Decision {
        records,
        ..Decision::of(Reply::ConfigsAltered(refusals))
    })
}

fn given_twice(resources: &[ConfigAlteration]) -> BTreeSet<&ConfigResource> {
    let mut seen = BTreeSet::new();
    let again = resources.iter().map(|alteration| &alteration.resource);
    again.filter(|resource| !seen.insert(*resource)).collect()
}

/// The checks in the order of R4.14, then what differs.
fn alter_one(view: &View<'_>, alteration: &ConfigAlteration) -> Result<Vec<Record>, Refusal> {
    let resource = &alteration.resource;
    let none = Arc::default();
    let before: &Overrides = view.image.configs.get(resource).unwrap_or(&none);
    let after = wished(resource, before, &alteration.wish)?;
    let changed: BTreeMap<&String, Option<&String>> = before
        .keys()
        .chain(after.keys())
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| (key, after.get(key)))
        .collect();
    minimum_may_change(view.image, resource, &alteration.wish, &changed)?;
    if let Some((key, _)) = after.iter().find(|(_, value)| value.len() > VALUE_BYTES_MAX) {
        let reason = format!("{key}: a value is at most {VALUE_BYTES_MAX} bytes long");
        return Err(Refusal::InvalidConfig(reason));
    }
    valid(view, resource, &after, &alteration.wish)?;
    exists(view, resource)?;
    let mut records: Vec<Record> = changed
        .iter()
        .map(|(key, value)| Record::ConfigChanged {
            resource: resource.clone(),
            key: (*key).clone(),
            value: value.cloned(),
        })
        .collect();
    if changed.keys().any(|key| *key == MIN_IN_SYNC_REPLICAS) {
        records.extend(eligible_cleared(view.image, resource));
    }
    Ok(records)
}

/// The overrides that the wish leads to.
fn wished(resource: &ConfigResource, before: &Overrides, wish: &ConfigWish) -> Result<Overrides, Refusal> {
    let operations = match wish {
        ConfigWish::Replace(pairs) => return Ok(pairs.iter().cloned().collect()),
        ConfigWish::Adjust(operations) => operations,
    };
    let mut after = before.clone();
    for (key, operation) in operations {
        match operation {
            ConfigOperation::Set(value) => {
                after.insert(key.clone(), value.clone());
            }
            ConfigOperation::Delete => {
                after.remove(key);
            }
            ConfigOperation::Append(items) => {
                let mut list = list_of(resource, before, key)?;
                // A set: the text may have ten thousand items, and a request a thousand of such texts.
                let mut held: BTreeSet<String> = list.iter().cloned().collect();
                list.extend(split(items).into_iter().filter(|item| held.insert(item.clone())));
                after.insert(key.clone(), list.join(","));
            }
            ConfigOperation::Subtract(items) => {
                let gone: BTreeSet<String> = split(items).into_iter().collect();
                let mut list = list_of(resource, before, key)?;
                list.retain(|item| !gone.contains(item));
                after.insert(key.clone(), list.join(","));
            }
        }
    }
    Ok(after)
}

/// The list that a key has for this resource, else its default. Only lists of topics and brokers can be added to.
fn list_of(resource: &ConfigResource, before: &Overrides, key: &str) -> Result<Vec<String>, Refusal> {
    let scope = match resource {
        ConfigResource::Topic(_) => Some(Scope::Topic),
        ConfigResource::Broker(_) | ConfigResource::ClusterDefault => Some(Scope::Node),
        ConfigResource::Group(_) | ConfigResource::ClientMetrics(_) => None,
    };
    let known = scope.and_then(|scope| catalogue().find(scope, key));
    let known = known.filter(|known| known.value_type == ValueType::List);
    let known = known.ok_or_else(|| {
        Refusal::InvalidConfig(format!(
            "{key:?} is no list: nothing can be added to it or taken out of it"
        ))
    })?;
    let text = before.get(key).cloned();
    let text = text.or_else(|| known.default_value().text()).unwrap_or_default();
    Ok(match text.is_empty() {
        true => Vec::new(),
        false => split(&text),
    })
}

fn split(items: &str) -> Vec<String> {
    items.split(',').map(|item| item.trim().to_owned()).collect()
}

/// R3.36: with eligible replicas one minimum holds for all brokers, and it is always written down.
fn minimum_may_change(
    image: &Image,
    resource: &ConfigResource,
    wish: &ConfigWish,
    changed: &BTreeMap<&String, Option<&String>>,
) -> Result<(), Refusal> {
    if !eligible_replicas_served(image) {
        return Ok(());
    }
    let names_it = match wish {
        ConfigWish::Replace(pairs) => pairs.iter().any(|(key, _)| key == MIN_IN_SYNC_REPLICAS),
        ConfigWish::Adjust(operations) => operations.iter().any(|(key, _)| key == MIN_IN_SYNC_REPLICAS),
    };
    let is_deleted = changed
        .iter()
        .any(|(key, value)| *key == MIN_IN_SYNC_REPLICAS && value.is_none());
    let refused = match resource {
        ConfigResource::Broker(_) if names_it || is_deleted => "cannot differ from broker to broker",
        ConfigResource::ClusterDefault if is_deleted => "cannot be taken back for all brokers",
        _ => return Ok(()),
    };
    Err(Refusal::InvalidConfig(format!(
        "{MIN_IN_SYNC_REPLICAS} {refused} while eligible leader replicas are kept"
    )))
}

fn valid(
    view: &View<'_>,
    resource: &ConfigResource,
    after: &Overrides,
    wish: &ConfigWish,
) -> Result<(), Refusal> {
    match resource {
        ConfigResource::Topic(_) => {
            let pairs: Vec<(String, Option<String>)> = after
                .iter()
                .map(|(key, value)| (key.clone(), Some(value.clone())))
                .collect();
            validate_topic(&pairs, &view.settings.node)
                .map(drop)
                .map_err(|refusal| Refusal::InvalidConfig(refusal.to_string()))
        }
        ConfigResource::Broker(_) | ConfigResource::ClusterDefault => {
            // What is there already was valid when it came; only what is given now is looked at.
            let given: Vec<&String> = match wish {
                ConfigWish::Replace(pairs) => pairs.iter().map(|(key, _)| key).collect(),
                ConfigWish::Adjust(operations) => operations.iter().map(|(key, _)| key).collect(),
            };
            given
                .into_iter()
                .filter_map(|key| after.get_key_value(key))
                .try_for_each(|(key, value)| validate_override(resource, key, value))
                .map_err(|refusal| Refusal::InvalidRequest(refusal.to_string()))
        }
        ConfigResource::Group(_) | ConfigResource::ClientMetrics(_) => Err(Refusal::InvalidRequest(
            "configurations of groups and of client metrics are not served yet".to_owned(),
        )),
    }
}

/// R4.1.
fn exists(view: &View<'_>, resource: &ConfigResource) -> Result<(), Refusal> {
    match resource {
        ConfigResource::Topic(name) if view.image.topic_named(name).is_none() => {
            Err(Refusal::UnknownTopic { name: name.clone() })
        }
        ConfigResource::Broker(broker)
            if !view.image.brokers.contains_key(broker) && broker.0 != view.settings.node.node_id().0 =>
        {
            Err(Refusal::BrokerNotRegistered(*broker))
        }
        _ => Ok(()),
    }
}

/// R3.34: what was eligible under one minimum need not hold everything that is committed under another.
fn eligible_cleared(image: &Image, resource: &ConfigResource) -> Option<Record> {
    if !eligible_replicas_served(image) {
        return None;
    }
    let topic = match resource {
        ConfigResource::Topic(name) => Some(image.topic_named(name)?.id),
        ConfigResource::Broker(_) | ConfigResource::ClusterDefault => None,
        ConfigResource::Group(_) | ConfigResource::ClientMetrics(_) => return None,
    };
    Some(Record::EligibleReplicasCleared { topic })
}

/// Partitions without a leader for which an election has become allowed, be it an unclean one.
fn elections(view: &View<'_>, records: &[Record]) -> Vec<Record> {
    let allows = |record: &Record| matches!(record, Record::ConfigChanged { key, .. } if key == UNCLEAN_KEY);
    if !records.iter().any(allows) {
        return Vec::new();
    }
    let mut after = view.image.clone();
    after
        .replay_all(records)
        .expect("what was decided on an image replays on it");
    departure::elect_leaderless(&after, view.settings)
}
