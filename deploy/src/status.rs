//! `millrace status`: the quorum, the brokers and their disks, and partitions that nobody leads or too few hold. What
//! cannot be asked is said to be unknown, never to be well.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::args::StatusArgs;
use crate::ask::{self, BrokerView, ClusterView, TopicView};
use crate::client::{Client, ClientError};
use crate::disks::{self, LogDirView};
use crate::interrupt::Interrupt;
use crate::leaderless;
use crate::outcome::Failure;
use crate::quorum::{self, QuorumView};
use crate::table::{counted, numbers, table};
use crate::terminal::{self, say, say_json, tell, wipe};
use crate::topic::Style;
use crate::unserved::{self, Unserved};

/// How long a broker that answered may then be silent: a status is asked for when things are bad.
const PATIENCE: Duration = Duration::from_secs(5);

const MIN_IN_SYNC: &str = "min.insync.replicas";

/// The state of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StatusView {
    /// The cluster's id, where anybody told it.
    pub cluster_id: Option<String>,
    /// The quorum; absent where it was not asked.
    pub quorum: Option<QuorumView>,
    /// The brokers; absent where they could not be asked for.
    pub brokers: Option<Vec<BrokerView>>,
    /// The log directories of the brokers that could be asked for them.
    pub log_dirs: Vec<LogDirView>,
    /// The partitions; absent where they could not be asked for.
    pub partitions: Option<PartitionsView>,
    /// What brokers lead and have no log of that works.
    pub unserved: Vec<Unserved>,
    /// What could not be asked, in sentences.
    pub unknown: Vec<String>,
}

/// The partitions of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartitionsView {
    /// How many there are.
    pub count: usize,
    /// Those that nobody leads.
    pub leaderless: Vec<PartitionTrouble>,
    /// Those that fewer hold than must acknowledge a write; absent where the limit cannot be asked.
    pub under_min_in_sync: Option<Vec<PartitionTrouble>>,
    /// How many are not held by all of their replicas.
    pub under_replicated: usize,
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
    /// Who of the replicas is not there.
    pub offline: Vec<i32>,
    /// Who else has all that is committed, where that is known; not asked of partitions with a leader.
    pub eligible: Option<Vec<i32>>,
    /// Who led last, where that is known; not asked of partitions with a leader.
    pub last_leaders: Option<Vec<i32>>,
}

/// Asks and shows.
///
/// # Errors
/// When no broker answers, and with `--check` when something is wrong or unknown.
pub async fn run(args: &StatusArgs, style: Style) -> Result<(), Failure> {
    match args.watch {
        None => once(args, style).await,
        Some(seconds) => watch(args, Duration::from_secs(seconds), style).await,
    }
}

/// Again and again. What fails now may be well the next time.
async fn watch(args: &StatusArgs, period: Duration, style: Style) -> Result<(), Failure> {
    let mut interrupt = Interrupt::new()?;
    loop {
        let shown = tokio::select! {
            shown = look(args) => shown,
            () = interrupt.next() => return Ok(()),
        };
        match (&shown, style) {
            (Ok(view), Style::Json) => say(&serde_json::json!(view).to_string()),
            (Ok(view), Style::Text) => {
                wipe();
                lines(view).iter().for_each(|line| say(line));
                say("");
                troubles(view).iter().for_each(|line| say(&format!("! {line}")));
            }
            (Err(failure), _) => tell(&format!("millrace: {failure}")),
        }
        terminal::delivered()?;
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            () = interrupt.next() => return Ok(()),
        }
    }
}

async fn look(args: &StatusArgs) -> Result<StatusView, Failure> {
    match Client::connect(&args.at.bootstrap).await {
        Ok(mut client) => {
            client.wait_at_most(PATIENCE);
            Ok(gather(client, args).await)
        }
        Err(error) if args.controllers.is_empty() => Err(error.into()),
        Err(error) => Ok(without_brokers(args, &error).await),
    }
}

