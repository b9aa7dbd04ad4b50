//! `millrace config get`.

use metadata::feature::MIN_IN_SYNC_REPLICAS;
use serde::Serialize;
use wire::messages::DescribeConfigsRequest;
use wire::messages::describe_configs::{DescribeConfigsResource, DescribeConfigsResourceResult};

use super::{client_for, only, resource, spelling};
use crate::args::Target;
use crate::ask;
use crate::cluster::Cluster;
use crate::outcome::Failure;
use crate::table::table;
use crate::terminal::{say, say_json, tell};
use crate::topic::Style;

/// One key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Value {
    key: String,
    /// Absent where nothing holds, or where it is secret.
    value: Option<String>,
    source: &'static str,
    /// Whether the resource that was asked for says so itself.
    own: bool,
    read_only: bool,
    sensitive: bool,
}

/// Asks and shows: what the resource itself says; with `all`, or with keys, everything that holds.
///
/// # Errors
/// When the cluster refuses, or a key does not exist.
pub async fn run(
    cluster: &mut Cluster,
    target: &Target,
    keys: &[String],
    all: bool,
    style: Style,
) -> Result<(), Failure> {
    let (resource_type, resource_name) = resource(target);
    let question = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type,
            resource_name,
            configuration_keys: (!keys.is_empty()).then(|| keys.to_vec()),
        }],
        ..Default::default()
    };
    let mut client = client_for(cluster, target).await?;
    let (_, answer) = client.ask(4, &question).await?;
    let result = only(target, &answer.results)?;
    let why = result.error_message.as_deref();
    ask::refuse(result.error_code, why, &target.to_string())?;
    let mut values: Vec<Value> = result.configs.iter().map(|one| view(target, one)).collect();
    values.sort_by(|one, other| one.key.cmp(&other.key));
    let unknown = keys
        .iter()
        .find(|key| !values.iter().any(|value| value.key == **key));
    if let Some(unknown) = unknown {
        let near = spelling::suggestion(target, unknown).unwrap_or_default();
        return Err(Failure::Refused(format!(
            "{target} has no key {unknown}{near}; `millrace config get {target} --all` shows what there is"
        )));
    }
    if all && *target == Target::Brokers {
        // Brokers name no defaults here, as Kafka's do not: each may have been started with other values.
        tell(
            "brokers: only what is set for all of them is listed; config get broker:ID --all lists every key",
        );
    }
    values.retain(|value| all || !keys.is_empty() || value.own);
    if let Some(note) = origin(target, &values) {
        tell(note);
    }
    match style {
        Style::Json => say_json(&values),
        Style::Text if values.is_empty() => {
            say(&nothing_set(target));
        }
        Style::Text => lines(&values).iter().for_each(|line| say(line)),
    }
    Ok(())
}

/// Where a value comes from that perhaps nobody has set.
fn origin(target: &Target, values: &[Value]) -> Option<&'static str> {
    let is_shown = values.iter().any(|value| value.key == MIN_IN_SYNC_REPLICAS);
    (*target == Target::Brokers && is_shown).then_some(
        "min.insync.replicas is always set for all brokers while eligible leader replicas are on, for they are counted by it: \
         the cluster writes it at its first start, with the value that its controllers have",
    )
}

fn nothing_set(target: &Target) -> String {
    match target {
        Target::Brokers => "nothing is set for all brokers".to_owned(),
        _ => format!("{target} sets nothing itself; --all shows what holds"),
    }
}

fn view(target: &Target, one: &DescribeConfigsResourceResult) -> Value {
    const SOURCES: [(i8, &str); 8] = [
        (1, "topic"),
        (2, "broker"),
        (3, "all brokers"),
        // Kafka has one number for all that a broker is started with: its file, the environment, --set.
        (4, "start"),
        (5, "default"),
        (6, "logger"),
        (7, "client metrics"),
        (8, "group"),
    ];
    let source = SOURCES.iter().find(|(number, _)| *number == one.config_source);
    let own = match target {
        Target::Topic(_) => 1,
        Target::Broker(_) => 2,
        Target::Brokers => 3,
    };
    Value {
        key: one.name.clone(),
        value: one.value.clone(),
        source: source.map_or("unknown", |(_, name)| name),
        own: one.config_source == own,
        read_only: one.read_only,
        sensitive: one.is_sensitive,
    }
}

fn lines(values: &[Value]) -> Vec<String> {
    let row = |one: &Value| {
        let value = match (&one.value, one.sensitive) {
            (Some(value), _) => value.clone(),
            (None, true) => "(secret)".to_owned(),
            (None, false) => "-".to_owned(),
        };
        let read_only = if one.read_only { "read-only" } else { "" };
        vec![
            one.key.clone(),
            value,
            one.source.to_owned(),
            read_only.to_owned(),
        ]
    };
    let rows: Vec<_> = values.iter().map(row).collect();
    table(&["key", "value", "from", ""], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_resource_says_itself_is_told_from_what_holds_otherwise() {
        let of = |source, sensitive| DescribeConfigsResourceResult {
            name: "k".to_owned(),
            value: None,
            config_source: source,
            is_sensitive: sensitive,
            ..Default::default()
        };
        let topic = Target::Topic("t".to_owned());
        assert!(view(&topic, &of(1, false)).own);
        assert!(!view(&topic, &of(5, false)).own);
        assert!(view(&Target::Brokers, &of(3, false)).own);
        assert!(lines(&[view(&Target::Broker(1), &of(4, true))])[1].contains("(secret)  start"));
    }

    /// People asked who had set it.
    #[test]
    fn a_minimum_that_the_cluster_itself_has_set_is_said_to_be_so() {
        let minimum = DescribeConfigsResourceResult {
            name: "min.insync.replicas".to_owned(),
            config_source: 3,
            ..Default::default()
        };
        let shown = |target: Target| origin(&target, &[view(&target, &minimum)]);
        assert!(shown(Target::Brokers).is_some_and(|note| note.contains("first start")));
        assert_eq!(shown(Target::Topic("t".to_owned())), None);
        assert_eq!(origin(&Target::Brokers, &[]), None);
    }
}
