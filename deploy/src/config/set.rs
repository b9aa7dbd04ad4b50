//! `millrace config set`: all changes of one command together, or none.

use metadata::config::{Scope, State, WITHOUT_EFFECT, catalogue};
use serde::Serialize;
use wire::messages::describe_configs::DescribeConfigsResource;
use wire::messages::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};
use wire::messages::{DescribeConfigsRequest, IncrementalAlterConfigsRequest};

use super::{client_for, only, resource};
use crate::args::{Change, Target};
use crate::ask;
use crate::client::Client;
use crate::cluster::Cluster;
use crate::outcome::Failure;
use crate::table::counted;
use crate::terminal::{say, say_json, tell};
use crate::topic::Style;

#[derive(Debug, Serialize)]
struct Changed {
    resource: String,
    changes: usize,
    validated_only: bool,
    without_effect: Vec<String>,
}

/// Changes, or only asks whether it could be changed.
///
/// # Errors
/// With exit code 2 where nothing is to be changed; else when the cluster refuses.
pub async fn run(
    cluster: &mut Cluster,
    target: &Target,
    change: &Change,
    validate_only: bool,
    style: Style,
) -> Result<(), Failure> {
    let configs = wanted(change);
    if configs.is_empty() {
        return Err(Failure::Usage(vec![
            "nothing to change: give KEY=VALUE, --delete, --append or --subtract".into(),
        ]));
    }
    let changes = configs.len();
    let (resource_type, resource_name) = resource(target);
    let question = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type,
            resource_name,
            configs,
        }],
        validate_only,
    };
    let mut client = client_for(cluster, target).await?;
    let (_, answer) = client.ask(1, &question).await?;
    let result = only(target, &answer.responses)?;
    let why = result.error_message.as_deref();
    ask::refuse(result.error_code, why, &target.to_string())?;
    let without_effect = without_effect(&mut client, target, change).await;
    for key in &without_effect {
        tell(&format!(
            "warning: {key} is kept, but has no effect in this cluster"
        ));
    }
    match style {
        Style::Json => say_json(&Changed {
            resource: target.to_string(),
            changes,
            validated_only: validate_only,
            without_effect,
        }),
        Style::Text => {
            let done = if validate_only { "would be taken" } else { "made" };
            say(&format!("{target}: {} {done}", counted(changes, "change")));
        }
    }
    Ok(())
}

/// Which of the keys that are given a value do nothing. The cluster is asked: what has no effect here has one in Apache
/// Kafka. That it does not answer is no reason to fail, for the change is made.
async fn without_effect(client: &mut Client, target: &Target, change: &Change) -> Vec<String> {
    let scope = match target {
        Target::Topic(_) => Scope::Topic,
        Target::Broker(_) | Target::Brokers => Scope::Node,
    };
    let is_idle = |key: &String| {
        let known = catalogue().find(scope, key);
        known.is_some_and(|key| key.state == State::WithoutEffect)
    };
    let given = change.set.iter().chain(&change.append).chain(&change.subtract);
    let keys: Vec<String> = given.map(|(key, _)| key.clone()).filter(is_idle).collect();
    if keys.is_empty() {
        return keys;
    }
    let (resource_type, resource_name) = resource(target);
    let question = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type,
            resource_name,
            configuration_keys: Some(keys),
        }],
        include_documentation: true,
        ..Default::default()
    };
    let Ok((_, answer)) = client.ask(4, &question).await else {
        return Vec::new();
    };
    let described = answer.results.into_iter().flat_map(|result| result.configs);
    described
        .filter(|one| one.documentation.as_deref() == Some(WITHOUT_EFFECT))
        .map(|one| one.name)
        .collect()
}

fn wanted(change: &Change) -> Vec<AlterableConfig> {
    const SET: i8 = 0;
    const DELETE: i8 = 1;
    const APPEND: i8 = 2;
    const SUBTRACT: i8 = 3;
    let pair = |operation: i8| {
        move |(key, value): &(String, String)| AlterableConfig {
            name: key.clone(),
            config_operation: operation,
            value: Some(value.clone()),
        }
    };
    let delete = |key: &String| AlterableConfig {
        name: key.clone(),
        config_operation: DELETE,
        value: None,
    };
    let mut all: Vec<AlterableConfig> = change.set.iter().map(pair(SET)).collect();
    all.extend(change.delete.iter().map(delete));
    all.extend(change.append.iter().map(pair(APPEND)));
    all.extend(change.subtract.iter().map(pair(SUBTRACT)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_change_has_its_number() {
        let pair = |key: &str| vec![(key.to_owned(), "v".to_owned())];
        let change = Change {
            set: pair("a"),
            delete: vec!["b".to_owned()],
            append: pair("c"),
            subtract: pair("d"),
        };
        let numbers: Vec<(String, i8, bool)> = wanted(&change)
            .into_iter()
            .map(|one| (one.name, one.config_operation, one.value.is_some()))
            .collect();
        let expected = [("a", 0, true), ("b", 1, false), ("c", 2, true), ("d", 3, true)];
        assert_eq!(
            numbers,
            expected.map(|(key, number, value)| (key.to_owned(), number, value))
        );
    }
}