async fn once(args: &StatusArgs, style: Style) -> Result<(), Failure> {
    let view = look(args).await?;
    match style {
        Style::Json => say_json(&view),
        Style::Text => lines(&view).iter().for_each(|line| say(line)),
    }
    let troubles = troubles(&view);
    let bad = view.brokers.is_none() || (args.check && !troubles.is_empty());
    if bad {
        Err(Failure::Refused(troubles.join("\n")))
    } else {
        Ok(())
    }
}

/// What controllers alone can tell.
async fn without_brokers(args: &StatusArgs, error: &ClientError) -> StatusView {
    let quorum = quorum::by_controllers(&args.controllers).await;
    StatusView {
        cluster_id: quorum.cluster_id.clone(),
        quorum: Some(quorum),
        brokers: None,
        log_dirs: Vec::new(),
        partitions: None,
        unserved: Vec::new(),
        unknown: vec![format!("brokers and partitions: {error}")],
    }
}

/// What can be asked; a broker without a quorum still tells what it knows.
async fn gather(mut client: Client, args: &StatusArgs) -> StatusView {
    let mut unknown = Vec::new();
    let cluster = known("the brokers", ask::cluster(&mut client).await, &mut unknown);
    if cluster.as_ref().is_some_and(|cluster| !cluster.fenced_listed) {
        unknown.push("fenced brokers are not listed: the broker is too old to be asked for them".to_owned());
    }
    let brokers = cluster.as_ref().map_or(&[][..], |cluster| &cluster.brokers);
    let one_after_the_other = async {
        let quorum = quorum(&mut client, args, cluster.as_ref(), &mut unknown).await;
        (quorum, partitions(&mut client, &mut unknown).await)
    };
    let ((quorum, partitions), disks) = tokio::join!(one_after_the_other, disks::of(brokers));
    unknown.extend(disks.unknown);
    let (partitions, topics) = partitions.unzip();
    let topics = topics.unwrap_or_default();
    let unserved = unserved::find(&mut client, brokers, &topics, &disks.found).await;
    let seen = |mut broker: BrokerView| {
        broker.answers = disks.answers.get(&broker.id).copied();
        broker
    };
    let cluster_id = cluster.as_ref().map(|cluster| cluster.cluster_id.clone());
    StatusView {
        cluster_id,
        quorum,
        brokers: cluster.map(|cluster| cluster.brokers.into_iter().map(seen).collect()),
        log_dirs: disks.found,
        partitions,
        unserved,
        unknown,
    }
}

async fn partitions(
    client: &mut Client,
    unknown: &mut Vec<String>,
) -> Option<(PartitionsView, Vec<TopicView>)> {
    let topics = known("the partitions", ask::all_topics(client).await, unknown)?;
    let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    let configs = ask::topic_configs(client, &names, Some(&[MIN_IN_SYNC])).await;
    let limits = known(MIN_IN_SYNC, configs, unknown).map(|configs| limits(&configs));
    let mut view = judge(&topics, limits.as_ref());
    leaderless::ask_who_may_lead(client, &mut view.leaderless).await;
    Some((view, topics))
}

/// From the controllers that were named, from the broker, or from the controllers that the broker names.
async fn quorum(
    client: &mut Client,
    args: &StatusArgs,
    cluster: Option<&ClusterView>,
    unknown: &mut Vec<String>,
) -> Option<QuorumView> {
    const WHAT: &str = "the quorum";
    let brokers = cluster.map_or(&[][..], |cluster| &cluster.brokers);
    if !args.controllers.is_empty() {
        return Some(quorum::by_controllers(&args.controllers).await);
    }
    let mut refused = Vec::new();
    let cluster_id = cluster.map(|cluster| cluster.cluster_id.as_str());
    if let Some(Some(view)) = known(WHAT, quorum::by_broker(client, cluster_id).await, &mut refused) {
        return Some(view);
    }
    let addresses = known(WHAT, ask::controllers(client, brokers).await, &mut refused).flatten();
    let view = match addresses {
        Some(addresses) => Some(quorum::by_controllers(&addresses).await),
        None => None,
    };
    if view.is_none() && refused.is_empty() {
        let line = "the quorum: brokers neither answer for it nor say where it is; name controllers with --controllers";
        refused.push(line.to_owned());
    }
    // Whoever leads now has told everything; why the broker could not is of no use any more.
    if view.as_ref().is_none_or(|view| view.leader.is_none()) {
        unknown.append(&mut refused);
    }
    view
}

