//! What DescribeConfigs and CreateTopics tell about values and where they come from.
//! The expected values are those that Apache Kafka 4.4.0 was seen to answer.

use std::collections::BTreeMap;

use super::broker;
use crate::config::{
    Effective, Layers, NodeConfig, NodeId, Role, Source, describe_broker, describe_cluster_default,
    describe_topic,
};

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn bare() -> NodeConfig {
    NodeConfig::bare(Role::Broker, NodeId(1))
}

fn topic(overrides: &[(&str, &str)], cluster: &[(&str, &str)], node: &NodeConfig) -> Vec<Effective> {
    let (topic, cluster) = (map(overrides), map(cluster));
    describe_topic(&Layers {
        topic: &topic,
        node_dynamic: &(),
        cluster: &cluster,
        node,
    })
}

/// Name, value and source of each synonym of a key.
fn said(entries: &[Effective], name: &str) -> Vec<(String, String, i8)> {
    let entry = find(entries, name);
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    entry
        .synonyms
        .iter()
        .map(|one| (one.name.clone(), text(&one.value), one.source.code()))
        .collect()
}

fn find<'a>(entries: &'a [Effective], name: &str) -> &'a Effective {
    entries.iter().find(|entry| entry.name == name).unwrap()
}

fn owned(expected: &[(&str, &str, i8)]) -> Vec<(String, String, i8)> {
    expected
        .iter()
        .map(|(name, value, source)| ((*name).to_owned(), (*value).to_owned(), *source))
        .collect()
}

#[test]
fn every_topic_configuration_is_told_with_value_source_and_type() {
    let entries = topic(
        &[("cleanup.policy", "compact"), ("segment.ms", "123456")],
        &[("min.insync.replicas", "1")],
        &bare(),
    );
    let seen = |name: &str| {
        let entry = find(&entries, name);
        let code = entry.value_type.map(|value_type| value_type.code());
        (entry.value.clone().unwrap(), entry.source.code(), code.unwrap())
    };
    assert_eq!(entries.len(), 38 - 1, "all but the internal one");
    assert!(entries.is_sorted_by_key(|entry| entry.name.clone()));
    assert!(
        entries
            .iter()
            .all(|entry| !entry.read_only && !entry.sensitive && !entry.documentation.is_empty())
    );
    assert_eq!(seen("cleanup.policy"), ("compact".to_owned(), 1, 7));
    assert_eq!(seen("segment.ms"), ("123456".to_owned(), 1, 5));
    assert_eq!(seen("min.insync.replicas"), ("1".to_owned(), 3, 3));
    assert_eq!(seen("min.cleanable.dirty.ratio"), ("0.5".to_owned(), 5, 6));
    assert_eq!(
        seen("leader.replication.throttled.replicas"),
        (String::new(), 5, 7)
    );
    assert_eq!(seen("message.timestamp.type"), ("CreateTime".to_owned(), 5, 2));
}

#[test]
fn synonyms_go_from_the_topic_down_to_the_default_and_leave_out_what_is_not_set() {
    let overrides = [("retention.ms", "5000"), ("min.insync.replicas", "1")];
    let entries = topic(&overrides, &[("min.insync.replicas", "1")], &bare());
    assert_eq!(
        said(&entries, "retention.ms"),
        owned(&[("retention.ms", "5000", 1)])
    );
    assert_eq!(
        said(&entries, "min.insync.replicas"),
        owned(&[
            ("min.insync.replicas", "1", 1),
            ("min.insync.replicas", "1", 3),
            ("min.insync.replicas", "1", 5)
        ])
    );
    assert_eq!(said(&entries, "segment.ms"), owned(&[]));
    assert_eq!(said(&entries, "flush.ms"), owned(&[]));
    assert_eq!(said(&entries, "segment.jitter.ms"), owned(&[]));
    assert_eq!(said(&entries, "remote.storage.enable"), owned(&[]));
    assert_eq!(
        said(&entries, "cleanup.policy"),
        owned(&[("log.cleanup.policy", "delete", 5)])
    );
    assert_eq!(
        said(&entries, "max.compaction.lag.ms"),
        owned(&[("log.cleaner.max.compaction.lag.ms", "9223372036854775807", 5)])
    );
}

#[test]
fn overrides_of_one_broker_come_before_those_of_all() {
    let (own, all) = (
        map(&[("log.index.interval.bytes", "6000")]),
        map(&[("log.index.interval.bytes", "5000")]),
    );
    let node = bare();
    let entries = describe_broker(&node, &own, &all);
    let expected = [
        ("log.index.interval.bytes", "6000", 2),
        ("log.index.interval.bytes", "5000", 3),
        ("log.index.interval.bytes", "4096", 5),
    ];
    assert_eq!(said(&entries, "log.index.interval.bytes"), owned(&expected));
    let topics = describe_topic(&Layers {
        topic: &(),
        node_dynamic: &own,
        cluster: &all,
        node: &node,
    });
    assert_eq!(said(&topics, "index.interval.bytes"), owned(&expected));
    assert_eq!(
        find(&topics, "index.interval.bytes").value.as_deref(),
        Some("6000")
    );
    assert_eq!(
        said(&describe_cluster_default(&all), "log.index.interval.bytes"),
        owned(&expected[1..2])
    );
}

