//! `millrace group describe`: members, what they were given, what is committed, where the logs end, and the lag.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use wire::messages::describe_groups::DescribedGroup;
use wire::messages::{DescribeGroupsRequest, DescribeGroupsResponse};
use wire::{ApiVersion, ErrorCode};

use super::committed;
use crate::cluster::Cluster;
use crate::consume::protocol;
use crate::offsets;
use crate::outcome::Failure;
use crate::table::{counted, table};
use crate::terminal::{say, say_json};
use crate::topic::Style;
use crate::{ask, coordinator};

/// Where a classic group has neither members nor offsets.
const DEAD: &str = "Dead";

#[derive(Debug, Serialize)]
struct GroupView {
    group: String,
    state: String,
    assignor: String,
    coordinator: String,
    members: Vec<MemberView>,
    partitions: Vec<PartitionView>,
    /// Of all partitions with a committed offset.
    lag: i64,
}

#[derive(Debug, Serialize)]
struct MemberView {
    id: String,
    client: String,
    host: String,
    partitions: BTreeMap<String, Vec<i32>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct PartitionView {
    topic: String,
    partition: i32,
    committed: Option<i64>,
    log_end: Option<i64>,
    lag: Option<i64>,
    member: Option<String>,
}

/// Asks for each of these groups and shows.
///
/// # Errors
/// When a group does not exist, or cannot be asked for.
pub async fn run(cluster: &mut Cluster, groups: &[String], style: Style) -> Result<(), Failure> {
    let mut views = Vec::new();
    for group in groups {
        views.push(view(cluster, group).await?);
    }
    match style {
        Style::Json => say_json(&views),
        Style::Text => views.iter().flat_map(lines).for_each(|line| say(&line)),
    }
    Ok(())
}

async fn view(cluster: &mut Cluster, group: &str) -> Result<GroupView, Failure> {
    let question = DescribeGroupsRequest {
        groups: vec![group.to_owned()],
        ..Default::default()
    };
    let code = |_: ApiVersion, answer: &DescribeGroupsResponse| {
        let described = answer.groups.first();
        described.map_or(ErrorCode::NONE, |group| group.error_code)
    };
    let asked = coordinator::ask(cluster, group, 6, &question, code).await?;
    let described = asked.answer.groups.into_iter().next();
    let described = described.ok_or_else(|| Failure::Refused(format!("{group}: the answer is empty")))?;
    ask::refuse(described.error_code, described.error_message.as_deref(), group)?;
    let known = committed::offsets(cluster, group, None).await?;
    if described.group_state == DEAD && known.is_empty() {
        return Err(Failure::Refused(format!(
            "{group}: there is no such group; `millrace group list` shows what there is"
        )));
    }
    let members = members(&described);
    let owners = owners(&members);
    let mut wanted: BTreeSet<(String, i32)> = owners.keys().cloned().collect();
    wanted.extend(known.iter().map(|one| (one.topic.clone(), one.partition)));
    let ends = ends(cluster, &wanted).await;
    let partitions: Vec<PartitionView> = wanted
        .into_iter()
        .map(|(topic, partition)| {
            let at = |one: &&committed::Committed| one.topic == topic && one.partition == partition;
            let committed = known.iter().find(at).map(|one| one.offset);
            let key = (topic, partition);
            let log_end = ends.get(&key).copied();
            let lag = committed
                .zip(log_end)
                .map(|(committed, end)| (end - committed).max(0));
            let member = owners.get(&key).cloned();
            PartitionView {
                topic: key.0,
                partition,
                committed,
                log_end,
                lag,
                member,
            }
        })
        .collect();
    Ok(GroupView {
        group: group.to_owned(),
        state: described.group_state,
        assignor: described.protocol_data,
        coordinator: asked.coordinator.to_string(),
        lag: partitions.iter().filter_map(|one| one.lag).sum(),
        members,
        partitions,
    })
}

fn members(described: &DescribedGroup) -> Vec<MemberView> {
    let member = described.members.iter().map(|one| MemberView {
        id: one.member_id.clone(),
        client: one.client_id.clone(),
        host: one.client_host.clone(),
        partitions: protocol::assigned(&one.member_assignment),
    });
    member.collect()
}

fn owners(members: &[MemberView]) -> BTreeMap<(String, i32), String> {
    let mut owners = BTreeMap::new();
    for member in members {
        for (topic, partitions) in &member.partitions {
            let of_topic = partitions
                .iter()
                .map(|one| ((topic.clone(), *one), member.id.clone()));
            owners.extend(of_topic);
        }
    }
    owners
}

/// Where the logs end, as far as it can be asked: a topic may be gone, a partition without a leader.
async fn ends(cluster: &mut Cluster, wanted: &BTreeSet<(String, i32)>) -> BTreeMap<(String, i32), i64> {
    let mut by_topic: BTreeMap<&String, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in wanted {
        by_topic.entry(topic).or_default().push(*partition);
    }
    let mut found = BTreeMap::new();
    for (name, partitions) in by_topic {
        let Ok(topic) = cluster.topic(name).await else {
            continue;
        };
        let ends = offsets::ends_known(cluster, &topic, &partitions).await;
        found.extend(
            ends.into_iter()
                .map(|(partition, end)| ((name.clone(), partition), end)),
        );
    }
    found
}

fn lines(view: &GroupView) -> Vec<String> {
    let assignor = if view.assignor.is_empty() {
        "-"
    } else {
        &view.assignor
    };
    let mut lines = vec![format!(
        "{}  {}, assignor {assignor}, {}, coordinator {}, lag {}",
        view.group,
        view.state,
        counted(view.members.len(), "member"),
        view.coordinator,
        view.lag
    )];
    let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let place = |id: &String| view.members.iter().find(|member| member.id == *id);
    let rows: Vec<Vec<String>> = view
        .partitions
        .iter()
        .map(|one| {
            let member = one.member.as_ref();
            let host = member.and_then(place).map_or("-", |member| member.host.as_str());
            vec![
                one.topic.clone(),
                one.partition.to_string(),
                number(one.committed),
                number(one.log_end),
                number(one.lag),
                member.cloned().unwrap_or_else(|| "-".to_owned()),
                host.to_owned(),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let heading = [
            "topic",
            "partition",
            "committed",
            "log end",
            "lag",
            "member",
            "host",
        ];
        lines.extend(table(&heading, &rows).iter().map(|line| format!("  {line}")));
    }
    let idle = view
        .members
        .iter()
        .filter(|member| member.partitions.values().all(Vec::is_empty));
    lines.extend(idle.map(|member| format!("  {} at {} has no partition", member.id, member.host)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_shown_by_its_partitions_and_those_without_one() {
        let member = |id: &str, partitions: &[i32]| MemberView {
            id: id.to_owned(),
            client: "c".to_owned(),
            host: "/127.0.0.1".to_owned(),
            partitions: BTreeMap::from([("orders".to_owned(), partitions.to_vec())]),
        };
        let partition = PartitionView {
            topic: "orders".to_owned(),
            partition: 0,
            committed: Some(5),
            log_end: Some(7),
            lag: Some(2),
            member: Some("m1".to_owned()),
        };
        let view = GroupView {
            group: "g".to_owned(),
            state: "Stable".to_owned(),
            assignor: "range".to_owned(),
            coordinator: "127.0.0.1:9092".to_owned(),
            members: vec![member("m1", &[0]), member("m2", &[])],
            partitions: vec![partition],
            lag: 2,
        };
        assert_eq!(
            lines(&view),
            [
                "g  Stable, assignor range, 2 members, coordinator 127.0.0.1:9092, lag 2",
                "  topic   partition  committed  log end  lag  member  host",
                "  orders  0          5          7        2    m1      /127.0.0.1",
                "  m2 at /127.0.0.1 has no partition",
            ]
        );
    }
}
