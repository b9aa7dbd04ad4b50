//! OffsetForLeaderEpoch: where a leadership ended in this log (L-51, L-53).
//!
//! Must not: answer for a log that this broker does not lead.

use broker_core::fetch::{self, LeaderHint};
use broker_core::replica::Serving;
use metadata::ids::{LeaderEpoch, PartitionId, PartitionIndex};
use wire::ErrorCode;
use wire::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
};

use super::fetch_read::epoch_end;
use super::{Call, Refusable, topics};
use crate::errors;

/// Answers the request; a partition that stands there twice is answered twice.
pub fn answer(call: &Call, request: &OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse {
    let topics = request
        .topics
        .iter()
        .map(|topic| OffsetForLeaderTopicResult {
            topic: topic.topic.clone(),
            partitions: topic
                .partitions
                .iter()
                .map(|partition| {
                    let found = find(call, &topic.topic, partition);
                    found.unwrap_or_else(|code| failed(partition.partition, code))
                })
                .collect(),
        })
        .collect();
    OffsetForLeaderEpochResponse {
        topics,
        ..Default::default()
    }
}

fn find(call: &Call, topic: &str, partition: &OffsetForLeaderPartition) -> Result<EpochEndOffset, ErrorCode> {
    let topic = call
        .image
        .topic_named(topic)
        .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let state = topics::partition(topic, partition.partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let id = PartitionId {
        topic: topic.id,
        index: PartitionIndex(partition.partition),
    };
    let hosted = call
        .node
        .partitions
        .find(id, state, call.node.id)
        .map_err(errors::of_absence)?;
    let seen = hosted.seen.load();
    if seen.view.serving == Serving::Offline {
        return Err(ErrorCode::KAFKA_STORAGE_ERROR);
    }
    let hint = LeaderHint {
        leader: seen.view.leader,
        epoch: seen.view.leader_epoch,
    };
    let claimed =
        (partition.current_leader_epoch != -1).then_some(LeaderEpoch(partition.current_leader_epoch));
    fetch::check_epoch(claimed, hint).map_err(|refusal| errors::of_fetch(&refusal))?;
    if !matches!(seen.view.serving, Serving::Leader { .. }) {
        return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    }
    // −1 is no epoch, and has no end; what is below counts as older than all (L-51).
    let asked = (partition.leader_epoch != -1).then_some(LeaderEpoch(partition.leader_epoch));
    let end = asked.and_then(|epoch| epoch_end(&hosted, epoch));
    Ok(EpochEndOffset {
        partition: partition.partition,
        leader_epoch: end.map_or(-1, |end| end.epoch.0),
        end_offset: end.map_or(-1, |end| end.end.0),
        ..Default::default()
    })
}

fn failed(partition: i32, error_code: ErrorCode) -> EpochEndOffset {
    EpochEndOffset {
        partition,
        error_code,
        ..Default::default()
    }
}

impl Refusable for OffsetForLeaderEpochRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<OffsetForLeaderEpochResponse> {
        let topics = self
            .topics
            .iter()
            .map(|topic| OffsetForLeaderTopicResult {
                topic: topic.topic.clone(),
                partitions: topic
                    .partitions
                    .iter()
                    .map(|partition| failed(partition.partition, code))
                    .collect(),
            })
            .collect();
        Some(OffsetForLeaderEpochResponse {
            topics,
            ..Default::default()
        })
    }
}
