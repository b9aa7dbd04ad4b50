//! DescribeQuorum: what the active controller knows of the voters and of those who follow (R5.10, R5.11).
//!
//! Must not: answer from a controller that is not active; it knows nothing of the others.

use millrace_proto::v1;
use wire::messages::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, Listener, Node, ReplicaState, ResponsePartitionData,
    ResponseTopicData,
};
use wire::{ErrorCode, Uuid};

use super::{Call, Refusable};
use crate::controllers::status;
use crate::errors;

/// The name that Kafka gives to the metadata log.
const METADATA_TOPIC: &str = "__cluster_metadata";
/// Not known.
const UNKNOWN: i64 = -1;

/// Answers the request.
pub async fn answer(call: Call, request: DescribeQuorumRequest) -> DescribeQuorumResponse {
    if request.topics.iter().all(|topic| topic.partitions.is_empty()) {
        return echo(&request, ErrorCode::NONE);
    }
    if !is_the_log(&request) {
        return echo(&request, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    }
    let Ok(status) = status::of_the_active(&call.node.controllers).await else {
        return DescribeQuorumResponse {
            error_code: errors::OUT_OF_TIME,
            ..echo(&request, errors::OUT_OF_TIME)
        };
    };
    let now_ms = call.node.clock.wall().0;
    let listener = call.node.settings.controller_listener.as_str();
    DescribeQuorumResponse {
        topics: vec![ResponseTopicData {
            topic_name: METADATA_TOPIC.to_owned(),
            partitions: vec![partition(&status, now_ms)],
        }],
        nodes: status.voters.iter().map(|voter| node(voter, listener)).collect(),
        ..Default::default()
    }
}

/// Nothing but its one partition, once.
fn is_the_log(request: &DescribeQuorumRequest) -> bool {
    let [topic] = request.topics.as_slice() else {
        return false;
    };
    let [partition] = topic.partitions.as_slice() else {
        return false;
    };
    topic.topic_name == METADATA_TOPIC && partition.partition_index == 0
}

fn partition(status: &v1::StatusReply, now_ms: i64) -> ResponsePartitionData {
    // The controller tells how long ago, Kafka when.
    let at = |ago_ms: Option<i64>| ago_ms.map_or(UNKNOWN, |ago| now_ms.saturating_sub(ago));
    let directory = |id: &str| id.parse().unwrap_or(Uuid::ZERO);
    let voters = status.voters.iter().map(|voter| ReplicaState {
        replica_id: voter.id,
        replica_directory_id: directory(&voter.directory),
        log_end_offset: voter.log_end.unwrap_or(UNKNOWN),
        last_fetch_timestamp: at(voter.last_fetch_ms),
        last_caught_up_timestamp: at(voter.last_caught_up_ms),
    });
    let observers = status.observers.iter().map(|observer| ReplicaState {
        replica_id: observer.id,
        replica_directory_id: directory(&observer.directory),
        log_end_offset: observer.log_end,
        last_fetch_timestamp: at(Some(observer.last_fetch_ms)),
        last_caught_up_timestamp: at(observer.last_caught_up_ms),
    });
    ResponsePartitionData {
        leader_id: status.id,
        leader_epoch: i32::try_from(status.term).unwrap_or(i32::MAX),
        high_watermark: status.committed_end,
        current_voters: voters.collect(),
        observers: observers.collect(),
        ..Default::default()
    }
}

fn node(voter: &v1::VoterStatus, listener: &str) -> Node {
    let (host, port) = voter.address.rsplit_once(':').unwrap_or((&voter.address, ""));
    Node {
        node_id: voter.id,
        listeners: vec![Listener {
            name: listener.to_owned(),
            host: host.trim_matches(['[', ']']).to_owned(),
            port: port.parse().unwrap_or(0),
        }],
    }
}

/// Everything that was asked for, with this code.
fn echo(request: &DescribeQuorumRequest, code: ErrorCode) -> DescribeQuorumResponse {
    let is_unknown = code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    let message = is_unknown.then(|| "only the metadata log has a quorum".to_owned());
    let topics = request.topics.iter().map(|topic| ResponseTopicData {
        topic_name: topic.topic_name.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|partition| ResponsePartitionData {
                partition_index: partition.partition_index,
                error_code: code,
                error_message: message.clone(),
                ..Default::default()
            })
            .collect(),
    });
    DescribeQuorumResponse {
        topics: topics.collect(),
        ..Default::default()
    }
}

impl Refusable for DescribeQuorumRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<DescribeQuorumResponse> {
        Some(DescribeQuorumResponse {
            error_code: code,
            ..echo(self, code)
        })
    }
}
