//! Which topic configurations are taken, and what they mean.

use std::collections::BTreeMap;
use std::time::Duration;

use super::broker;
use crate::config::{
    CleanupPolicy, Compression, Layers, NodeConfig, NodeId, Role, Scope, State, TimestampType,
    TopicConfigRefusal, TopicSettings, catalogue, validate_topic,
};

fn bare() -> NodeConfig {
    NodeConfig::bare(Role::Controller, NodeId(1))
}

fn given(pairs: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned())))
        .collect()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn settings(topic: &[(&str, &str)], cluster: &[(&str, &str)], node: &NodeConfig) -> TopicSettings {
    let (topic, cluster) = (map(topic), map(cluster));
    TopicSettings::effective(&Layers {
        topic: &topic,
        node_dynamic: &(),
        cluster: &cluster,
        node,
    })
}

// The values that Apache Kafka 4.4.0 was seen to take and to refuse.
#[test]
fn values_are_taken_and_refused_as_kafka_does() {
    let taken = [
        ("retention.ms", "-1"),
        ("retention.ms", " 5 "),
        ("cleanup.policy", ""),
        ("cleanup.policy", "compact,delete"),
        ("cleanup.policy", "delete,delete"),
        ("segment.bytes", "1048576"),
        ("max.message.bytes", "0"),
        ("min.insync.replicas", "2"),
        ("compression.type", "uncompressed"),
        ("compression.gzip.level", "-1"),
        ("unclean.leader.election.enable", "TRUE"),
        ("leader.replication.throttled.replicas", "*"),
        ("follower.replication.throttled.replicas", "0:1,1:2"),
    ];
    for pair in taken {
        assert!(validate_topic(&given(&[pair]), &bare()).is_ok(), "{pair:?}");
    }
    let refused = [
        ("retention.ms", ""),
        ("retention.ms", "1h"),
        ("retention.ms", "-2"),
        ("cleanup.policy", "COMPACT"),
        ("cleanup.policy", "foo"),
        ("segment.bytes", "1"),
        ("segment.bytes", "2147483648"),
        ("max.message.bytes", "-1"),
        ("min.insync.replicas", "0"),
        ("compression.type", "lz5"),
        ("compression.gzip.level", "0"),
        ("compression.zstd.level", "23"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("unclean.leader.election.enable", "yes"),
        ("message.timestamp.type", "logappendtime"),
        ("leader.replication.throttled.replicas", "x"),
        ("remote.storage.enable", "true"),
        ("retention.ms", "9223372036854775808"),
        ("index.interval.bytes", "-1"),
        ("segment.ms", "0"),
        ("flush.messages", "0"),
    ];
    for pair in refused {
        let refusal = validate_topic(&given(&[pair]), &bare()).unwrap_err();
        assert!(
            matches!(refusal, TopicConfigRefusal::BadValue(_)),
            "{pair:?}: {refusal:?}"
        );
    }
    for unknown in [
        "nonsense",
        "",
        "message.format.version",
        "message.timestamp.difference.max.ms",
        "RETENTION.MS",
    ] {
        let refusal = validate_topic(&given(&[(unknown, "1")]), &bare()).unwrap_err();
        assert_eq!(refusal, TopicConfigRefusal::UnknownKey(unknown.to_owned()));
    }
}

#[test]
fn a_key_without_a_value_refuses_the_topic_before_anything_else() {
    let configs = [
        ("nonsense".to_owned(), Some("1".to_owned())),
        ("retention.ms".to_owned(), None),
    ];
    let refusal = validate_topic(&configs, &bare()).unwrap_err();
    assert_eq!(
        refusal,
        TopicConfigRefusal::WithoutValue(vec!["retention.ms".to_owned()])
    );
    assert_eq!(
        refusal.to_string(),
        "a topic configuration needs a value: retention.ms"
    );
}

#[test]
fn of_a_key_given_twice_the_last_value_counts_and_stays_as_it_was_written() {
    let taken = validate_topic(
        &given(&[("retention.ms", "x"), ("retention.ms", " 2000 ")]),
        &bare(),
    )
    .unwrap();
    assert_eq!(taken, map(&[("retention.ms", " 2000 ")]));
}

#[test]
fn lags_of_compaction_must_agree_also_with_the_file_of_the_node() {
    let together = given(&[("min.compaction.lag.ms", "100"), ("max.compaction.lag.ms", "10")]);
    let refusal = validate_topic(&together, &bare()).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "min.compaction.lag.ms=100: must not be more than max.compaction.lag.ms, which is 10"
    );
    let node = broker(&[("log.cleaner.max.compaction.lag.ms", "50")]).unwrap();
    assert!(validate_topic(&given(&[("min.compaction.lag.ms", "100")]), &node).is_err());
    let kafka_takes = given(&[("retention.ms", "100"), ("local.retention.ms", "200")]);
    assert!(validate_topic(&kafka_takes, &bare()).is_ok());
}

