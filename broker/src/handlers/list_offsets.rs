//! ListOffsets: ends, starts and times of a log (L-47 to L-50).
//!
//! Must not: read records on a network worker; lookups by time go to a thread that may wait for the disk.

use std::collections::{BTreeMap, BTreeSet};

use broker_core::fetch::{self, LeaderHint};
use broker_core::replica::Serving;
use metadata::ids::{LeaderEpoch, PartitionId, PartitionIndex};
use partition_log::{Offset, TimestampedOffset};
use wire::ErrorCode;
use wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};

use super::{Call, Refusable, topics};
use crate::errors;
use crate::seam;
use crate::storage::hosted::{Hosted, Seen};

const CONSUMER: i32 = -1;
/// Tools may ask a follower.
const DEBUGGER: i32 = -2;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// First version that knows OFFSET_NOT_AVAILABLE.
const WITH_NOT_AVAILABLE: i16 = 5;

/// What is asked of one partition.
#[derive(Clone, Copy)]
struct Asked {
    replica: i32,
    read_committed: IsReadCommitted,
    version: i16,
    timestamp: i64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum IsReadCommitted {
    Yes,
    No,
}

/// Answers the request.
pub async fn answer(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse {
    let looks_up =
        |partition: &ListOffsetsPartition| 0 <= partition.timestamp || partition.timestamp == MAX_TIMESTAMP;
    if !request
        .topics
        .iter()
        .flat_map(|topic| &topic.partitions)
        .any(looks_up)
    {
        return all(&call, &request);
    }
    let kept = call.clone();
    let again = request.clone();
    let found = tokio::task::spawn_blocking(move || all(&call, &request)).await;
    found.unwrap_or_else(|_| refusal(&kept, &again, errors::CRASHED))
}

fn all(call: &Call, request: &ListOffsetsRequest) -> ListOffsetsResponse {
    if !(0..=1).contains(&request.isolation_level) {
        return refusal(call, request, errors::UNKNOWN_ISOLATION);
    }
    let mut times: BTreeMap<(&str, i32), usize> = BTreeMap::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            *times.entry((&topic.name, partition.partition_index)).or_default() += 1;
        }
    }
    let mut duplicates_told = BTreeSet::new();
    let topics = request
        .topics
        .iter()
        .map(|topic| {
            let partitions = topic.partitions.iter().filter_map(|partition| {
                let key = (topic.name.as_str(), partition.partition_index);
                if 1 < times[&key] {
                    // Once for each partition that stands there twice (L-47).
                    return duplicates_told
                        .insert(key)
                        .then(|| failed(partition.partition_index, ErrorCode::INVALID_REQUEST));
                }
                Some(one(call, request, &topic.name, partition))
            });
            ListOffsetsTopicResponse {
                name: topic.name.clone(),
                partitions: partitions.collect(),
            }
        })
        .filter(|topic| !topic.partitions.is_empty())
        .collect();
    ListOffsetsResponse {
        topics,
        ..Default::default()
    }
}

fn one(
    call: &Call,
    request: &ListOffsetsRequest,
    topic: &str,
    partition: &ListOffsetsPartition,
) -> ListOffsetsPartitionResponse {
    let asked = Asked {
        replica: request.replica_id,
        read_committed: if request.isolation_level == 1 {
            IsReadCommitted::Yes
        } else {
            IsReadCommitted::No
        },
        version: call.version.0,
        timestamp: partition.timestamp,
    };
    match find(call, asked, topic, partition) {
        Ok(found) => ListOffsetsPartitionResponse {
            partition_index: partition.partition_index,
            ..found
        },
        Err(code) => failed(partition.partition_index, code),
    }
}

fn find(
    call: &Call,
    asked: Asked,
    topic: &str,
    partition: &ListOffsetsPartition,
) -> Result<ListOffsetsPartitionResponse, ErrorCode> {
    let topic = call
        .image
        .topic_named(topic)
        .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let state =
        topics::partition(topic, partition.partition_index).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let id = PartitionId {
        topic: topic.id,
        index: PartitionIndex(partition.partition_index),
    };
    let hosted = call
        .node
        .partitions
        .find(id, state, call.node.id)
        .map_err(errors::of_absence)?;
    let seen = hosted.seen.load_full();
    admit(&seen, partition.current_leader_epoch, asked)?;
    offset(&hosted, &seen, asked)
}

