//! The requests that a follower sends, and what their answers say.
//!
//! Must not: send.

use std::collections::BTreeMap;

use broker_core::fetcher::{Failure, Saying};
use broker_core::offsets::Offset;
use broker_core::session::SessionId;
use metadata::ids::{BrokerId, LeaderEpoch, PartitionId, TopicId};
use partition_log::TopicPartition;
use wire::messages::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic, ReplicaState,
};
use wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};
use wire::{ApiVersion, ErrorCode};

use crate::node::Node;
use crate::seam;

/// Fetch with topic ids, replica state and the follower's directory (F-28).
pub const FETCH_VERSION: ApiVersion = ApiVersion(18);
/// ListOffsets with leader epochs (F-28).
pub const LIST_OFFSETS_VERSION: ApiVersion = ApiVersion(9);
/// Asks for the end of a log.
pub const LATEST: i64 = -1;
/// Asks for the start of a log.
pub const EARLIEST: i64 = -2;

/// A fetch that says this.
pub fn fetch(node: &Node, saying: &Saying) -> FetchRequest {
    let settings = &node.settings.replica_fetch;
    let signed = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    let mut topics: Vec<FetchTopic> = Vec::new();
    let mut places: BTreeMap<TopicId, usize> = BTreeMap::new();
    for (partition, fetch) in &saying.fetches {
        let place = *places.entry(partition.topic).or_insert_with(|| {
            topics.push(FetchTopic {
                topic_id: seam::topic_to_wire(partition.topic),
                ..Default::default()
            });
            topics.len() - 1
        });
        topics[place].partitions.push(FetchPartition {
            partition: partition.index.0,
            current_leader_epoch: fetch.leader_epoch.0,
            fetch_offset: fetch.offset.0,
            last_fetched_epoch: fetch.last_fetched_epoch.map_or(-1, |epoch| epoch.0),
            log_start_offset: fetch.log_start.0.0,
            partition_max_bytes: signed(settings.partition_bytes_max),
            ..Default::default()
        });
    }
    FetchRequest {
        replica_state: ReplicaState {
            replica_id: node.id.0,
            replica_epoch: node.epoch().map_or(-1, |epoch| epoch.0),
        },
        max_wait_ms: i32::try_from(settings.wait_max.as_millis()).unwrap_or(i32::MAX),
        min_bytes: signed(settings.bytes_min),
        max_bytes: signed(settings.response_bytes_max),
        // A full request with epoch 0 begins a session (F-18).
        session_id: saying.session.map_or(0, |(session, _)| session.0),
        session_epoch: saying.session.map_or(0, |(_, epoch)| epoch.0),
        topics,
        forgotten_topics_data: forgotten(&saying.forgotten),
        ..Default::default()
    }
}

fn forgotten(partitions: &[PartitionId]) -> Vec<ForgottenTopic> {
    let mut topics: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        topics.entry(partition.topic).or_default().push(partition.index.0);
    }
    let topic = |(id, partitions)| ForgottenTopic {
        topic_id: seam::topic_to_wire(id),
        partitions,
        ..Default::default()
    };
    topics.into_iter().map(topic).collect()
}

/// The session that an answer names.
pub fn session_of(response: &FetchResponse) -> Option<SessionId> {
    (response.session_id != 0).then_some(SessionId(response.session_id))
}

/// A question for one end of the leader's log.
pub fn list_offsets(
    me: BrokerId,
    name: &TopicPartition,
    leader_epoch: LeaderEpoch,
    timestamp: i64,
) -> ListOffsetsRequest {
    let partition = ListOffsetsPartition {
        partition_index: name.partition,
        current_leader_epoch: leader_epoch.0,
        timestamp,
    };
    ListOffsetsRequest {
        replica_id: me.0,
        topics: vec![ListOffsetsTopic {
            name: name.topic.clone(),
            partitions: vec![partition],
        }],
        ..Default::default()
    }
}

/// The one offset that such a question is answered with.
pub fn offset_of(response: &ListOffsetsResponse) -> Result<Offset, Failure> {
    let partition = response.topics.first().and_then(|topic| topic.partitions.first());
    match partition {
        Some(partition) if partition.error_code == ErrorCode::NONE && 0 <= partition.offset => {
            Ok(Offset(partition.offset))
        }
        Some(partition) if partition.error_code == ErrorCode::FENCED_LEADER_EPOCH => {
            Err(Failure::FencedLeaderEpoch)
        }
        _ => Err(Failure::Passing),
    }
}