/// An answer; none, with a line that says so, where there is none to be had.
fn known<T>(what: &str, answer: Result<T, Failure>, unknown: &mut Vec<String>) -> Option<T> {
    let failure = match answer {
        Ok(answer) => return Some(answer),
        Err(failure) => failure,
    };
    unknown.push(match failure {
        Failure::Client(ClientError::NotServed { .. }) => failure.to_string(),
        _ => format!("{what}: {failure}"),
    });
    None
}

fn limits(configs: &BTreeMap<String, BTreeMap<String, ask::ConfigView>>) -> BTreeMap<String, usize> {
    let limit =
        |keys: &BTreeMap<String, ask::ConfigView>| keys.get(MIN_IN_SYNC)?.value.as_ref()?.parse().ok();
    configs
        .iter()
        .filter_map(|(topic, keys)| Some((topic.clone(), limit(keys)?)))
        .collect()
}

fn judge(topics: &[TopicView], limits: Option<&BTreeMap<String, usize>>) -> PartitionsView {
    let partitions = || {
        topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(move |one| (topic, one)))
    };
    // As in Kafka, all of the replicas suffice where a topic has fewer than the limit.
    let needed = |(topic, one): &(&TopicView, &ask::PartitionView)| {
        let limit = limits?.get(&topic.name).copied()?;
        Some(limit.min(one.replicas.len()))
    };
    let trouble = |found: (&TopicView, &ask::PartitionView)| PartitionTrouble {
        topic: found.0.name.clone(),
        partition: found.1.partition,
        replicas: found.1.replicas.clone(),
        in_sync: found.1.in_sync.clone(),
        min_in_sync: needed(&found),
        offline: found.1.offline.clone(),
        eligible: found.1.eligible_leaders.clone(),
        last_leaders: found.1.last_known_leaders.clone(),
    };
    let too_few = |found: &(&TopicView, &ask::PartitionView)| {
        needed(found).is_some_and(|needed| found.1.in_sync.len() < needed)
    };
    PartitionsView {
        count: partitions().count(),
        leaderless: partitions()
            .filter(|(_, one)| one.leader.is_none())
            .map(trouble)
            .collect(),
        under_min_in_sync: limits.map(|_| partitions().filter(too_few).map(trouble).collect()),
        under_replicated: partitions()
            .filter(|(_, one)| one.in_sync.len() < one.replicas.len())
            .count(),
    }
}

/// What is wrong or unknown, one line each.
fn troubles(view: &StatusView) -> Vec<String> {
    let mut found = view.unknown.clone();
    if let Some(quorum) = &view.quorum {
        if quorum.leader.is_none() {
            found.push(format!("no controller {}", leadership(quorum)));
        }
        let silent = quorum.controllers.iter().filter(|one| !one.answers);
        found.extend(silent.map(|one| format!("{} {}", called(one), one.state)));
        let held = quorum.controllers.iter();
        found.extend(held.filter_map(|one| {
            let why = one.quarantine.as_ref()?;
            Some(format!("{} serves reads only: {why}", called(one)))
        }));
    }
    let brokers = view.brokers.iter().flatten();
    let fenced: Vec<i32> = brokers
        .filter(|broker| broker.fenced)
        .map(|broker| broker.id)
        .collect();
    found.extend(match fenced.as_slice() {
        [] => None,
        [one] => Some(format!("broker {one} is fenced")),
        many => Some(format!("brokers {} are fenced", numbers(many))),
    });
    found.extend(view.log_dirs.iter().filter_map(LogDirView::trouble));
    found.extend(view.unserved.iter().map(Unserved::trouble));
    let Some(partitions) = &view.partitions else {
        return found;
    };
    let leaderless = partitions.leaderless.len();
    found.extend((0 < leaderless).then(|| format!("{} without a leader", counted(leaderless, "partition"))));
    let under = partitions.under_min_in_sync.as_ref().map_or(0, Vec::len);
    found.extend(
        (0 < under).then(|| format!("{} with too few in-sync replicas", counted(under, "partition"))),
    );
    found
}

