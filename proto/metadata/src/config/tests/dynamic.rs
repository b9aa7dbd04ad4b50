//! What brokers can be told while they run.

use crate::config::{Problem, validate_override};
use crate::ids::BrokerId;
use crate::record::ConfigResource;

const ONE: ConfigResource = ConfigResource::Broker(BrokerId(1));
const ALL: ConfigResource = ConfigResource::ClusterDefault;

#[test]
fn keys_that_kafka_takes_up_at_run_time_can_be_set_for_one_and_for_all() {
    for (key, value) in [
        ("message.max.bytes", "2000000"),
        ("log.retention.ms", "-2"),
        ("num.io.threads", "9"),
        ("max.connections", "1"),
    ] {
        assert_eq!(validate_override(&ONE, key, value), Ok(()), "{key}");
        assert_eq!(validate_override(&ALL, key, value), Ok(()), "{key}");
    }
}

#[test]
fn a_key_that_no_catalogue_knows_is_kept() {
    assert_eq!(validate_override(&ALL, "nonsense", "1"), Ok(()));
    assert_eq!(validate_override(&ONE, "retention.ms", "1"), Ok(()));
}

#[test]
fn what_is_read_at_the_start_or_is_no_value_of_the_key_is_refused() {
    for (key, value, problem) in [
        ("log.dirs", "/x", Problem::OutOfRange),
        ("node.id", "9", Problem::OutOfRange),
        ("num.partitions", "2", Problem::OutOfRange),
        ("listeners", "PLAINTEXT://127.0.0.1:1", Problem::OutOfRange),
        ("broker.session.timeout.ms", "5000", Problem::OutOfRange),
        ("num.io.threads", "x", Problem::WrongType),
        ("num.io.threads", "0", Problem::OutOfRange),
        ("max.connections", "0", Problem::OutOfRange),
        ("compression.type", "lz5", Problem::OutOfRange),
        ("log.cleanup.policy", "foo", Problem::OutOfRange),
        (
            "max.connections.per.ip.overrides",
            "127.0.0.1:5",
            Problem::Protection,
        ),
    ] {
        for resource in [&ONE, &ALL] {
            let refused = validate_override(resource, key, value).unwrap_err();
            assert_eq!((refused.key.as_str(), refused.problem), (key, problem));
        }
    }
}

#[test]
fn what_only_one_broker_may_have_is_refused_for_all() {
    assert!(validate_override(&ALL, "ssl.keystore.location", "here").is_err());
}
