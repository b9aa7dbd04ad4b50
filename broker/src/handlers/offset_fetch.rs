//! OffsetFetch (G-50 to G-52): one group up to version 7, several from 8 on, topics by id in 10.
//!
//! Must not: answer "no offset" for a coordinator that does not serve yet.

use std::collections::BTreeMap;

use broker_core::group::{Fetch, FetchTopic, FetchedTopic, OffsetValue, Reply, Request, Stability};
use wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use wire::{ErrorCode, Uuid};

use super::{Call, Refusable, groups};
use crate::seam;

/// First version with several groups.
const SEVERAL_FROM: i16 = 8;
/// First version that names topics by id.
const WITH_IDS: i16 = 10;
/// The one version without a code for the whole answer.
const WITHOUT_CODE: i16 = 1;

/// Answers the request.
pub async fn answer(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse {
    let stability = if request.require_stable {
        Stability::AfterPendingWrites
    } else {
        Stability::Any
    };
    if SEVERAL_FROM <= call.version.0 {
        let mut answered = Vec::with_capacity(request.groups.len());
        for group in &request.groups {
            answered.push(one(&call, group, stability).await);
        }
        return OffsetFetchResponse {
            groups: answered,
            ..Default::default()
        };
    }
    let asked = as_group(&request);
    let answered = one(&call, &asked, stability).await;
    in_old_form(&call, &request, answered)
}

/// A request for one group in the form of one for several.
fn as_group(request: &OffsetFetchRequest) -> OffsetFetchRequestGroup {
    let topics = request.topics.as_ref().map(|topics| {
        let topic =
            |topic: &wire::messages::offset_fetch::OffsetFetchRequestTopic| OffsetFetchRequestTopics {
                name: topic.name.clone(),
                partition_indexes: topic.partition_indexes.clone(),
                ..Default::default()
            };
        topics.iter().map(topic).collect()
    });
    OffsetFetchRequestGroup {
        group_id: request.group_id.clone(),
        topics,
        ..Default::default()
    }
}

async fn one(call: &Call, group: &OffsetFetchRequestGroup, stability: Stability) -> OffsetFetchResponseGroup {
    let has_ids = WITH_IDS <= call.version.0;
    let id_of = |topic: &OffsetFetchRequestTopics| {
        groups::topic(call, &topic.name, topic.topic_id, has_ids).map(|known| known.id)
    };
    // A topic id that nobody has is refused here; the coordinator knows topics by name.
    let is_known = |topic: &&OffsetFetchRequestTopics| !has_ids || id_of(topic).is_some();
    let fetched = |topic: &OffsetFetchRequestTopics| FetchTopic {
        name: match id_of(topic).and_then(|id| call.image.topics.get(&id)) {
            Some(known) => known.name.as_str().into(),
            None => topic.name.as_str().into(),
        },
        id: id_of(topic),
        partitions: topic.partition_indexes.clone(),
    };
    let fetch = Fetch {
        group: group.group_id.as_str().into(),
        topics: group
            .topics
            .as_ref()
            .map(|topics| topics.iter().filter(is_known).map(fetched).collect()),
        stability,
    };
    let topics = match groups::ask(call, &group.group_id, Request::Fetch(fetch)).await {
        Ok(Reply::Fetch(topics)) => topics,
        Ok(_) => return refused(group, groups::mismatch()),
        Err(code) => return refused(group, code),
    };
    let topics = match &group.topics {
        None => topics
            .into_iter()
            .filter_map(|topic| everything(call, topic))
            .collect(),
        Some(asked) => {
            let mut found = topics.into_iter();
            let answer = |asked: &OffsetFetchRequestTopics| {
                if is_known(&asked) {
                    found
                        .next()
                        .map(|topic| shown(asked.name.clone(), asked.topic_id, topic))
                } else {
                    Some(unknown(asked))
                }
            };
            asked.iter().filter_map(answer).collect()
        }
    };
    OffsetFetchResponseGroup {
        group_id: group.group_id.clone(),
        topics,
        ..Default::default()
    }
}

/// One topic of a fetch of everything; nothing if the topic it was committed for is gone.
fn everything(call: &Call, mut topic: FetchedTopic) -> Option<OffsetFetchResponseTopics> {
    let now = call.image.topic_named(topic.name.as_str());
    topic.partitions.retain(|(_, value)| {
        let committed_for = value.as_ref().and_then(|value| value.topic);
        committed_for.is_none_or(|id| now.is_some_and(|now| now.id == id))
    });
    if topic.partitions.is_empty() {
        return None;
    }
    let (name, id) = (
        topic.name.as_str().to_owned(),
        now.map(|now| seam::topic_to_wire(now.id)),
    );
    if WITH_IDS <= call.version.0 && id.is_none() {
        return None;
    }
    Some(shown(name, id.unwrap_or(Uuid::ZERO), topic))
}

fn shown(name: String, topic_id: Uuid, topic: FetchedTopic) -> OffsetFetchResponseTopics {
    let partition = |(index, value): (i32, Option<OffsetValue>)| {
        let (offset, epoch, metadata) = value.map_or((-1, None, String::new()), |value| {
            (value.offset, value.leader_epoch, value.metadata)
        });
        OffsetFetchResponsePartitions {
            partition_index: index,
            committed_offset: offset,
            committed_leader_epoch: epoch.unwrap_or(-1),
            metadata: Some(metadata),
            ..Default::default()
        }
    };
    OffsetFetchResponseTopics {
        name,
        topic_id,
        partitions: topic.partitions.into_iter().map(partition).collect(),
    }
}

fn unknown(asked: &OffsetFetchRequestTopics) -> OffsetFetchResponseTopics {
    let partition = |index: &i32| OffsetFetchResponsePartitions {
        partition_index: *index,
        committed_offset: -1,
        metadata: Some(String::new()),
        error_code: ErrorCode::UNKNOWN_TOPIC_ID,
        ..Default::default()
    };
    OffsetFetchResponseTopics {
        name: asked.name.clone(),
        topic_id: asked.topic_id,
        partitions: asked.partition_indexes.iter().map(partition).collect(),
    }
}

fn refused(group: &OffsetFetchRequestGroup, error_code: ErrorCode) -> OffsetFetchResponseGroup {
    OffsetFetchResponseGroup {
        group_id: group.group_id.clone(),
        error_code,
        ..Default::default()
    }
}

/// Up to version 7 a group's code is that of the answer; in version 1 it stands at each partition.
fn in_old_form(
    call: &Call,
    request: &OffsetFetchRequest,
    answered: OffsetFetchResponseGroup,
) -> OffsetFetchResponse {
    if answered.error_code.is_error() && call.version.0 <= WITHOUT_CODE {
        return OffsetFetchResponse {
            topics: at_each_partition(request, answered.error_code),
            ..Default::default()
        };
    }
    let partition = |partition: OffsetFetchResponsePartitions| OffsetFetchResponsePartition {
        partition_index: partition.partition_index,
        committed_offset: partition.committed_offset,
        committed_leader_epoch: partition.committed_leader_epoch,
        metadata: partition.metadata,
        error_code: partition.error_code,
    };
    let topic = |topic: OffsetFetchResponseTopics| OffsetFetchResponseTopic {
        name: topic.name,
        partitions: topic.partitions.into_iter().map(partition).collect(),
    };
    OffsetFetchResponse {
        topics: answered.topics.into_iter().map(topic).collect(),
        error_code: answered.error_code,
        ..Default::default()
    }
}

fn at_each_partition(request: &OffsetFetchRequest, error_code: ErrorCode) -> Vec<OffsetFetchResponseTopic> {
    let mut topics: BTreeMap<usize, OffsetFetchResponseTopic> = BTreeMap::new();
    for (place, topic) in request.topics.iter().flatten().enumerate() {
        let partition = |index: &i32| OffsetFetchResponsePartition {
            partition_index: *index,
            committed_offset: -1,
            metadata: Some(String::new()),
            error_code,
            ..Default::default()
        };
        topics.insert(
            place,
            OffsetFetchResponseTopic {
                name: topic.name.clone(),
                partitions: topic.partition_indexes.iter().map(partition).collect(),
            },
        );
    }
    topics.into_values().collect()
}

impl Refusable for OffsetFetchRequest {
    fn refused(&self, call: &Call, code: ErrorCode) -> Option<OffsetFetchResponse> {
        if SEVERAL_FROM <= call.version.0 {
            return Some(OffsetFetchResponse {
                groups: self.groups.iter().map(|group| refused(group, code)).collect(),
                ..Default::default()
            });
        }
        let answered = refused(&as_group(self), code);
        Some(in_old_form(call, self, answered))
    }
}
