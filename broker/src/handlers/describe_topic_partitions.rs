//! DescribeTopicPartitions: partitions page by page, eligible leader replicas included (D-6, R3.39).
//!
//! Must not: create a topic.

use std::collections::BTreeSet;

use metadata::image::{Partition, Topic};
use wire::ErrorCode;
use wire::messages::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};

use super::topics::{self, KnowsListenerErrors, Leadership};
use super::{Call, Refusable, operations};

/// Answers the request.
pub fn answer(call: &Call, request: &DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse {
    let names = asked(call, request);
    let Ok(start) = start(request, &names) else {
        return refusal(request, call, ErrorCode::INVALID_REQUEST);
    };
    let configured = i32::try_from(call.node.settings.limits.described_partitions_max).unwrap_or(i32::MAX);
    let mut left = usize::try_from(request.response_partition_limit.min(configured).max(1)).unwrap_or(1);
    let mut response = DescribeTopicPartitionsResponse::default();
    for name in names
        .iter()
        .filter(|name| start.is_none_or(|cursor| cursor.topic_name <= **name))
    {
        let Some(topic) = call.image.topic_named(name) else {
            response.topics.push(unknown(name));
            continue;
        };
        let first = start
            .filter(|cursor| cursor.topic_name == *name)
            .map_or(0, |cursor| cursor.partition_index);
        if left == 0 {
            response.next_cursor = Some(Cursor {
                topic_name: name.clone(),
                partition_index: first,
            });
            break;
        }
        let partitions: Vec<_> = topic
            .partitions
            .iter()
            .skip_while(|(index, _)| index.0 < first)
            .take(left)
            .map(|(index, partition)| described(call, index.0, partition))
            .collect();
        left -= partitions.len();
        let next = first.saturating_add(i32::try_from(partitions.len()).unwrap_or(i32::MAX));
        response.topics.push(of_topic(topic, partitions));
        if usize::try_from(next).is_ok_and(|next| next < topic.partitions.len()) {
            response.next_cursor = Some(Cursor {
                topic_name: name.clone(),
                partition_index: next,
            });
            break;
        }
    }
    response
}

/// The names asked for, sorted; all when none is given.
fn asked(call: &Call, request: &DescribeTopicPartitionsRequest) -> BTreeSet<String> {
    if request.topics.is_empty() {
        return call.image.topic_names.keys().cloned().collect();
    }
    request.topics.iter().map(|topic| topic.name.clone()).collect()
}

struct BadCursor;

fn start<'a>(
    request: &'a DescribeTopicPartitionsRequest,
    names: &BTreeSet<String>,
) -> Result<Option<&'a Cursor>, BadCursor> {
    let Some(cursor) = &request.cursor else {
        return Ok(None);
    };
    let listed = request.topics.is_empty() || names.contains(&cursor.topic_name);
    if cursor.partition_index < 0 || !listed {
        Err(BadCursor)
    } else {
        Ok(Some(cursor))
    }
}

fn unknown(name: &str) -> DescribeTopicPartitionsResponseTopic {
    let code = if topics::is_valid_name(name) {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    } else {
        ErrorCode::INVALID_TOPIC_EXCEPTION
    };
    DescribeTopicPartitionsResponseTopic {
        error_code: code,
        name: Some(name.to_owned()),
        is_internal: topics::is_internal(name),
        topic_authorized_operations: operations::TOPIC,
        ..Default::default()
    }
}

fn of_topic(
    topic: &Topic,
    partitions: Vec<DescribeTopicPartitionsResponsePartition>,
) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::NONE,
        name: Some(topic.name.clone()),
        topic_id: topics::uuid(topic),
        is_internal: topics::is_internal(&topic.name),
        partitions,
        topic_authorized_operations: operations::TOPIC,
    }
}

fn described(call: &Call, index: i32, partition: &Partition) -> DescribeTopicPartitionsResponsePartition {
    let leadership = topics::leadership(&call.image, &call.listener, partition);
    // A partition without a leader is no error here, unlike in Metadata.
    let error_code = match leadership {
        Leadership::Nobody => ErrorCode::NONE,
        other => topics::leadership_code(other, KnowsListenerErrors::Yes),
    };
    DescribeTopicPartitionsResponsePartition {
        error_code,
        partition_index: index,
        leader_id: match leadership {
            Leadership::At(leader) => leader.0,
            Leadership::Nobody | Leadership::Unreachable(_) => -1,
        },
        leader_epoch: partition.leader_epoch.0,
        replica_nodes: topics::ids(&partition.replicas),
        isr_nodes: topics::ids(&partition.in_sync),
        eligible_leader_replicas: Some(topics::ids(&partition.eligible)),
        last_known_elr: Some(
            partition
                .last_known_leader
                .iter()
                .map(|leader| leader.0)
                .collect(),
        ),
        offline_replicas: topics::offline_replicas(&call.image, &call.listener, partition),
    }
}

fn refusal(
    request: &DescribeTopicPartitionsRequest,
    call: &Call,
    code: ErrorCode,
) -> DescribeTopicPartitionsResponse {
    let topics = asked(call, request)
        .into_iter()
        .map(|name| DescribeTopicPartitionsResponseTopic {
            error_code: code,
            name: Some(name),
            ..Default::default()
        })
        .collect();
    DescribeTopicPartitionsResponse {
        topics,
        ..Default::default()
    }
}

impl Refusable for DescribeTopicPartitionsRequest {
    fn refused(&self, call: &Call, code: ErrorCode) -> Option<DescribeTopicPartitionsResponse> {
        Some(refusal(self, call, code))
    }
}