/// A controller by its number or, where that is not known, by its address.
fn called(one: &quorum::ControllerView) -> String {
    let name = one.id.map(|id| id.to_string()).or_else(|| one.address.clone());
    format!("controller {}:", name.as_deref().unwrap_or("of unknown number"))
}

fn lines(view: &StatusView) -> Vec<String> {
    let id = view.cluster_id.as_deref().unwrap_or("of unknown id");
    let mut lines = vec![format!("cluster {id}"), String::new()];
    lines.extend(quorum_lines(view.quorum.as_ref()));
    lines.push(String::new());
    lines.extend(broker_lines(view.brokers.as_deref(), &view.log_dirs));
    lines.push(String::new());
    lines.extend(partition_lines(view.partitions.as_ref()));
    if !view.unserved.is_empty() {
        lines.push(String::new());
    }
    lines.extend(view.unserved.iter().map(|one| format!("  {}", one.trouble())));
    if !view.unknown.is_empty() {
        lines.push(String::new());
    }
    lines.extend(view.unknown.iter().map(|line| format!("unknown: {line}")));
    lines
}

fn broker_lines(brokers: Option<&[BrokerView]>, log_dirs: &[LogDirView]) -> Vec<String> {
    let Some(brokers) = brokers else {
        return vec!["brokers: unknown".to_owned()];
    };
    let broker = |one: &BrokerView| {
        // Who was killed stays unfenced until its session lapses.
        let state = match (one.fenced, one.answers) {
            (true, _) => "fenced",
            (false, Some(false)) => "unfenced, does not answer",
            (false, _) => "unfenced",
        };
        let rack = one.rack.clone().unwrap_or_else(|| "-".to_owned());
        let mut own: Vec<&LogDirView> = log_dirs.iter().filter(|dir| dir.broker == one.id).collect();
        // Of several the worst one: whoever has room elsewhere cannot use it for what lies there.
        own.sort_by_key(|dir| (dir.offline.is_none(), dir.usable_bytes));
        let offline = own.iter().filter(|dir| dir.offline.is_some()).count();
        let room = match own.first() {
            Some(_) if 0 < offline && 1 < own.len() => format!("{offline} of {} offline", own.len()),
            Some(worst) => worst.room(),
            None => "-".to_owned(),
        };
        vec![
            one.id.to_string(),
            state.to_owned(),
            one.endpoint.clone(),
            room,
            rack,
        ]
    };
    let rows: Vec<_> = brokers.iter().map(broker).collect();
    let mut lines = vec![format!("brokers: {}", brokers.len())];
    lines.extend(indented(&table(
        &["id", "state", "endpoint", "room", "rack"],
        &rows,
    )));
    lines
}

fn partition_lines(partitions: Option<&PartitionsView>) -> Vec<String> {
    let Some(partitions) = partitions else {
        return vec!["partitions: unknown".to_owned()];
    };
    let under = partitions.under_min_in_sync.as_deref();
    let mut lines = vec![format!(
        "partitions: {}, without a leader {}, under {MIN_IN_SYNC} {}, not on all replicas {}",
        partitions.count,
        partitions.leaderless.len(),
        under.map_or_else(|| "unknown".to_owned(), |few| few.len().to_string()),
        partitions.under_replicated,
    )];
    lines.extend(trouble_lines("without a leader", &partitions.leaderless));
    lines.extend(indented(&leaderless::next_steps(&partitions.leaderless)));
    lines.extend(trouble_lines("too few in sync", under.unwrap_or_default()));
    lines
}

/// What no controller does, where none leads: nobody knows who leads when nobody answers.
fn leadership(quorum: &QuorumView) -> &'static str {
    let somebody = quorum.controllers.iter().any(|one| one.answers);
    match somebody || quorum.controllers.is_empty() {
        true => "leads",
        false => "answers",
    }
}