/// The epoch, then who may answer (F-3, L-50). −1 is no claim; anything else below 0 is an epoch that is over.
fn admit(seen: &Seen, given: i32, asked: Asked) -> Result<(), ErrorCode> {
    if seen.view.serving == Serving::Offline {
        return Err(ErrorCode::KAFKA_STORAGE_ERROR);
    }
    let hint = LeaderHint {
        leader: seen.view.leader,
        epoch: seen.view.leader_epoch,
    };
    fetch::check_epoch((given != -1).then_some(LeaderEpoch(given)), hint)
        .map_err(|refusal| errors::of_fetch(&refusal))?;
    let leads = matches!(seen.view.serving, Serving::Leader { .. });
    if !leads && asked.replica != DEBUGGER {
        return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    }
    Ok(())
}

fn offset(hosted: &Hosted, seen: &Seen, asked: Asked) -> Result<ListOffsetsPartitionResponse, ErrorCode> {
    let bounds = hosted.log.bounds();
    let last_fetchable = match (asked.replica, asked.read_committed) {
        (CONSUMER, IsReadCommitted::Yes) => bounds.last_stable,
        (CONSUMER, IsReadCommitted::No) => bounds.high_watermark,
        _ => bounds.log_end,
    };
    // Until the watermark has reached the leadership's start, nobody knows where the committed log ends (L-49).
    let not_settled = match seen.view.serving {
        Serving::Leader { epoch_start, .. } => {
            asked.replica == CONSUMER && bounds.high_watermark < seam::to_log(epoch_start.0)
        }
        _ => false,
    };
    let not_available = if asked.version < WITH_NOT_AVAILABLE {
        ErrorCode::LEADER_NOT_AVAILABLE
    } else {
        ErrorCode::OFFSET_NOT_AVAILABLE
    };
    let start = || answered(bounds.log_start, -1, epoch_at_start(hosted, bounds.log_start));
    match asked.timestamp {
        LATEST if not_settled => Err(not_available),
        LATEST => Ok(answered(last_fetchable, -1, Some(seen.view.leader_epoch.0))),
        EARLIEST => Ok(start()),
        EARLIEST_LOCAL if 8 <= asked.version => Ok(start()),
        LATEST_TIERED if 9 <= asked.version => Ok(ListOffsetsPartitionResponse::default()),
        EARLIEST_PENDING_UPLOAD if 11 <= asked.version => Ok(ListOffsetsPartitionResponse::default()),
        MAX_TIMESTAMP if 7 <= asked.version => {
            let found = hosted
                .log
                .max_timestamp(last_fetchable)
                .map_err(|fault| errors::of_fault(&fault))?;
            by_time(found, not_settled, not_available)
        }
        timestamp if 0 <= timestamp => {
            let found = hosted.log.offset_for_timestamp(timestamp, last_fetchable);
            by_time(
                found.map_err(|fault| errors::of_fault(&fault))?,
                not_settled,
                not_available,
            )
        }
        _ => Err(ErrorCode::UNSUPPORTED_VERSION),
    }
}

fn by_time(
    found: Option<TimestampedOffset>,
    not_settled: bool,
    not_available: ErrorCode,
) -> Result<ListOffsetsPartitionResponse, ErrorCode> {
    match found {
        Some(found) => Ok(answered(
            found.offset,
            found.timestamp,
            found.leader_epoch.map(|epoch| epoch.0),
        )),
        None if not_settled => Err(not_available),
        None => Ok(ListOffsetsPartitionResponse::default()),
    }
}

/// The epoch of the first record, if the history reaches that far.
fn epoch_at_start(hosted: &Hosted, log_start: Offset) -> Option<i32> {
    hosted.log.epochs().epoch_at(log_start).map(|epoch| epoch.0)
}

fn answered(offset: Offset, timestamp: i64, epoch: Option<i32>) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse {
        timestamp,
        offset: offset.0,
        leader_epoch: epoch.unwrap_or(-1),
        ..Default::default()
    }
}

fn failed(partition_index: i32, error_code: ErrorCode) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse {
        partition_index,
        error_code,
        ..Default::default()
    }
}

fn refusal(_: &Call, request: &ListOffsetsRequest, code: ErrorCode) -> ListOffsetsResponse {
    let topics = request
        .topics
        .iter()
        .map(|topic| ListOffsetsTopicResponse {
            name: topic.name.clone(),
            partitions: topic
                .partitions
                .iter()
                .map(|partition| failed(partition.partition_index, code))
                .collect(),
        })
        .collect();
    ListOffsetsResponse {
        topics,
        ..Default::default()
    }
}

impl Refusable for ListOffsetsRequest {
    fn refused(&self, call: &Call, code: ErrorCode) -> Option<ListOffsetsResponse> {
        Some(refusal(call, self, code))
    }
}
