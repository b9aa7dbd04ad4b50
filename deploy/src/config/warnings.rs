//! What is kept and does not do here what it does in Apache Kafka.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::config::spelling;
use metadata::config::{Key, Scope, State, catalogue};
use wire::ErrorCode;
use wire::messages::DescribeConfigsRequest;
use wire::messages::describe_configs::{DescribeConfigsResource, DescribeConfigsResult};

use super::resource;
use crate::args::Target;
use crate::client::Client;

/// How often a topic is asked for until its broker has heard of it, and the pause between.
const LOOKS: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// What a key that was given does not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Anything.
    WithoutEffect,
    /// Compact, which its value asks for.
    DoesNotCompact,
    /// It is no key, and brokers keep it as Kafka's do.
    Unknown,
}

/// One warning; its display is the sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The key.
    pub key: String,
    /// What it does not do.
    pub kind: Kind,
    /// Which other one is perhaps meant, as the end of a sentence.
    near: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match self.kind {
            Kind::WithoutEffect => write!(f, "warning: {key} is kept, but has no effect in this cluster"),
            Kind::Unknown => write!(
                f,
                "warning: neither Kafka nor Millrace knows {key}; it is kept, and nothing reads it{}",
                self.near
            ),
            Kind::DoesNotCompact => write!(
                f,
                "warning: {key}: this cluster does not compact yet; without delete in the list every record is kept"
            ),
        }
    }
}

/// Which of the pairs that were given deserve one. The cluster is asked: what has no effect here has one in Apache Kafka,
/// and only this cluster describes its keys in our words. That it does not answer is no reason to fail, for the change is
/// made.
pub async fn of(client: &mut Client, target: &Target, given: &[(String, String)]) -> Vec<Warning> {
    let scope = spelling::scope(target);
    let unknown = given.iter().filter(|(key, _)| {
        let is_of_a_listener = key.starts_with("listener.name.");
        scope == Scope::Node && !is_of_a_listener && catalogue().find(scope, key).is_none()
    });
    let mut found: Vec<Warning> = unknown
        .map(|(key, _)| Warning {
            key: key.clone(),
            kind: Kind::Unknown,
            near: spelling::suggestion(target, key).unwrap_or_default(),
        })
        .collect();
    found.extend(without_effect(client, target, given).await);
    found
}

/// What the cluster says that it does not act on.
async fn without_effect(client: &mut Client, target: &Target, given: &[(String, String)]) -> Vec<Warning> {
    let scope = spelling::scope(target);
    let suspect = |(key, value): &(String, String)| {
        let known = catalogue().find(scope, key)?;
        Some((known, kind(known, value)?))
    };
    let suspects: Vec<(&Key, Kind)> = given.iter().filter_map(suspect).collect();
    if suspects.is_empty() {
        return Vec::new();
    }
    let (resource_type, resource_name) = resource(target);
    let keys = suspects.iter().map(|(key, _)| key.name.to_owned());
    let question = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type,
            resource_name,
            configuration_keys: Some(keys.collect()),
        }],
        include_documentation: true,
        ..Default::default()
    };
    let mut answer = client.ask(4, &question).await;
    for _ in 0..LOOKS {
        // A broker may not have heard yet of a topic that was just created.
        let unheard =
            |result: &DescribeConfigsResult| result.error_code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        if !matches!(&answer, Ok((_, told)) if told.results.iter().any(unheard)) {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        answer = client.ask(4, &question).await;
    }
    let Ok((_, answer)) = answer else {
        return Vec::new();
    };
    let told: BTreeSet<(String, Option<String>)> = answer
        .results
        .into_iter()
        .flat_map(|result| result.configs)
        .map(|one| (one.name, one.documentation))
        .collect();
    let is_ours = |key: &Key| told.contains(&(key.name.to_owned(), Some(key.documentation().to_owned())));
    suspects
        .into_iter()
        .filter(|(key, _)| is_ours(key))
        .map(|(key, kind)| Warning {
            key: key.name.to_owned(),
            kind,
            near: String::new(),
        })
        .collect()
}

fn kind(key: &Key, value: &str) -> Option<Kind> {
    let compacts = || value.split(',').any(|policy| policy.trim() == "compact");
    match key.name {
        _ if key.state == State::WithoutEffect => Some(Kind::WithoutEffect),
        "cleanup.policy" | "log.cleanup.policy" => compacts().then_some(Kind::DoesNotCompact),
        _ => None,
    }
}
