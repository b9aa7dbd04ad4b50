//! The internal topic of the group coordinator, as it is made when it is first needed (G-1).
//!
//! Must not: know who asks for it.

use broker_core::group::OFFSETS;
use metadata::config::NodeConfig;
use millrace_proto::v1;

/// How it is to be made.
pub fn offsets_topic(config: &NodeConfig) -> v1::NewTopic {
    let number = |key: &str| i32::try_from(config.integer(key)).unwrap_or(i32::MAX);
    let entry = |key: &str, value: String| v1::ConfigEntry {
        key: key.to_owned(),
        value: Some(value),
    };
    v1::NewTopic {
        name: OFFSETS.to_owned(),
        partitions: Some(number("offsets.topic.num.partitions")),
        replication_factor: Some(number("offsets.topic.replication.factor")),
        configs: vec![
            entry("cleanup.policy", "compact".to_owned()),
            entry("compression.type", "producer".to_owned()),
            entry(
                "segment.bytes",
                config.integer("offsets.topic.segment.bytes").to_string(),
            ),
        ],
        ..Default::default()
    }
}
