//! Descriptions against those that Apache Kafka 4.4.0 gave for the same settings and overrides.

use std::collections::BTreeMap;

use super::{broker, pairs};
use crate::config::{Effective, Layers, Synonym, describe_broker, describe_cluster_default, describe_topic};

const RECORDED: &str = include_str!("described.tsv");

/// What the node that was recorded had in its file; `log.flush.interval.ms` is left out, for it is refused here.
const FILE: [(&str, &str); 20] = [
    ("node.id", "1"),
    ("controller.quorum.voters", "2@127.0.0.1:23092"),
    ("controller.listener.names", "CONTROLLER"),
    ("log.dirs", "/data"),
    (
        "listener.security.protocol.map",
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    ),
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
    ("log.retention.hours", "2"),
    ("log.retention.minutes", "90"),
    ("log.roll.ms", "7200000"),
    ("log.roll.jitter.hours", "1"),
    ("min.insync.replicas", "2"),
    ("log.cleanup.policy", "compact,delete"),
    ("compression.type", "gzip"),
    ("log.cleaner.min.cleanable.ratio", "0.00010"),
    ("auto.create.topics.enable", "FALSE"),
    ("advertised.listeners", "PLAINTEXT://127.0.0.1:23093"),
];

/// Overrides of the topic, of the broker and of all brokers. Kafka itself added `min.insync.replicas`.
const TOPIC: [(&str, &str); 3] = [
    ("retention.bytes", " +7 "),
    ("preallocate", "TRUE"),
    ("min.cleanable.dirty.ratio", "0.25"),
];
const BROKER: [(&str, &str); 3] = [
    ("log.roll.ms", "5000000"),
    ("message.max.bytes", "3000000"),
    ("follower.replication.throttled.rate", "5"),
];
const CLUSTER: [(&str, &str); 5] = [
    ("log.retention.ms", "100000"),
    ("log.flush.interval.ms", "50000"),
    ("message.max.bytes", "2000000"),
    ("min.insync.replicas", "2"),
    ("nonsense", "1"),
];

fn recorded(resource: &str) -> BTreeMap<&'static str, String> {
    let rows = RECORDED
        .lines()
        .filter_map(|line| line.strip_prefix(resource)?.strip_prefix('\t'));
    rows.filter_map(|row| row.split_once('\t'))
        .map(|(key, rest)| (key, rest.to_owned()))
        .collect()
}

/// A description in the notation of the recording.
fn row(entry: &Effective) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let yes = |truth| if truth { "y" } else { "n" };
    let said = |one: &Synonym| format!("{}={}@{}", one.name, text(&one.value), one.source.code());
    let synonyms: Vec<String> = entry.synonyms.iter().map(said).collect();
    let value_type = entry.value_type.map_or(0, |value_type| value_type.code());
    let (value, source) = (text(&entry.value), entry.source.code());
    let (read_only, sensitive) = (yes(entry.read_only), yes(entry.sensitive));
    format!(
        "{value}\t{source}\t{value_type}\t{read_only}\t{sensitive}\t{}",
        synonyms.join(";")
    )
}

/// Complaints about keys that are described otherwise than they were recorded, or on one side only.
fn differences(resource: &str, described: &[Effective], left_out: &[&str]) -> Vec<String> {
    let recorded = recorded(resource);
    let described: BTreeMap<&str, String> = described
        .iter()
        .map(|entry| (entry.name.as_str(), row(entry)))
        .collect();
    let keys: Vec<&str> = recorded.keys().chain(described.keys()).copied().collect();
    let mut found: Vec<String> = keys
        .into_iter()
        .filter(|key| !left_out.contains(key))
        .filter(|key| recorded.get(key) != described.get(key))
        .map(|key| {
            format!(
                "{key}: recorded {:?}, described {:?}",
                recorded.get(key),
                described.get(key)
            )
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn a_topic_a_broker_and_the_default_of_all_are_described_as_recorded() {
    let node = broker(&FILE).unwrap();
    let [topic, own, all] = [&TOPIC[..], &BROKER, &CLUSTER].map(|given| pairs(given).into_iter().collect());
    let (topic, own, all): (
        BTreeMap<String, String>,
        BTreeMap<String, String>,
        BTreeMap<String, String>,
    ) = (topic, own, all);

    let of_topic = describe_topic(&Layers {
        topic: &topic,
        node_dynamic: &own,
        cluster: &all,
        node: &node,
    });
    assert_eq!(
        differences("topic", &of_topic, &["flush.ms"]),
        Vec::<String>::new()
    );

    assert_eq!(
        differences("cluster", &describe_cluster_default(&all), &[]),
        Vec::<String>::new()
    );

    let left_out = [
        "log.flush.interval.ms",
        "process.roles",
        "listeners",
        "controller.quorum.voters",
        "log.retention.hours",
        "log.retention.minutes",
        "broker.session.disconnect.grace.ms",
        "cluster.id",
        "metrics.listener",
        // Defaults of ours.
        "controller.quorum.election.timeout.ms",
        "controller.quorum.fetch.timeout.ms",
    ];
    let of_broker = describe_broker(&node, &own, &all);
    assert_eq!(differences("broker", &of_broker, &left_out), Vec::<String>::new());
}
