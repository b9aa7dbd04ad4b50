//! `millrace config set`: all changes of one command together, or none.

use serde::Serialize;
use wire::messages::IncrementalAlterConfigsRequest;
use wire::messages::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};

use super::warnings::Kind;
use super::{client_for, only, resource, with_suggestion};
use crate::args::{Change, Target};
use crate::ask;
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
    let refused = ask::refuse(result.error_code, why, &target.to_string());
    let pairs = [&change.set, &change.append, &change.subtract]
        .into_iter()
        .flatten();
    let keys = pairs.map(|(key, _)| key).chain(&change.delete);
    with_suggestion(refused, target, keys)?;
    let mut given = [change.set.clone(), change.append.clone()].concat();
    // What is taken out of a list is not asked for.
    given.extend(
        change
            .subtract
            .iter()
            .map(|(key, _)| (key.clone(), String::new())),
    );
    let warnings = super::warnings_of(&mut client, target, &given).await;
    for warning in &warnings {
        tell(&warning.to_string());
    }
    let idle = warnings.into_iter().filter(|one| one.kind == Kind::WithoutEffect);
    let without_effect = idle.map(|one| one.key).collect();
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