#[test]
fn every_topic_key_that_protects_is_refused() {
    let protecting = catalogue()
        .keys(Scope::Topic)
        .filter(|key| key.state == State::Protection);
    assert_eq!(
        protecting.map(|key| key.name).collect::<Vec<_>>(),
        ["remote.storage.enable"]
    );
    assert!(validate_topic(&given(&[("remote.storage.enable", "false")]), &bare()).is_ok());
}

#[test]
fn settings_without_overrides_are_the_defaults() {
    let settings = settings(&[], &[], &bare());
    assert_eq!(settings.min_in_sync_replicas, 1);
    assert_eq!(settings.batch_bytes_max, 1_048_588);
    assert_eq!(settings.segment_bytes, 1 << 30);
    assert_eq!(settings.segment_age, Duration::from_hours(168));
    assert_eq!(settings.retention, Some(Duration::from_hours(168)));
    assert_eq!(settings.retention_bytes, None);
    assert_eq!((settings.flush_records, settings.flush_interval), (None, None));
    assert_eq!(settings.compression, Compression::Producer);
    assert_eq!(settings.timestamp_type, TimestampType::CreateTime);
    assert_eq!(
        settings.cleanup,
        CleanupPolicy {
            delete: true,
            compact: false
        }
    );
    assert!(!settings.unclean_election);
}

#[test]
fn the_nearest_level_wins_and_hours_become_milliseconds() {
    let node = broker(&[
        ("log.retention.hours", "2"),
        ("min.insync.replicas", "3"),
        ("log.roll.hours", "1"),
    ])
    .unwrap();
    let from_file = settings(&[], &[], &node);
    assert_eq!(from_file.retention, Some(Duration::from_hours(2)));
    assert_eq!(from_file.segment_age, Duration::from_hours(1));
    assert_eq!(from_file.min_in_sync_replicas, 3);

    let from_cluster = settings(
        &[],
        &[("log.retention.ms", "5000"), ("min.insync.replicas", "2")],
        &node,
    );
    assert_eq!(from_cluster.retention, Some(Duration::from_secs(5)));
    assert_eq!(from_cluster.min_in_sync_replicas, 2);

    let from_topic = settings(
        &[("retention.ms", "-1"), ("min.insync.replicas", "1")],
        &[("min.insync.replicas", "2")],
        &node,
    );
    assert_eq!(from_topic.retention, None);
    assert_eq!(from_topic.min_in_sync_replicas, 1);
}

#[test]
fn a_finer_unit_wins_and_a_negative_one_is_no_limit() {
    let node = broker(&[("log.retention.hours", "2"), ("log.retention.minutes", "3")]).unwrap();
    assert_eq!(settings(&[], &[], &node).retention, Some(Duration::from_mins(3)));
    let node = broker(&[("log.retention.ms", "-2")]).unwrap();
    assert_eq!(settings(&[], &[], &node).retention, None);
    let node = broker(&[("log.retention.hours", "-1")]).unwrap();
    assert_eq!(settings(&[], &[], &node).retention, None);
}

#[test]
fn a_stored_override_that_nobody_understands_is_passed_over() {
    let settings = settings(&[("segment.bytes", "x")], &[("log.segment.bytes", "y")], &bare());
    assert_eq!(settings.segment_bytes, 1 << 30);
}

#[test]
fn a_codec_carries_its_level() {
    let with = |pairs: &[(&str, &str)]| settings(pairs, &[], &bare()).compression;
    assert_eq!(
        with(&[("compression.type", "gzip")]),
        Compression::Gzip { level: None }
    );
    assert_eq!(
        with(&[("compression.type", "gzip"), ("compression.gzip.level", "9")]),
        Compression::Gzip { level: Some(9) }
    );
    assert_eq!(
        with(&[("compression.type", "lz4")]),
        Compression::Lz4 { level: 9 }
    );
    assert_eq!(
        with(&[("compression.type", "zstd"), ("compression.zstd.level", "-5")]),
        Compression::Zstd { level: -5 }
    );
}

#[test]
fn a_tiny_segment_is_for_tests_only_and_wins() {
    let tiny = settings(
        &[("internal.segment.bytes", "2000"), ("segment.bytes", "1048576")],
        &[],
        &bare(),
    );
    assert_eq!(tiny.segment_bytes, 2000);
}
