//! `millrace group list`: every broker is asked for the groups that it keeps.

use serde::Serialize;
use wire::messages::ListGroupsRequest;

use crate::ask;
use crate::cluster::Cluster;
use crate::outcome::Failure;
use crate::table::table;
use crate::terminal::{say, say_json};
use crate::topic::Style;

#[derive(Debug, Serialize)]
struct Listed {
    group: String,
    state: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    protocol_type: String,
    coordinator: i32,
}

/// Asks all brokers and shows.
///
/// # Errors
/// When a broker does not answer: groups that it keeps would be missing.
pub async fn run(cluster: &mut Cluster, style: Style) -> Result<(), Failure> {
    cluster.metadata(&[]).await?;
    let brokers: Vec<i32> = cluster.brokers().keys().copied().collect();
    let mut groups = Vec::new();
    for broker in brokers {
        let mut client = cluster.take(broker).await?;
        let (version, answer) = client.ask(5, &ListGroupsRequest::default()).await?;
        cluster.give_back(broker, client);
        ask::refuse(answer.error_code, None, &format!("the groups of broker {broker}"))?;
        groups.extend(answer.groups.into_iter().map(|group| Listed {
            group: group.group_id,
            state: (4 <= version.0).then_some(group.group_state),
            kind: (5 <= version.0).then_some(group.group_type),
            protocol_type: group.protocol_type,
            coordinator: broker,
        }));
    }
    groups.sort_by(|one, other| one.group.cmp(&other.group));
    match style {
        Style::Json => say_json(&groups),
        Style::Text if groups.is_empty() => say("no groups"),
        Style::Text => lines(&groups).iter().for_each(|line| say(line)),
    }
    Ok(())
}

fn lines(groups: &[Listed]) -> Vec<String> {
    let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let row = |one: &Listed| {
        vec![
            one.group.clone(),
            dash(&one.state),
            dash(&one.kind),
            one.protocol_type.clone(),
            one.coordinator.to_string(),
        ]
    };
    let rows: Vec<_> = groups.iter().map(row).collect();
    table(&["group", "state", "type", "protocol", "coordinator"], &rows)
}
