//! `millrace status`: the quorum, the brokers, and partitions that nobody leads or too few hold. What cannot be asked
//! is said to be unknown, never to be well.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::args::StatusArgs;
use crate::ask::{self, BrokerView, TopicView};
use crate::client::{Client, ClientError};
use crate::outcome::Failure;
use crate::quorum::{self, QuorumView};
use crate::table::{numbers, table};
use crate::terminal::{say, say_json};
use crate::topic::Style;

const MIN_IN_SYNC: &str = "min.insync.replicas";

/// The state of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StatusView {
    /// The cluster's id.
    pub cluster_id: String,
    /// The quorum; absent where it was not asked.
    pub quorum: Option<QuorumView>,
    /// The brokers.
    pub brokers: Vec<BrokerView>,
    /// How many partitions there are.
    pub partitions: usize,
    /// Partitions that nobody leads.
    pub leaderless: Vec<PartitionTrouble>,
    /// Partitions that fewer hold than must acknowledge a write; absent where the limit cannot be asked.
    pub under_min_in_sync: Option<Vec<PartitionTrouble>>,
    /// Partitions that not all of their replicas hold.
    pub under_replicated: usize,
    /// What could not be asked, in sentences.
    pub unknown: Vec<String>,
}

/// A partition in trouble.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartitionTrouble {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// Who holds it.
    pub replicas: Vec<i32>,
    /// Whose copy is complete.
    pub in_sync: Vec<i32>,
    /// How many must be in sync, where that is known.
    pub min_in_sync: Option<usize>,
}

/// Asks and shows.
///
/// # Errors
/// When no broker answers, and with `--check` when something is wrong or unknown.
pub async fn run(args: &StatusArgs, style: Style) -> Result<(), Failure> {
    let view = gather(args).await?;
    match style {
        Style::Json => say_json(&view),
        Style::Text => lines(&view).iter().for_each(|line| say(line)),
    }
    let troubles = troubles(&view);
    if args.check && !troubles.is_empty() {
        return Err(Failure::Refused(troubles.join("\n")));
    }
    Ok(())
}

async fn gather(args: &StatusArgs) -> Result<StatusView, Failure> {
    let mut client = Client::connect(&args.at.bootstrap).await?;
    let mut unknown = Vec::new();
    let cluster = ask::cluster(&mut client).await?;
    if !cluster.fenced_listed {
        unknown.push("fenced brokers are not listed: the broker is too old to be asked for them".to_owned());
    }
    let quorum = if args.controllers.is_empty() {
        quorum::by_broker(&mut client).await?
    } else {
        Some(quorum::by_controllers(&args.controllers).await)
    };
    if quorum.is_none() {
        unknown.push(
            "the quorum was not asked: brokers do not answer for it; name controllers with --controllers"
                .to_owned(),
        );
    }
    let topics = ask::all_topics(&mut client).await?;
    let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    let limits = match ask::topic_configs(&mut client, &names, Some(&[MIN_IN_SYNC])).await {
        Ok(configs) => Some(limits(&configs)),
        Err(Failure::Client(ClientError::NotServed { .. })) => {
            unknown.push(format!(
                "{MIN_IN_SYNC} cannot be asked: the broker does not serve DescribeConfigs"
            ));
            None
        }
        Err(failure) => return Err(failure),
    };
    Ok(judge(
        cluster.cluster_id,
        cluster.brokers,
        quorum,
        &topics,
        limits.as_ref(),
        unknown,
    ))
}

fn limits(configs: &BTreeMap<String, BTreeMap<String, ask::ConfigView>>) -> BTreeMap<String, usize> {
    let limit =
        |keys: &BTreeMap<String, ask::ConfigView>| keys.get(MIN_IN_SYNC)?.value.as_ref()?.parse().ok();
    configs
        .iter()
        .filter_map(|(topic, keys)| Some((topic.clone(), limit(keys)?)))
        .collect()
}