fn quorum_lines(quorum: Option<&QuorumView>) -> Vec<String> {
    let Some(quorum) = quorum else {
        return vec!["quorum: unknown".to_owned()];
    };
    let text = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
    let leader = quorum.leader.map_or_else(
        || format!("no controller {}", leadership(quorum)),
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
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
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
            last_known_leaders: None,
        }
    }

    fn seen(limits: Option<&BTreeMap<String, usize>>, unknown: &[&str]) -> StatusView {
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
            answers: None,
        };
        StatusView {
            cluster_id: Some("c".to_owned()),
            quorum: None,
            brokers: Some(vec![broker(1, false), broker(2, true)]),
            log_dirs: vec![],
            partitions: Some(judge(&topics, limits)),
            unserved: vec![],
            unknown: unknown.iter().map(|line| (*line).to_owned()).collect(),
        }
    }

    #[test]
    fn partitions_in_trouble_are_found_and_named() {
        let view = seen(Some(&BTreeMap::from([("orders".to_owned(), 2)])), &[]);
        let partitions = view.partitions.as_ref().unwrap();
        assert_eq!(
            partitions
                .leaderless
                .iter()
                .map(|one| one.partition)
                .collect::<Vec<_>>(),
            [2]
        );
        assert_eq!(partitions.under_min_in_sync.as_ref().map(Vec::len), Some(2));
        assert_eq!(partitions.under_replicated, 2);
        let expected = [
            "broker 2 is fenced",
            "1 partition without a leader",
            "2 partitions with too few in-sync replicas",
        ];
        assert_eq!(troubles(&view), expected);
    }

    #[test]
    fn a_topic_with_fewer_replicas_than_the_limit_needs_all_of_them() {
        let topic = |in_sync: &[i32]| TopicView {
            name: "orders".to_owned(),
            id: "x".to_owned(),
            internal: false,
            partitions: vec![partition(0, Some(1), in_sync)],
        };
        let limits = BTreeMap::from([("orders".to_owned(), 4)]);
        let found = |in_sync: &[i32]| judge(&[topic(in_sync)], Some(&limits)).under_min_in_sync.unwrap();
        assert_eq!(found(&[1, 2, 3]), []);
        assert_eq!(found(&[1, 2])[0].min_in_sync, Some(3));
    }

    #[test]
    fn what_cannot_be_asked_is_unknown_and_not_well() {
        let mut view = seen(None, &["min.insync.replicas cannot be asked"]);
        let text = lines(&view).join("\n");
        assert!(text.contains("quorum: unknown"), "{text}");
        assert!(text.contains("under min.insync.replicas unknown"), "{text}");
        assert!(
            text.contains("unknown: min.insync.replicas cannot be asked"),
            "{text}"
        );
        assert!(troubles(&view).contains(&"min.insync.replicas cannot be asked".to_owned()));
        (view.brokers, view.partitions) = (None, None);
        let text = lines(&view).join("\n");
        assert!(
            text.contains("brokers: unknown") && text.contains("partitions: unknown"),
            "{text}"
        );
    }

    fn controller(id: i32, state: &str, answers: bool) -> quorum::ControllerView {
        quorum::ControllerView {
            id: Some(id),
            address: Some(format!("127.0.0.1:{id}")),
            state: state.to_owned(),
            answers,
            log_end: Some(7),
            lag: Some(0),
            quarantine: None,
        }
    }

    #[test]
    fn a_silent_controller_is_trouble_and_named() {
        let mut view = seen(None, &[]);
        (view.brokers, view.partitions) = (Some(vec![]), None);
        view.quorum = Some(QuorumView {
            cluster_id: None,
            leader: Some(101),
            term: Some(3),
            controllers: vec![
                controller(101, "leader", true),
                controller(102, "silent for 47 s", false),
            ],
        });
        assert_eq!(troubles(&view), ["controller 102: silent for 47 s"]);
        let text = lines(&view).join("\n");
        assert!(text.contains("127.0.0.1:102"), "{text}");
    }

    #[test]
    fn a_controller_in_quarantine_is_trouble_and_named_with_the_reason() {
        let mut view = seen(None, &[]);
        (view.brokers, view.partitions) = (Some(vec![]), None);
        let held = quorum::ControllerView {
            quarantine: Some("offset 7 cannot be replayed".to_owned()),
            ..controller(102, "follower", true)
        };
        view.quorum = Some(QuorumView {
            cluster_id: None,
            leader: Some(101),
            term: Some(3),
            controllers: vec![controller(101, "leader", true), held],
        });
        let expected = ["controller 102: serves reads only: offset 7 cannot be replayed"];
        assert_eq!(troubles(&view), expected);
    }

    #[test]
    fn of_several_directories_the_one_with_least_room_is_shown() {
        let dir = |path: &str, usable_bytes| LogDirView {
            broker: 1,
            path: path.to_owned(),
            offline: None,
            usable_bytes: Some(usable_bytes),
            total_bytes: Some(4 << 30),
            logs: Default::default(),
        };
        let mut view = seen(None, &[]);
        let mut gone = dir("/c", 0);
        gone.offline = Some("KAFKA_STORAGE_ERROR".to_owned());
        view.log_dirs = vec![dir("/a", 2 << 30), dir("/b", 0), gone.clone()];
        let text = lines(&view).join("\n");
        assert!(text.contains("127.0.0.1:9091  1 of 3 offline"), "{text}");
        view.log_dirs = vec![gone];
        let text = lines(&view).join("\n");
        assert!(text.contains("127.0.0.1:9091  offline"), "{text}");
        view.log_dirs = vec![dir("/a", 2 << 30), dir("/b", 0)];
        let text = lines(&view).join("\n");
        assert!(text.contains("127.0.0.1:9091  0 B of 4.0 GiB"), "{text}");
        let full = "broker 1: the disk of /b is full: 0 B of 4.0 GiB can be written";
        assert!(
            troubles(&view).contains(&full.to_owned()),
            "{:?}",
            troubles(&view)
        );
    }

    /// Who was killed was shown as unfenced and no more until its session lapsed.
    #[test]
    fn a_broker_that_does_not_answer_is_shown_so_before_it_is_fenced() {
        let mut view = seen(None, &[]);
        for broker in view.brokers.iter_mut().flatten() {
            broker.answers = Some(false);
        }
        let text = lines(&view).join("\n");
        assert!(
            text.contains("1   unfenced, does not answer  127.0.0.1:9091"),
            "{text}"
        );
        assert!(text.contains("2   fenced  "), "{text}");
    }

    /// It said that nobody leads, which nobody knew.
    #[test]
    fn where_no_controller_answers_it_is_not_said_that_none_leads() {
        let mut view = seen(None, &[]);
        (view.brokers, view.partitions) = (Some(vec![]), None);
        let quorum = |answers| QuorumView {
            cluster_id: None,
            leader: None,
            term: None,
            controllers: vec![controller(101, "s", false), controller(102, "s", answers)],
        };
        view.quorum = Some(quorum(false));
        assert_eq!(troubles(&view)[0], "no controller answers");
        assert!(lines(&view).contains(&"quorum: no controller answers".to_owned()));
        view.quorum = Some(quorum(true));
        assert_eq!(troubles(&view)[0], "no controller leads");
    }

    #[test]
    fn what_a_leader_cannot_serve_is_trouble_and_named() {
        let mut view = seen(None, &[]);
        view.unserved = vec![Unserved {
            broker: 1,
            partitions: ["orders-0".to_owned()].into(),
        }];
        let told = "broker 1: leads orders-0 and has no log there that works";
        let text = lines(&view).join("\n");
        assert!(text.contains(told), "{text}");
        assert!(
            troubles(&view).iter().any(|one| one.starts_with(told)),
            "{:?}",
            troubles(&view)
        );
    }

    #[test]
    fn a_healthy_cluster_has_no_trouble() {
        let mut view = seen(None, &[]);
        view.brokers = Some(vec![]);
        view.partitions = Some(judge(&[], Some(&BTreeMap::new())));
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
            offline: vec![],
            eligible: None,
            last_leaders: None,
        };
        let lines = trouble_lines("without a leader", &(0..25).map(trouble).collect::<Vec<_>>());
        assert_eq!(
            lines.last().map(String::as_str),
            Some("  and 5 more; --json shows all")
        );
    }
}
