//! DeleteRecords: moves the log start up, here and at every replica that is alive (L-27).
//!
//! Must not: decide how far; the replica does.

use std::collections::BTreeMap;
use std::time::Duration;

use broker_core::time::Moment;
use metadata::ids::{PartitionId, PartitionIndex};
use tokio::sync::oneshot;
use wire::ErrorCode;
use wire::messages::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopicResult,
};

use super::{Call, Refusable, topics};
use crate::errors;
use crate::storage::lane::{Deletion, Event};

/// What the answer says where the low watermark is not known, or nothing was deleted.
const UNKNOWN: i64 = -1;

/// Offsets by topic and partition. One that stands there twice has its last offset, and one answer.
type Asked = BTreeMap<String, BTreeMap<i32, i64>>;

/// Answers the request.
pub async fn answer(call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse {
    let time = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let deadline = call.node.now().after(time);
    let mut begun = Vec::new();
    for (topic, partitions) in asked(&request) {
        for (partition, before) in partitions {
            let work = begin(&call, &topic, partition, before).await;
            begun.push((topic.clone(), partition, work));
        }
    }
    let mut answered: Vec<DeleteRecordsTopicResult> = Vec::new();
    for (topic, partition, work) in begun {
        let result = match work {
            Ok((id, deletion)) => finish(&call, id, deletion, deadline, partition).await,
            Err(code) => failed(partition, code),
        };
        match answered.last_mut().filter(|last| last.name == topic) {
            Some(last) => last.partitions.push(result),
            None => answered.push(DeleteRecordsTopicResult {
                name: topic,
                partitions: vec![result],
            }),
        }
    }
    DeleteRecordsResponse {
        topics: answered,
        ..Default::default()
    }
}

fn asked(request: &DeleteRecordsRequest) -> Asked {
    let mut asked = Asked::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            let offsets = asked.entry(topic.name.clone()).or_default();
            offsets.insert(partition.partition_index, partition.offset);
        }
    }
    asked
}

async fn begin(
    call: &Call,
    topic: &str,
    partition: i32,
    before: i64,
) -> Result<(PartitionId, Deletion), ErrorCode> {
    let known = call
        .image
        .topic_named(topic)
        .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let state = topics::partition(known, partition).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    if topics::is_internal(topic) {
        return Err(ErrorCode::INVALID_TOPIC_EXCEPTION);
    }
    let id = PartitionId {
        topic: known.id,
        index: PartitionIndex(partition),
    };
    let hosted = call
        .node
        .partitions
        .find(id, state, call.node.id)
        .map_err(errors::of_absence)?;
    let (reply, decided) = oneshot::channel();
    hosted.lane.send(Event::DeleteRecords {
        partition: id,
        before,
        reply,
    });
    let decided = decided.await.map_err(|_| ErrorCode::NOT_LEADER_OR_FOLLOWER)?;
    let deletion = decided.map_err(|failure| errors::of_deletion(&failure))?;
    Ok((id, deletion))
}

async fn finish(
    call: &Call,
    id: PartitionId,
    deletion: Deletion,
    deadline: Moment,
    partition: i32,
) -> DeleteRecordsPartitionResult {
    let Deletion { waiter, outcome } = deletion;
    let left = deadline.since(call.node.now());
    let error_code = match tokio::time::timeout(left, outcome).await {
        Ok(Ok(outcome)) => errors::of_wait(outcome),
        Ok(Err(_)) => ErrorCode::NOT_LEADER_OR_FOLLOWER,
        Err(_) => {
            if let Some(hosted) = call.node.partitions.get(id) {
                hosted.lane.send(Event::Forget(id, waiter));
            }
            errors::OUT_OF_TIME
        }
    };
    let is_known = [ErrorCode::NONE, errors::OUT_OF_TIME].contains(&error_code);
    let low_watermark = match is_known {
        true => low_watermark(call, id).await,
        false => UNKNOWN,
    };
    DeleteRecordsPartitionResult {
        partition_index: partition,
        low_watermark,
        error_code,
    }
}

async fn low_watermark(call: &Call, id: PartitionId) -> i64 {
    let Some(hosted) = call.node.partitions.get(id) else {
        return UNKNOWN;
    };
    let (reply, told) = oneshot::channel();
    hosted.lane.send(Event::LowWatermark(id, reply));
    told.await.ok().flatten().map_or(UNKNOWN, |start| start.0.0)
}

fn failed(partition: i32, code: ErrorCode) -> DeleteRecordsPartitionResult {
    DeleteRecordsPartitionResult {
        partition_index: partition,
        low_watermark: UNKNOWN,
        error_code: code,
    }
}

impl Refusable for DeleteRecordsRequest {
    fn refused(&self, _: &Call, code: ErrorCode) -> Option<DeleteRecordsResponse> {
        let topics = asked(self)
            .into_iter()
            .map(|(name, partitions)| DeleteRecordsTopicResult {
                name,
                partitions: partitions
                    .into_keys()
                    .map(|partition| failed(partition, code))
                    .collect(),
            });
        Some(DeleteRecordsResponse {
            topics: topics.collect(),
            ..Default::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};

    use super::*;

    #[test]
    fn of_a_partition_that_stands_there_twice_the_last_offset_counts() {
        let partition = |partition_index, offset| DeleteRecordsPartition {
            partition_index,
            offset,
        };
        let topic = |partitions| DeleteRecordsTopic {
            name: "t".into(),
            partitions,
        };
        let request = DeleteRecordsRequest {
            topics: vec![
                topic(vec![partition(0, 2), partition(0, 1)]),
                topic(vec![partition(0, 3)]),
            ],
            timeout_ms: 0,
        };
        assert_eq!(asked(&request)["t"], BTreeMap::from([(0, 3)]));
    }
}
