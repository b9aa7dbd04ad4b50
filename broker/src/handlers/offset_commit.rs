//! OffsetCommit: partitions that do not exist are refused here (G-42), the rest is the coordinator's (G-43 to G-48).
//!
//! Must not: ask the coordinator when nothing is left.

use std::collections::HashMap;
use std::time::Duration;

use broker_core::group::{Commit, CommittedOffset, Generation, Refusal, Reply, Request};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::{ErrorCode, Uuid};

use super::{Call, Refusable, groups, topics};
use crate::errors;

/// First version that names topics by id.
const WITH_IDS: i16 = 10;
/// First version that says that a group is not there.
const KNOWS_MISSING_GROUPS: i16 = 9;

/// Answers the request.
pub async fn answer(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse {
    let mut answered = Answered::default();
    let mut offsets = Vec::new();
    // Where each offset's result goes: which topic of the request, which partition.
    let mut places: Vec<(usize, i32)> = Vec::new();
    for (place, topic) in request.topics.iter().enumerate() {
        for partition in &topic.partitions {
            match known(&call, topic, partition) {
                Ok(offset) => {
                    offsets.push(offset);
                    places.push((place, partition.partition_index));
                }
                Err(code) => answered.push(topic, partition.partition_index, code),
            }
        }
    }
    if !offsets.is_empty() {
        let codes = commit(&call, &request, offsets).await;
        for ((place, index), code) in places.into_iter().zip(codes) {
            answered.push(&request.topics[place], index, code);
        }
    }
    OffsetCommitResponse {
        topics: answered.topics,
        ..Default::default()
    }
}

/// The topics of an answer. Refused partitions come first in each, and topics with any of them first of all (G-42).
#[derive(Default)]
struct Answered<'a> {
    topics: Vec<OffsetCommitResponseTopic>,
    /// A request may name hundreds of thousands: looking each up among those before it would take minutes.
    places: HashMap<(&'a str, Uuid), usize>,
}

impl<'a> Answered<'a> {
    fn push(&mut self, topic: &'a OffsetCommitRequestTopic, partition_index: i32, error_code: ErrorCode) {
        let place = *self
            .places
            .entry((&topic.name, topic.topic_id))
            .or_insert_with(|| {
                self.topics.push(OffsetCommitResponseTopic {
                    name: topic.name.clone(),
                    topic_id: topic.topic_id,
                    partitions: Vec::new(),
                });
                self.topics.len() - 1
            });
        self.topics[place].partitions.push(OffsetCommitResponsePartition {
            partition_index,
            error_code,
        });
    }
}

fn known(
    call: &Call,
    topic: &OffsetCommitRequestTopic,
    partition: &OffsetCommitRequestPartition,
) -> Result<CommittedOffset, ErrorCode> {
    let has_ids = WITH_IDS <= call.version.0;
    let unknown = if has_ids {
        ErrorCode::UNKNOWN_TOPIC_ID
    } else {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    };
    let known = groups::topic(call, &topic.name, topic.topic_id, has_ids).ok_or(unknown)?;
    topics::partition(known, partition.partition_index).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    Ok(CommittedOffset {
        topic: known.name.as_str().into(),
        topic_id: Some(known.id),
        partition: partition.partition_index,
        offset: partition.committed_offset,
        leader_epoch: Some(partition.committed_leader_epoch).filter(|epoch| 0 <= *epoch),
        metadata: partition.committed_metadata.clone().unwrap_or_default(),
    })
}

/// One code for each offset.
async fn commit(call: &Call, request: &OffsetCommitRequest, offsets: Vec<CommittedOffset>) -> Vec<ErrorCode> {
    let count = offsets.len();
    let commit = Commit {
        group: request.group_id.as_str().into(),
        member: request.member_id.as_str().into(),
        instance: request.group_instance_id.as_deref().map(Into::into),
        generation: Generation(request.generation_id_or_member_epoch),
        stranger: if KNOWS_MISSING_GROUPS <= call.version.0 {
            Refusal::GroupNotFound
        } else {
            Refusal::IllegalGeneration
        },
        retention: u64::try_from(request.retention_time_ms)
            .ok()
            .map(Duration::from_millis),
        offsets,
    };
    let all = |code: ErrorCode| vec![code; count];
    match groups::ask(call, &request.group_id, Request::Commit(commit)).await {
        Ok(Reply::Commit(Ok(results))) => results.into_iter().map(groups::code).collect(),
        Ok(Reply::Commit(Err(why))) => all(errors::of_group(why)),
        Ok(_) => all(groups::mismatch()),
        Err(code) => all(code),
    }
}

impl Refusable for OffsetCommitRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<OffsetCommitResponse> {
        let mut answered = Answered::default();
        for topic in &self.topics {
            for partition in &topic.partitions {
                answered.push(topic, partition.partition_index, code);
            }
        }
        Some(OffsetCommitResponse {
            topics: answered.topics,
            ..Default::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_a_topic_stand_together_however_many_topics_there_are() {
        let topic = |n: usize| OffsetCommitRequestTopic {
            name: format!("t{n}"),
            ..Default::default()
        };
        // Looked up one by one they would take minutes.
        let topics: Vec<_> = (0..100_000).chain(0..100_000).map(topic).collect();

        let mut answered = Answered::default();
        for (place, topic) in topics.iter().enumerate() {
            answered.push(topic, i32::from(100_000 <= place), ErrorCode::NONE);
        }

        assert_eq!(answered.topics.len(), 100_000);
        assert!(answered.topics.iter().all(|topic| topic.partitions.len() == 2));
    }
}