#[test]
fn hours_of_the_file_decide_the_value_though_no_synonym_says_so() {
    let node = broker(&[("log.retention.hours", "2")]).unwrap();
    let entries = topic(&[], &[], &node);
    let retention = find(&entries, "retention.ms");
    assert_eq!(
        (retention.value.as_deref(), retention.source.code()),
        (Some("7200000"), 5)
    );
}

#[test]
fn values_are_shown_as_understood_and_kept_as_written() {
    let entries = topic(
        &[("retention.ms", " 5000 "), ("preallocate", "FALSE")],
        &[],
        &bare(),
    );
    let retention = find(&entries, "retention.ms");
    assert_eq!(
        (retention.value.as_deref(), retention.written.as_deref()),
        (Some("5000"), Some(" 5000 "))
    );
    let preallocate = find(&entries, "preallocate");
    assert_eq!(
        (preallocate.value.as_deref(), preallocate.written.as_deref()),
        (Some("false"), Some("FALSE"))
    );
}

#[test]
fn a_broker_tells_its_configuration_as_kafka_does() {
    let node = broker(&[("auto.create.topics.enable", "true"), ("num.partitions", "1")]).unwrap();
    let entries = describe_broker(&node, &(), &());
    let told = |name: &str| {
        let entry = find(&entries, name);
        let code = entry.value_type.map(|value_type| value_type.code()).unwrap();
        (
            entry.value.clone(),
            entry.source.code(),
            code,
            entry.read_only,
            entry.sensitive,
            said(&entries, name),
        )
    };
    let text = |value: &str| Some(value.to_owned());
    let expected = [
        ("message.max.bytes", text("1048588"), 5, 3, false, false),
        ("log.retention.hours", text("168"), 5, 3, true, false),
        ("ssl.cipher.suites", text(""), 5, 7, false, false),
        (
            "log.cleaner.io.max.bytes.per.second",
            text("1.7976931348623157E308"),
            5,
            6,
            false,
            false,
        ),
        (
            "unclean.leader.election.enable",
            text("false"),
            5,
            1,
            false,
            false,
        ),
    ];
    for (name, value, source, code, read_only, sensitive) in expected {
        let synonyms = owned(&[(name, value.as_deref().unwrap(), 5)]);
        assert_eq!(told(name), (value, source, code, read_only, sensitive, synonyms));
    }
    assert_eq!(
        told("num.partitions"),
        (
            text("1"),
            4,
            3,
            true,
            false,
            owned(&[("num.partitions", "1", 4), ("num.partitions", "1", 5)])
        )
    );
    assert_eq!(told("log.retention.ms"), (None, 5, 5, false, false, vec![]));
    assert_eq!(told("sasl.jaas.config"), (None, 5, 9, false, true, vec![]));
    assert_eq!(told("node.id").0, text("7"));
    assert!(
        !entries
            .iter()
            .any(|entry| entry.name == "follower.replication.throttled.rate")
    );
    assert!(
        !entries
            .iter()
            .any(|entry| entry.name == "log.initial.task.delay.ms")
    );
}

#[test]
fn an_override_that_no_catalogue_knows_is_a_secret_of_no_type() {
    let all = map(&[("nonsense", "1"), ("follower.replication.throttled.rate", "5")]);
    let node = bare();
    let entries = describe_broker(&node, &(), &all);
    let strange = find(&entries, "nonsense");
    assert_eq!(
        (
            strange.value.as_deref(),
            strange.value_type,
            strange.sensitive,
            strange.read_only
        ),
        (None, None, true, true)
    );
    assert_eq!(
        find(&entries, "follower.replication.throttled.rate")
            .value
            .as_deref(),
        Some("5")
    );
}

#[test]
fn election_timeouts_are_described_with_the_defaults_that_hold() {
    let node = NodeConfig::bare(Role::Controller, NodeId(1));
    let described = describe_broker(&node, &(), &());
    for (key, wanted) in [
        ("controller.quorum.election.timeout.ms", "150"),
        ("controller.quorum.fetch.timeout.ms", "300"),
    ] {
        let found = described.iter().find(|config| config.name == key).unwrap();
        assert_eq!(found.value.as_deref(), Some(wanted));
        assert_eq!(found.source, Source::Default);
    }
}