fn judge(
    cluster_id: String,
    brokers: Vec<BrokerView>,
    quorum: Option<QuorumView>,
    topics: &[TopicView],
    limits: Option<&BTreeMap<String, usize>>,
    unknown: Vec<String>,
) -> StatusView {
    let partitions = || {
        topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(move |one| (topic, one)))
    };
    let trouble = |topic: &TopicView, one: &ask::PartitionView| PartitionTrouble {
        topic: topic.name.clone(),
        partition: one.partition,
        replicas: one.replicas.clone(),
        in_sync: one.in_sync.clone(),
        min_in_sync: limits.and_then(|limits| limits.get(&topic.name).copied()),
    };
    let under = |limits: &BTreeMap<String, usize>| {
        let few = |topic: &TopicView, one: &ask::PartitionView| {
            limits
                .get(&topic.name)
                .is_some_and(|limit| one.in_sync.len() < *limit)
        };
        partitions()
            .filter(|(topic, one)| few(topic, one))
            .map(|(topic, one)| trouble(topic, one))
            .collect()
    };
    StatusView {
        cluster_id,
        quorum,
        brokers,
        partitions: partitions().count(),
        leaderless: partitions()
            .filter(|(_, one)| one.leader.is_none())
            .map(|(topic, one)| trouble(topic, one))
            .collect(),
        under_min_in_sync: limits.map(under),
        under_replicated: partitions()
            .filter(|(_, one)| one.in_sync.len() < one.replicas.len())
            .count(),
        unknown,
    }
}

/// What is wrong or unknown, one line each.
fn troubles(view: &StatusView) -> Vec<String> {
    let mut found = view.unknown.clone();
    if let Some(quorum) = &view.quorum {
        if quorum.leader.is_none() {
            found.push("no controller leads".to_owned());
        }
        let silent = quorum
            .controllers
            .iter()
            .filter(|one| one.state.starts_with("does not answer"))
            .count();
        found.extend((0 < silent).then(|| format!("{silent} controllers do not answer")));
        let held = quorum
            .controllers
            .iter()
            .filter(|one| one.quarantine.is_some())
            .count();
        found.extend((0 < held).then(|| format!("{held} controllers serve reads only")));
    }
    let fenced: Vec<i32> = view
        .brokers
        .iter()
        .filter(|broker| broker.fenced)
        .map(|broker| broker.id)
        .collect();
    found.extend((!fenced.is_empty()).then(|| format!("brokers {} are fenced", numbers(&fenced))));
    let leaderless = view.leaderless.len();
    found.extend((0 < leaderless).then(|| format!("{leaderless} partitions have no leader")));
    let under = view.under_min_in_sync.as_ref().map_or(0, Vec::len);
    found.extend((0 < under).then(|| format!("{under} partitions have too few in-sync replicas")));
    found
}

fn lines(view: &StatusView) -> Vec<String> {
    let mut lines = vec![format!("cluster {}", view.cluster_id), String::new()];
    lines.extend(quorum_lines(view.quorum.as_ref()));
    lines.push(String::new());
    lines.push(format!("brokers: {}", view.brokers.len()));
    let none = || "-".to_owned();
    let broker = |one: &BrokerView| {
        let state = if one.fenced { "fenced" } else { "serving" };
        vec![
            one.id.to_string(),
            state.to_owned(),
            one.endpoint.clone(),
            one.rack.clone().unwrap_or_else(none),
        ]
    };
    let rows: Vec<_> = view.brokers.iter().map(broker).collect();
    lines.extend(indented(&table(&["id", "state", "endpoint", "rack"], &rows)));
    lines.push(String::new());
    lines.push(format!(
        "partitions: {}, without a leader {}, under {MIN_IN_SYNC} {}, not on all replicas {}",
        view.partitions,
        view.leaderless.len(),
        view.under_min_in_sync
            .as_ref()
            .map_or_else(|| "unknown".to_owned(), |few| few.len().to_string()),
        view.under_replicated,
    ));
    lines.extend(trouble_lines("without a leader", &view.leaderless));
    lines.extend(trouble_lines(
        "too few in sync",
        view.under_min_in_sync.as_deref().unwrap_or_default(),
    ));
    lines.extend(view.unknown.iter().map(|line| format!("unknown: {line}")));
    lines
}

fn quorum_lines(quorum: Option<&QuorumView>) -> Vec<String> {
    let Some(quorum) = quorum else {
        return vec!["quorum: unknown".to_owned()];
    };
    let text = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
    let leader = quorum.leader.map_or_else(
        || "nobody leads".to_owned(),
        |leader| format!("controller {leader} leads"),
    );
    let term = quorum
        .term
        .map_or_else(String::new, |term| format!(", term {term}"));
    let row = |one: &quorum::ControllerView| {
        let state = one.quarantine.as_ref().map_or_else(
            || one.state.clone(),
            |why| format!("{}, reads only: {why}", one.state),
        );
        vec![
            text(one.id.map(|id| id.to_string())),
            text(one.address.clone()),
            text(one.log_end.map(|end| end.to_string())),
            text(one.lag.map(|lag| lag.to_string())),
            state,
        ]
    };
    let rows: Vec<_> = quorum.controllers.iter().map(row).collect();
    let mut lines = vec![format!("quorum: {leader}{term}")];
    lines.extend(indented(&table(
        &["id", "address", "log end", "lag", "state"],
        &rows,
    )));
    lines
}

