//! How the nodes of a plan are configured.

use std::sync::Arc;
use std::time::Duration;

use broker_core::group::{OFFSETS, Settings};
use broker_core::lifecycle::Timing;
use controller_core::command::{CreateTopics, NewTopic};
use controller_core::settings;
use metadata::config::{NodeConfig, NodeId, Role, TopicDefaults};
use metadata::ids::{BrokerId, ControllerId};
use metadata::image::Image;
use metadata::record::ConfigResource;
use partition_log::LogConfig;

use crate::broker::{CLUSTER, Config, GroupConfig};
use crate::plan::Plan;
use crate::quorum::{ELECTION_MAX, ELECTION_MIN};

/// `metadata.max.idle.interval.ms`.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);

/// The id of a controller by its place.
#[must_use]
pub fn controller_number(place: usize) -> i32 {
    i32::try_from(place).expect("few") + 1
}

/// The id of a broker by its place.
#[must_use]
pub fn broker_number(place: usize) -> i32 {
    i32::try_from(place).expect("few") + 101
}

/// How many replicas must be in sync for what is acknowledged.
pub const MIN_IN_SYNC: &str = "min.insync.replicas";
/// After how many records a log is synced.
pub const FLUSH_MESSAGES: &str = "flush.messages";
/// After how long a segment is followed by another one.
pub const SEGMENT_MS: &str = "segment.ms";

/// What is configured for the logs of a topic: what every broker of the run has, apart from what was altered since.
#[must_use]
pub fn log_config(broker: &LogConfig, image: &Image, topic: &str) -> LogConfig {
    let altered = image.configs.get(&ConfigResource::Topic(topic.to_owned()));
    let number = |key: &str| altered?.get(key)?.trim().parse().ok();
    LogConfig {
        flush_messages: number(FLUSH_MESSAGES).unwrap_or(broker.flush_messages),
        segment_ms: number(SEGMENT_MS).unwrap_or(broker.segment_ms),
        ..broker.clone()
    }
}

/// Whether a topic that was there before has another `min.insync.replicas`.
#[must_use]
pub fn min_in_sync_altered(before: &Image, after: &Image) -> bool {
    let held = |image: &Image, resource: &ConfigResource| {
        let values = image.configs.get(resource)?;
        values.get(MIN_IN_SYNC).cloned()
    };
    let mut resources = before.configs.keys();
    resources.any(|resource| {
        let (was, is) = (held(before, resource), held(after, resource));
        was.is_some() && is.is_some() && was != is
    })
}

/// Leadership goes back to preferred replicas several times in a run.
const REBALANCE_INTERVAL: Duration = Duration::from_secs(5);

/// The settings of every controller.
#[must_use]
pub fn controller_settings(plan: &Plan) -> settings::Settings {
    settings::Settings {
        cluster_id: CLUSTER.to_owned(),
        session_timeout: plan.session_timeout,
        disconnect_grace: Duration::from_millis(1000),
        idle_interval: Some(IDLE_INTERVAL),
        quorum_lease: ELECTION_MIN,
        demotion_after: ELECTION_MAX,
        rebalance_interval: Some(REBALANCE_INTERVAL),
        topics: TopicDefaults {
            partitions: 1,
            replication_factor: 1,
            auto_create: false,
            deletable: true,
        },
        node: Arc::new(NodeConfig::bare(Role::Controller, NodeId(1))),
    }
}

/// The configuration of a broker.
#[must_use]
pub fn broker_config(plan: &Plan, id: i32) -> Config {
    let controllers = (0..plan.topology.controllers).map(|place| ControllerId(controller_number(place)));
    Config {
        me: BrokerId(id),
        controllers: controllers.collect(),
        lag_max: plan.lag_max,
        timing: Timing {
            heartbeat_interval: plan.heartbeat_interval,
            session_timeout: plan.session_timeout,
            registration_timeout: Duration::from_secs(60),
            directory_failure_timeout: Duration::from_secs(30),
        },
        idle_interval: IDLE_INTERVAL,
        log: LogConfig {
            segment_bytes: plan.segment_bytes,
            index_interval_bytes: 256,
            flush_messages: if plan.flush_every_batch { 1 } else { u64::MAX },
            retention_ms: None,
            timestamp_after_max_ms: u64::MAX >> 1,
            ..LogConfig::default()
        },
        checkpoint_interval: plan.checkpoint_interval,
        write_max: Duration::from_micros(500),
        groups: plan.groups.as_ref().map(|groups| GroupConfig {
            settings: Settings {
                initial_rebalance_delay: Duration::from_millis(300),
                session_timeout_ms_min: 100,
                session_timeout_ms_max: 60_000,
                members_max: 100,
                offset_metadata_units_max: 4096,
            },
            patience: groups.patience,
            seed: plan.seed,
        }),
    }
}

/// The place of the topic of the group coordinators, behind those of the plan's own topics.
#[must_use]
pub fn offsets_place(plan: &Plan) -> Option<usize> {
    plan.groups.as_ref().map(|_| plan.topics.len())
}

/// The name of the topic at this place.
#[must_use]
pub fn topic_name(plan: &Plan, place: usize) -> String {
    if place < plan.topics.len() {
        format!("topic-{place}")
    } else {
        OFFSETS.to_owned()
    }
}

/// The request for a topic of a plan.
#[must_use]
pub fn topic(plan: &Plan, place: usize, entropy: u128) -> CreateTopics {
    let number = |count: usize| Some(i32::try_from(count).expect("few"));
    let of_groups = plan.groups.as_ref().map(|groups| groups.partitions);
    let partitions = plan.topics.get(place).copied().or(of_groups);
    CreateTopics {
        topics: vec![NewTopic {
            name: topic_name(plan, place),
            partitions: partitions.and_then(number),
            replication_factor: number(plan.replication),
            configs: vec![(MIN_IN_SYNC.to_owned(), Some(plan.min_in_sync.to_string()))],
            ..NewTopic::default()
        }],
        validate_only: false,
        timeout_ms: 5000,
        entropy,
    }
}