/// The first of many; the rest would push everything else off the screen.
fn trouble_lines(heading: &str, troubles: &[PartitionTrouble]) -> Vec<String> {
    const SHOWN: usize = 20;
    if troubles.is_empty() {
        return Vec::new();
    }
    let row = |one: &PartitionTrouble| {
        let limit = one
            .min_in_sync
            .map_or_else(|| "-".to_owned(), |limit| limit.to_string());
        vec![
            format!("{}-{}", one.topic, one.partition),
            numbers(&one.replicas),
            numbers(&one.in_sync),
            limit,
        ]
    };
    let rows: Vec<_> = troubles.iter().take(SHOWN).map(row).collect();
    let mut lines = vec![String::new(), format!("{heading}:")];
    lines.extend(indented(&table(
        &["partition", "replicas", "in sync", "must be"],
        &rows,
    )));
    let rest = troubles.len().saturating_sub(SHOWN);
    lines.extend((0 < rest).then(|| format!("  and {rest} more; --json shows all")));
    lines
}

fn indented(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| format!("  {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::PartitionView;

    fn partition(number: i32, leader: Option<i32>, in_sync: &[i32]) -> PartitionView {
        PartitionView {
            partition: number,
            leader,
            leader_epoch: Some(0),
            replicas: vec![1, 2, 3],
            in_sync: in_sync.to_vec(),
            offline: vec![],
            eligible_leaders: None,
        }
    }

    fn seen(limits: Option<&BTreeMap<String, usize>>, unknown: Vec<String>) -> StatusView {
        let partitions = vec![
            partition(0, Some(1), &[1, 2, 3]),
            partition(1, Some(2), &[2]),
            partition(2, None, &[3]),
        ];
        let topics = [TopicView {
            name: "orders".to_owned(),
            id: "x".to_owned(),
            internal: false,
            partitions,
        }];
        let broker = |id, fenced| BrokerView {
            id,
            endpoint: format!("127.0.0.1:909{id}"),
            rack: None,
            fenced,
        };
        judge(
            "c".to_owned(),
            vec![broker(1, false), broker(2, true)],
            None,
            &topics,
            limits,
            unknown,
        )
    }

    #[test]
    fn partitions_in_trouble_are_found_and_named() {
        let view = seen(Some(&BTreeMap::from([("orders".to_owned(), 2)])), vec![]);
        assert_eq!(
            view.leaderless
                .iter()
                .map(|one| one.partition)
                .collect::<Vec<_>>(),
            [2]
        );
        assert_eq!(view.under_min_in_sync.as_ref().map(Vec::len), Some(2));
        assert_eq!(view.under_replicated, 2);
        assert_eq!(
            troubles(&view),
            [
                "brokers 2 are fenced",
                "1 partitions have no leader",
                "2 partitions have too few in-sync replicas",
            ]
        );
    }

    #[test]
    fn what_cannot_be_asked_is_unknown_and_not_well() {
        let view = seen(None, vec!["min.insync.replicas cannot be asked".to_owned()]);
        let text = lines(&view).join("\n");
        assert!(text.contains("quorum: unknown"), "{text}");
        assert!(text.contains("under min.insync.replicas unknown"), "{text}");
        assert!(
            text.contains("unknown: min.insync.replicas cannot be asked"),
            "{text}"
        );
        assert!(troubles(&view).contains(&"min.insync.replicas cannot be asked".to_owned()));
    }

    #[test]
    fn a_healthy_cluster_has_no_trouble() {
        let view = judge("c".to_owned(), vec![], None, &[], Some(&BTreeMap::new()), vec![]);
        assert_eq!(troubles(&view), Vec::<String>::new());
    }

    #[test]
    fn of_many_partitions_the_first_are_shown() {
        let trouble = |number| PartitionTrouble {
            topic: "t".to_owned(),
            partition: number,
            replicas: vec![1],
            in_sync: vec![],
            min_in_sync: Some(1),
        };
        let lines = trouble_lines("without a leader", &(0..25).map(trouble).collect::<Vec<_>>());
        assert_eq!(
            lines.last().map(String::as_str),
            Some("  and 5 more; --json shows all")
        );
    }
}
